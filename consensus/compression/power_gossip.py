"""PowerGossip: low-rank gossip between neighbours."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from consensus.communication import Edges
from consensus.communication.network import Network
from consensus.compression.base import generator
from consensus.compression.low_rank import LowRank, Matrices, orthonormal, outside
from consensus.compression.remembering import Exchange, RememberingState, RememberingWrapper
from consensus.problems import BaseProblem
from consensus.solvers.needs import Needs
from topologies.schedules import ScheduleLike, is_static


@dataclass(frozen=True)
class PowerGossip(RememberingWrapper):
    """Another solver with low-rank gossip wherever it mixes: neighbours average their difference along a few directions.

    Every edge {i, j} has orthonormal directions P for each matrix M (m, n) in the vectors that are mixed. In a round

        D = (M_i - M_j) P          M_i <- M_i - W_ij D P'          M_j <- M_j + W_ij D P'          P <- orth(D)

    for all edges at once; in the next round the same with the transposed matrices: a step of the power method for the largest
    difference. Numbers that are in no matrix are mixed uncompressed. For the m n numbers of a matrix an edge carries r m
    numbers each way in even rounds, r n in odd ones. The sum over agents does not change. If two agents do not differ at all,
    they draw new directions.

    W must be symmetric and static, because directions belong to edges. The two ends of an edge compute its directions
    separately and must get the same bits: ranks on machines of different kinds may not.

    Parameters
    ----------
    solver : Solver
        Solver that exchanges by ``network.mix``, with a step size: :class:`DGD`, as in the paper, or :class:`GradientTracking`,
        which converges to the optimum.
    rank : int
        Rank r.
    layers : tuple of (start, m, n), optional
        Positions of the matrices, as ``matrices`` of :class:`LowRank`; the weights of the model's layers by default.
    seed : int
        Seed of the first directions, >= 0.

    Raises
    ------
    TypeError
        If ``solver`` cannot be wrapped; when a run begins, if neither ``layers`` nor the problem's model gives matrices.
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
    >>> solver = PowerGossip(GradientTracking(0.02), rank=1, layers=((0, 6, 5),))
    >>> result = consensus.solve(problem, topologies.ring(5), solver, rounds=300, record_every=100)
    >>> bool(abs(result.w - 2).max() < 1e-10)
    True
    """

    rank: int = 1
    layers: Matrices | None = None
    seed: int = 0
    most: int = field(default=0, init=False, repr=False, compare=False)  # most neighbours of an agent; prepared counts them

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "layers", self._low_rank().matrices)
        object.__setattr__(self, "rank", int(self.rank))
        object.__setattr__(self, "seed", int(self.seed))

    def _low_rank(self) -> LowRank:
        """Return the compressor with these settings, which has the same checks and defaults."""
        return LowRank(self.rank, self.layers, self.seed)

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
        return max(super().width(problem), self.vectors * self.most * (self._directions + problem.parameters))

    def memory(self, problem: BaseProblem, w: np.ndarray) -> np.ndarray:
        return np.zeros_like(
            w, shape=(len(w), self.vectors, self.most, self._directions)
        )  # directions; zero if there are none yet

    @property
    def _directions(self) -> int:
        """Numbers that hold an edge's directions."""
        assert self.layers is not None, "prepared finds them"
        return self.rank * sum(max(m, n) for _, m, n in self.layers)

    def exchange(self, problem: BaseProblem, network: Network, state: RememberingState) -> Exchange:
        return _Directions(self, problem, network, state)


