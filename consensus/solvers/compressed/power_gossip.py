"""Another solver whose neighbours compare their matrices along one direction after another."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from consensus.communication.network import Network
from consensus.compression.base import generator
from consensus.compression.low_rank import LowRank, orthonormal
from consensus.problems import BaseProblem
from consensus.solvers.compressed.remembering import Exchange, RememberingState, RememberingWrapper
from consensus.solvers.needs import Needs
from topologies.schedules import ScheduleLike, is_static


@dataclass(frozen=True)
class PowerGossip(RememberingWrapper):
    """Another solver with low-rank gossip wherever it mixes: neighbours average their difference along a few directions.

    Every edge {i, j} has directions P, orthonormal, for each matrix M (m, n) in the vectors that are mixed. In a round

        D = (M_i - M_j) P          M_i <- M_i - W_ij D P'          M_j <- M_j + W_ij D P'          P <- orth(D)

    for all edges at once; in the next round the same with the transposed matrices: a step of the power method, which finds
    where the two differ most. Numbers that are in no matrix are mixed as they are. Over an edge travel r m numbers, then r n,
    and so on, each way, for the m n of a matrix. The sum over agents does not change. Where two agents do not differ at all
    they draw a direction anew.

    W must be symmetric and static: who remembers a direction for an edge needs that edge. The two ends of an edge compute its
    directions by themselves, and must come to the same: ranks on machines of different kinds may not.

    Parameters
    ----------
    solver : Solver
        Such as :class:`DGD`, as in the paper, or :class:`GradientTracking`, which ends at the optimum; with its step given. Its
        exchanges must be ``network.mix``.
    rank : int
        r.
    layers : tuple of (start, m, n), optional
        Where the matrices are, as ``matrices`` of :class:`LowRank`; by default the weights of the model's layers.
    seed : int
        >= 0, of the first directions.

    Raises
    ------
    TypeError
        If ``solver`` is none that can be wrapped; when a run begins, if nobody says where the matrices are.
    ValueError
        If a setting is out of range; when a run begins, if the network changes, or no message would be shorter.

    References
    ----------
    Vogels, Karimireddy, Jaggi, "Practical low-rank communication compression in decentralized deep learning", NeurIPS 2020,
    Algorithm 1, with one step a round and a warm start.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import GradientTracking
    >>> from consensus.solvers import PowerGossip
    >>> centres = np.arange(5.0)[:, None] * np.ones(30)
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=30)
    >>> solver = PowerGossip(GradientTracking(0.01), rank=1, layers=((0, 6, 5),))
    >>> result = consensus.solve(problem, topologies.ring(5), solver, rounds=1000, record_every=100)
    >>> bool(abs(result.w - 2).max() < 1e-10)
    True
    """

    rank: int = 1
    layers: tuple[tuple[int, int, int], ...] | None = None
    seed: int = 0
    most: int = field(default=0, init=False, repr=False, compare=False)  # neighbours of an agent; prepared counts them

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "layers", self._low_rank().matrices)
        object.__setattr__(self, "rank", int(self.rank))
        object.__setattr__(self, "seed", int(self.seed))

    def _low_rank(self):
        """The compressor with these settings, whose checks and defaults are this one's, too."""
        return LowRank(self.rank, self.layers, self.seed)

    def _matrices(self):
        assert self.layers is not None, "prepared finds them"
        return self.layers

    @property
    def needs(self) -> Needs:
        return replace(super().needs, mixing="symmetric")

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        self._low_rank().check(problem)

    def check_network(self, schedule: ScheduleLike) -> None:
        super().check_network(schedule)
        if not is_static(schedule):
            raise ValueError(
                f"PowerGossip remembers a direction for every edge, and the edges of {schedule} may change: give a static "
                "network, as topologies.Static(graph)"
            )

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        layers = self._low_rank().prepared(problem).matrices
        ready = super(PowerGossip, replace(self, layers=layers)).prepared(problem, network)
        entries = network.weights(network.key(0)).tocoo()
        neighbours = entries.row[(entries.row != entries.col) & (entries.data != 0)]
        object.__setattr__(ready, "most", max(1, np.bincount(neighbours, minlength=1).max()))
        return ready

    def width(self, problem: BaseProblem) -> int:
        directions = self.rank * sum(max(m, n) for _, m, n in self._matrices())
        return max(super().width(problem), self.vectors * self.most * (directions + problem.parameters))

    def memory(self, problem: BaseProblem, w: np.ndarray) -> np.ndarray:
        """The directions (agents, vectors, most, width), zero where there are none yet."""
        width = self.rank * sum(max(m, n) for _, m, n in self._matrices())
        return np.zeros((len(w), self.vectors, self.most, width), w.dtype)

    def exchange(self, problem: BaseProblem, network: Network, state: RememberingState) -> Exchange:
        return _Directions(self, problem, network, state)


