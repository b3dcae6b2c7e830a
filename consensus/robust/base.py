"""The base class of robust aggregation rules, which replace the weighted sum of mixing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy import sparse

from consensus import _checks
from consensus.communication import Messages, Network
from consensus.robust.changed_network import Block, ChangedNetwork, MessageWrapper
from consensus.robust.pre_aggregation import PreAggregation
from consensus.solvers.needs import Needs
from topologies.schedules import ScheduleLike, is_static

if TYPE_CHECKING:
    from jaxtyping import Float

SLACK = 1e-6  # relative: sums of weights are compared up to rounding, in float32 too


@dataclass(frozen=True)
class Robust(MessageWrapper):
    """Another solver that mixes by a robust rule: ``aggregate`` takes the place of W x.

    Each block that is mixed is aggregated by itself, as one vector per agent. If an agent of a time-varying network receives
    in some round no more weight than the rule excludes, it keeps its own row in that round. The theory covers methods that
    average iterates and descend. Gradient tracking relies on the sum of its trackers, which a robust rule does not conserve.
    :func:`consensus.testing.check_robust` tries a rule of your own.

    Parameters
    ----------
    solver : Solver
        A solver for doubly stochastic matrices. Other wrappers that change exchanges, such as
        :class:`consensus.solvers.Gossip`, go inside.
    byzantine_weight : float
        Tolerated weight b of Byzantine agents, in [0, 1): those among the neighbours j of each agent i must have
        ``sum_j W_ij <= b``. With b = 0 the rule is W x.
    before : PreAggregation, optional
        Preparation of the messages: :class:`NNM` or :class:`Bucketing`.

    Raises
    ------
    ValueError
        If ``byzantine_weight`` is out of range. In :meth:`check_network`, if some agent of a static network receives so little
        weight that the rule excludes all of it.
    TypeError
        If ``solver`` cannot be wrapped, or ``before`` is not a pre-aggregation.

    Warns
    -----
    UserWarning
        In :meth:`check_network`, if a single neighbour of some agent of a static network weighs more than is tolerated.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.robust import Attack, Robust, SignFlip
    >>> class Median(Robust):
    ...     def aggregate(self, messages):
    ...         of = [messages.rows[messages.sources[messages.receivers == i]] for i in range(len(messages.own))]
    ...         return np.array([np.median([own, *rows], axis=0) for own, rows in zip(messages.own, of)])
    >>> centres = np.linspace(9.7, 10.3, 7)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=7, parameters=1)
    >>> network = topologies.Static(topologies.complete(7), weights=topologies.max_degree)
    >>> for solver in (consensus.solvers.DGD(0.01), Median(consensus.solvers.DGD(0.01), byzantine_weight=0.2)):
    ...     result = consensus.solve(problem, network, Attack(solver, byzantine=[3], attack=SignFlip()), rounds=100)
    ...     print(result.mean.round(1).tolist())  # the honest minimiser is 10
    [3.0]
    [9.9]
    """

    byzantine_weight: float
    before: PreAggregation | None = None

    excluded = 1  # the rule ignores or clips this multiple of the tolerated weight

    def __post_init__(self) -> None:
        super().__post_init__()
        self._takes_mix()
        if self.before is not None and not isinstance(self.before, PreAggregation):
            raise TypeError(
                f"before must be a pre-aggregation, such as NNM() or Bucketing(2); got {_checks.shown(self.before)}"
            )
        below = 1 if self.before is None else 1 / self.before.spread
        weight = _checks.number("byzantine_weight", self.byzantine_weight, least=0, below=below)
        object.__setattr__(self, "byzantine_weight", weight)

    @property
    def needs(self) -> Needs:
        return replace(super().needs, each_message=True)

    def check_network(self, schedule: ScheduleLike) -> None:
        super().check_network(schedule)
        if not (self.byzantine_weight and is_static(schedule)):
            return
        matrix = schedule.weights(schedule.key(0))
        received = matrix.sum(axis=1) - matrix.diagonal()
        agent, excluded = int(received.argmin()), self.excluded * (self.before.spread if self.before else 1)
        least = received[agent] / excluded
        if self.byzantine_weight >= least * (1 - SLACK):
            part = "the weight" if excluded == 1 else f"1/{excluded} of the weight"
            raise ValueError(
                f"byzantine_weight must be below {least:.4g}, {part} of the neighbours of agent {agent}, or all of them are "
                f"excluded; got {self.byzantine_weight:g}"
            )
        self._warn_of_heavy_neighbours(matrix)

    def _warn_of_heavy_neighbours(self, matrix: sparse.csr_array) -> None:
        """Warn if a single Byzantine neighbour of some agent would be more than is tolerated."""
        entries = matrix.tocoo()
        weights = np.where(entries.row == entries.col, 0, entries.data)
        heaviest = int(weights.argmax())
        if self.byzantine_weight < weights[heaviest] * (1 - SLACK):
            _checks.warn(
                f"byzantine_weight={self.byzantine_weight:g} is less than one neighbour's weight: agent "
                f"{entries.row[heaviest]} gives agent {entries.col[heaviest]} {weights[heaviest]:.4g}, and does not "
                "tolerate that this one is Byzantine"
            )

    @abstractmethod
    def aggregate(self, messages: Messages) -> Float[np.ndarray, "agents P"]:
        """Return the agents' new rows.

        Parameters
        ----------
        messages : Messages
            The messages of one exchange.

        Returns
        -------
        ndarray (agents, P)
            The new rows.
        """

    def around(self, network: Network) -> Network:
        if self.before is None:
            return cast(Network, RobustNetwork(network, self.aggregate))
        then = replace(self, byzantine_weight=self.byzantine_weight * self.before.spread, before=None)
        return cast(Network, PreAggregatingNetwork(network, then.aggregate, self.before, self.byzantine_weight))


@dataclass(frozen=True)
class RobustNetwork(ChangedNetwork):
    """A network that mixes by a robust rule."""

    rule: Callable[[Messages], np.ndarray]

    def mix(self, round: int, *blocks: Block, beside: int = 0) -> tuple[np.ndarray, ...]:
        return self.network.aggregate(round, self.rule, *blocks, beside=beside)


@dataclass(frozen=True)
class PreAggregatingNetwork(RobustNetwork):
    """A network that prepares the messages of each exchange and then mixes by a robust rule."""

    before: PreAggregation
    byzantine_weight: float

    def mix(self, round: int, *blocks: Block, beside: int = 0) -> tuple[np.ndarray, ...]:
        here = self.network.rows
        agents = np.arange(here.start, here.stop)

        def rule(messages: Messages) -> np.ndarray:
            return self.rule(self.before(messages, self.byzantine_weight, agents, round))

        return self.network.aggregate(round, rule, *blocks, beside=beside)


class Differences(NamedTuple):
    """Messages relative to the rows of their receivers. Rows that are not finite have distance infinity and difference zero.

    ``differences`` x_j - x_i (arcs, P) have the norms ``distances``; ``farther`` is for each message the weight of the messages
    to the same agent that are farther away.
    """

    differences: np.ndarray
    distances: np.ndarray
    farther: np.ndarray

    @classmethod
    def of(cls, messages: Messages) -> Differences:
        """Return the differences of a block's messages."""
        differences = messages.differences()
        distances = np.linalg.norm(differences, axis=1)
        distances = distances.host() if hasattr(distances, "host") else distances  # a number of each message decides there
        strange = ~np.isfinite(distances)
        differences[strange], distances[strange] = 0, np.inf
        receivers, arcs = messages.receivers, np.arange(len(distances))
        order = np.lexsort((-distances, receivers))  # farthest first; of equal ones the first sender
        place = arcs - np.searchsorted(receivers, receivers)
        # One row per agent, summed from the left: sums do not depend on the other agents of the block.
        weights = np.zeros((len(messages.own), 2 + place.max(initial=-1)))
        weights[receivers, place + 1] = messages.weights[order]
        farther = np.empty(len(arcs))
        farther[order] = weights.cumsum(axis=1)[receivers, place]
        return cls(differences, distances, farther)


def clipped(messages: Messages, relative: Differences, levels: np.ndarray) -> np.ndarray:
    """Return ``x_i + sum_j W_ij min(1, t_i / |x_j - x_i|) (x_j - x_i)``, shape (agents, P), for levels t (agents,)."""
    level = levels[messages.receivers]
    kept = np.divide(level, relative.distances, out=np.ones(len(level)), where=~(relative.distances <= level))
    return bare(messages.own + messages.total(relative.differences, messages.weights * kept))


def bare(rows: np.ndarray) -> np.ndarray:
    """Return rows as a plain array, such as masked ones that mask nothing; those of a device stay there."""
    return rows if hasattr(rows, "host") else np.asarray(rows)