class _Directions(Exchange):
    """A network whose neighbours compare matrices along directions."""

    def __init__(self, wrapper: PowerGossip, problem: BaseProblem, network: Network, state: RememberingState) -> None:
        super().__init__(wrapper, problem, network, state)
        assert wrapper.layers is not None, "prepared finds them"
        self.layers, self.rank, self.seed = wrapper.layers, wrapper.rank, wrapper.seed

    def mix(self, round: int, *blocks: np.ndarray, beside: int = 0) -> tuple[np.ndarray, ...]:
        if not all(self.is_vector(self.array(block)) for block in blocks):
            raise TypeError(f"solver of PowerGossip must mix vectors of {self.problem.parameters} numbers alone")
        edges, dtype = self.network.edges(round), self.network.dtype
        rows, places = [block.astype(dtype, copy=False) for block in blocks], [self.place() for _ in blocks]
        # Both ends of an edge compute the same difference, that of the agent with the higher number less the other.
        sign = np.where(self.problem.rows[:, None] > edges.others, 1, -1)[:, :, None].astype(dtype)
        directions = [self._directions(edges, place) for place in places]
        views = [self._matrices(block) for block in rows]
        sent = [_flat(m[:, None] @ d) for own, theirs in zip(views, directions) for m, d in zip(own, theirs)]
        rest = outside(self.layers, self.problem.parameters)
        sent += [np.broadcast_to(block[:, None, rest], (*edges.there.shape, rest.sum())) for block in rows]
        messages = np.concatenate(sent, axis=2)
        # Adding 0 makes -0.0 positive: the sign of the first number decides which way a direction points.
        differences = sign * (messages - self.network.send_each(round, edges, messages, beside)) + dtype.type(0)
        steps = -sign * edges.weights[:, :, None].astype(dtype)
        self.memory, new, end = self.memory.copy(), [block.copy() for block in rows], 0
        for block, place, along in zip(new, places, directions):
            stored = []
            for matrix, direction in zip(self._matrices(block), along):
                start, end = end, end + matrix.shape[1] * self.rank
                D = differences[:, :, start:end].reshape(*edges.there.shape, matrix.shape[1], self.rank)
                for edge in range(edges.there.shape[1]):
                    matrix += steps[:, edge, :, None] * (D[:, edge] @ direction[:, edge].swapaxes(1, 2))
                stored.append(_flat(np.where(D.any(axis=(2, 3), keepdims=True), orthonormal(D), 0)))
            remembered = np.concatenate(stored, axis=2)
            self.memory[:, place] = 0
            self.memory[:, place, :, : remembered.shape[2]] = remembered
        for block in new:
            start, end = end, end + rest.sum()
            for edge in range(edges.there.shape[1]):
                block[:, rest] += steps[:, edge] * differences[:, edge, start:end]
        return tuple(new)

    def _matrices(self, block: np.ndarray) -> list[np.ndarray]:
        """Return views (agents, m, n) of the matrices in a block, transposed in every other round."""
        matrices = [block[:, start : start + m * n].reshape(-1, m, n) for start, m, n in self.layers]
        return [matrix.swapaxes(1, 2) for matrix in matrices] if self.round % 2 else matrices

    def _directions(self, edges: Edges, place: int) -> list[np.ndarray]:
        """Return the directions (agents, most, n, r) of each matrix, drawn if an edge has none."""
        stored, end, found = self.memory[:, place], 0, []
        sides = [(n, m)[self.round % 2] for _, m, n in self.layers]
        for layer, side in enumerate(sides):
            start, end = end, end + side * self.rank
            directions = stored[:, :, start:end].reshape(*edges.there.shape, side, self.rank)
            missing = np.argwhere(edges.there & ~directions.any(axis=(2, 3)))
            if len(missing):
                directions = directions.copy()
                number = (self.round * self.wrapper.vectors + place) * len(sides) + layer
                for row, edge in missing.tolist():
                    pair = sorted((int(self.problem.rows[row]), int(edges.others[row, edge])))
                    rng = generator(self.seed, pair[0] * self.network.agents + pair[1], number)
                    directions[row, edge] = orthonormal(rng.standard_normal((side, self.rank)))
            found.append(directions)
        return found


def _flat(array: np.ndarray) -> np.ndarray:
    """Return (agents, most, ...) as (agents, most, numbers)."""
    return array.reshape(*array.shape[:2], -1)
