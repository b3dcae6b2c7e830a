"""Aggregation rules that tolerate liars, in place of the weighted sum that a network mixes."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np

from consensus import _checks
from consensus.communication.messages import Messages
from consensus.communication.network import Network
from consensus.robust.network import ChangedNetwork, MessageWrapper
from consensus.robust.pre_aggregation import PreAggregation
from consensus.solvers.needs import Needs
from topologies.schedules import ScheduleLike, is_static

SLACK = 1e-6  # of a weight: sums of weights are compared with each other up to rounding, in float32 too


@dataclass(frozen=True)
class Robust(MessageWrapper):
    """Another solver whose agents do not believe everything that they hear: :meth:`aggregate` takes the place of W x.

    Each block that is mixed is aggregated by itself, as one vector. On networks that change, who in a round hears no more
    weight than it would leave out keeps its own row. Theory is of methods that average iterates and descend; the sum of
    trackers, on which gradient tracking stands, is no longer kept.

    Parameters
    ----------
    solver : Solver
        One for doubly stochastic matrices. What else changes exchanges, as :class:`consensus.solvers.Gossip`, goes inside.
    tolerated : float
        b, the weight of liars that every agent tolerates, in [0, 1): the liars j that agent i hears must have
        ``sum_j W_ij <= b``. With 0 what is left is W x.
    before : PreAggregation, optional
        What agents do with the messages first: :class:`NNM` or :class:`Bucketing`.

    Raises
    ------
    ValueError
        If ``tolerated`` is out of range; in :meth:`check_network`, if some agent of a static network hears so little that with
        it nobody is listened to.
    TypeError
        If ``solver`` is none that can be wrapped, or ``before`` no pre-aggregation.

    Warns
    -----
    UserWarning
        In :meth:`check_network`, if one neighbour of some agent of a static network has a larger weight than is tolerated.
    """

    tolerated: float
    before: PreAggregation | None = None

    left_out = 1  # times the tolerated weight is what an agent does not listen to

    def __post_init__(self) -> None:
        super().__post_init__()
        self._takes_mix()
        if self.before is not None and not isinstance(self.before, PreAggregation):
            raise TypeError(
                f"before must be a pre-aggregation, such as NNM() or Bucketing(2); got {_checks.shown(self.before)}"
            )
        below = 1 if self.before is None else 1 / self.before.spread
        object.__setattr__(self, "tolerated", _checks.number("tolerated", self.tolerated, least=0, below=below))

    @property
    def needs(self) -> Needs:
        return replace(super().needs, each_message=True)

    def check_network(self, schedule: ScheduleLike) -> None:
        super().check_network(schedule)
        if not (self.tolerated and is_static(schedule)):
            return
        matrix = schedule.weights(schedule.key(0))
        heard = matrix.sum(axis=1) - matrix.diagonal()
        agent, left_out = int(heard.argmin()), self.left_out * (self.before.spread if self.before else 1)
        least = heard[agent] / left_out
        if self.tolerated >= least * (1 - SLACK):
            part = "the weight" if left_out == 1 else f"1/{left_out} of the weight"
            raise ValueError(
                f"tolerated must be below {least:.4g}, {part} of those whom agent {agent} hears, or it listens to nobody; got "
                f"{self.tolerated:g}"
            )
        self._warn_of_heavy_neighbours(matrix)

    def _warn_of_heavy_neighbours(self, matrix):
        """Say so if one neighbour of some agent, should it lie, is already more than is tolerated."""
        others = matrix.tocoo()
        weights = np.where(others.row == others.col, 0, others.data)
        heaviest = int(weights.argmax())
        if self.tolerated < weights[heaviest] * (1 - SLACK):
            _checks.warn(
                f"tolerated={self.tolerated:g} is less than one neighbour's weight: agent {others.row[heaviest]} gives agent "
                f"{others.col[heaviest]} {weights[heaviest]:.4g}, and would not tolerate that this one lies"
            )

    @abstractmethod
    def aggregate(self, heard: Messages) -> np.ndarray:
        """The agents' new rows (agents, P)."""

    def around(self, network: Network) -> Network:
        if self.before is None:
            return cast(Network, RobustNetwork(network, self.aggregate))
        then = replace(self, tolerated=self.tolerated * self.before.spread, before=None)
        return cast(Network, PreAggregatingNetwork(network, then.aggregate, self.before, self.tolerated))


@dataclass(frozen=True)
class RobustNetwork(ChangedNetwork):
    """A network that mixes by the rule ``aggregate``."""

    aggregate_rows: Callable[[Messages], np.ndarray]

    def mix(self, round, *blocks, beside=0):
        return self.network.aggregate(round, self.aggregate_rows, *blocks, beside=beside)


@dataclass(frozen=True)
class PreAggregatingNetwork(RobustNetwork):
    """... of what ``before`` makes of the messages, of which liars have the ``tolerated`` weight."""

    before: PreAggregation
    tolerated: float

    def mix(self, round, *blocks, beside=0):
        here = self.network.rows
        agents = np.arange(here.start, here.stop)

        def rule(heard):
            return self.aggregate_rows(self.before(heard, self.tolerated, agents, round))

        return self.network.aggregate(round, rule, *blocks, beside=beside)


class Differences(NamedTuple):
    """What agents hear, seen from their own rows, for each arc.

    Fields: the ``differences`` x_j - x_i (arcs, P), their norms ``distances`` (arcs,), and the weight of the arcs to the same
    agent that come from ``farther`` away (arcs,). Rows that are not finite are infinitely far, with a difference of zero.
    """

    differences: np.ndarray
    distances: np.ndarray
    farther: np.ndarray

    @classmethod
    def of(cls, heard: Messages) -> "Differences":
        differences = heard.differences()
        distances = np.linalg.norm(differences, axis=1)
        strange = ~np.isfinite(distances)
        differences[strange], distances[strange] = 0, np.inf
        receivers, arcs = heard.receivers, np.arange(len(distances))
        order = np.lexsort((-distances, receivers))  # farthest first; of equal ones the first sender
        place = arcs - np.searchsorted(receivers, receivers)
        # A row an agent, added up from its left: sums do not depend on who else is in the block.
        weights = np.zeros((len(heard.own), 2 + place.max(initial=-1)))
        weights[receivers, place + 1] = heard.weights[order]
        farther = np.empty(len(arcs))
        farther[order] = weights.cumsum(axis=1)[receivers, place]
        return cls(differences, distances, farther)


def clipped(heard: Messages, messages: Differences, levels: np.ndarray) -> np.ndarray:
    """``x_i + sum_j W_ij min(1, t_i / |x_j - x_i|) (x_j - x_i)``, with the ``levels`` t (agents,): shape (agents, P)."""
    level = levels[heard.receivers]
    kept = np.where(messages.distances <= level, 1.0, level / messages.distances)
    return heard.own + heard.total(messages.differences, heard.weights * kept)