class _Directions(Exchange):
    """A network whose neighbours compare matrices along directions."""

    def mix(self, round, *blocks, beside=0):
        if not all(self.whole(block) for block in blocks):
            raise TypeError(f"solver of PowerGossip must mix vectors of {self.problem.parameters} numbers alone")
        ends, dtype = self.network.edges(round), self.network.dtype
        blocks, places = [block.astype(dtype, copy=False) for block in blocks], [self.place() for _ in blocks]
        # Both ends of an edge compute the same difference, that of the agent with the higher number less the other.
        sign = np.where(self.problem.rows[:, None] > ends.others, 1, -1)[:, :, None].astype(dtype)
        views = [self._views(block) for block in blocks]
        along = [self._along(ends, place) for place in places]
        said = [_flat(m[:, None] @ d) for ours, theirs in zip(views, along) for m, d in zip(ours, theirs)]
        rest = self._rest()
        said += [np.broadcast_to(block[:, None, rest], (*ends.there.shape, rest.sum())) for block in blocks]
        said = np.concatenate(said, axis=2)
        # With zeros of one sign: by that of its first number is decided which way a direction points.
        apart = sign * (said - self.network.send_each(round, ends, said, beside)) + dtype.type(0)
        steps = -sign * ends.weights[:, :, None].astype(dtype)
        self.memory, new, at = self.memory.copy(), [block.copy() for block in blocks], 0
        for block, place, directions in zip(new, places, along):
            stored = []
            for matrix, direction in zip(self._views(block), directions):
                difference = apart[:, :, at : at + matrix.shape[1] * direction.shape[3]]
                at += difference.shape[2]
                difference = difference.reshape(*direction.shape[:2], matrix.shape[1], -1)
                for edge in range(ends.there.shape[1]):
                    change = difference[:, edge] @ direction[:, edge].swapaxes(1, 2)
                    matrix += steps[:, edge, :, None] * change
                there = difference.any(axis=(2, 3), keepdims=True)
                stored.append(_flat(np.where(there, orthonormal(difference), 0)))
            stored = np.concatenate(stored, axis=2)
            self.memory[:, place] = 0
            self.memory[:, place, :, : stored.shape[2]] = stored
        for block in new:
            part = apart[:, :, at : at + rest.sum()]
            at += part.shape[2]
            for edge in range(ends.there.shape[1]):
                block[:, rest] += steps[:, edge] * part[:, edge]
        return tuple(new)

    def _views(self, block):
        """The matrices (agents, m, n) in a block, transposed in every other round."""
        matrices = [block[:, start : start + m * n].reshape(-1, m, n) for start, m, n in self.wrapper._matrices()]
        return [matrix.swapaxes(1, 2) for matrix in matrices] if self.round % 2 else matrices

    def _rest(self):
        """Which numbers are in no matrix."""
        rest = np.ones(self.problem.parameters, bool)
        for start, m, n in self.wrapper._matrices():
            rest[start : start + m * n] = False
        return rest

    def _along(self, ends, place):
        """The directions (agents, most, n, r) of each matrix, drawn where there are none."""
        wrapper, stored, start, found = self.wrapper, self.memory[:, place], 0, []
        sides = [(n, m)[self.round % 2] for _, m, n in wrapper._matrices()]
        for layer, side in enumerate(sides):
            directions = stored[:, :, start : start + side * wrapper.rank].reshape(*ends.there.shape, side, wrapper.rank)
            start += side * wrapper.rank
            missing = np.argwhere(ends.there & ~directions.any(axis=(2, 3)))
            if len(missing):
                directions = directions.copy()
                number = (self.round * wrapper.vectors + place) * len(sides) + layer
                for row, edge in missing.tolist():
                    pair = sorted((int(self.problem.rows[row]), int(ends.others[row, edge])))
                    rng = generator(wrapper.seed, pair[0] * self.network.agents + pair[1], number)
                    directions[row, edge] = orthonormal(rng.standard_normal((side, wrapper.rank)))
            found.append(directions)
        return found


def _flat(array):
    """(agents, most, ...) as (agents, most, numbers)."""
    return array.reshape(*array.shape[:2], -1)
