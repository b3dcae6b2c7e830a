"""Schedules with outages of agents."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import TypeAlias, cast

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks, _names
from topologies._checks import integer
from topologies.schedules.base import Schedule
from topologies.schedules.lost_messages import Sums, sums_option, take_apart, without
from topologies.schedules.protocols import GraphSchedule, UnionSchedule, is_static

Outage: TypeAlias = tuple[int | str, int, int | None]


class AgentFailure(Schedule):
    """A schedule in which agents of another are disconnected in given rounds.

    In a round with the set F of disconnected agents, v_ij = 0 for i in F or j in F, i != j, and the weight of these entries
    returns to the diagonal as in `topologies.LinkFailure`, which see for the sums that remain one; v_kk = 1 for k in F.
    Disconnected agents still take their own steps between exchanges.

    Parameters
    ----------
    schedule : schedule
        Schedule with graphs, such as those of this package.
    outages : iterable of (agent, first, last)
        The agent, a number or a name of the schedule's `labels`, is disconnected in the rounds first <= n < last; a `last` of
        None means for ever. Outages may overlap.
    preserve : {"columns", "rows"}, optional
        Sums to preserve, as in `topologies.LinkFailure`.

    Raises
    ------
    ValueError
        If an outage is not such a triple, or names no agent or no round; without `preserve`, if neither rows nor columns of a
        matrix with disconnected agents sum to one.

    Examples
    --------
    >>> import topologies
    >>> network = topologies.AgentFailure(topologies.Static(topologies.path(3)), [(0, 10, 20)])
    >>> network
    AgentFailure(Static(agents=3, edges=2, weights=metropolis), outages=[(0, 10, 20)])
    >>> [network.away(n) for n in (9, 10, 19, 20)]
    [(), (0,), (0,), ()]
    >>> network.weights(network.key(15)).toarray().round(2)
    array([[1.  , 0.  , 0.  ],
           [0.  , 0.67, 0.33],
           [0.  , 0.33, 0.67]])
    """

    def __init__(self, schedule: GraphSchedule, outages: Iterable[Outage], preserve: Sums | None = None) -> None:
        self.schedule, self.agents = _checks.schedule(schedule, also=("graph",)), schedule.agents
        if not isinstance(outages, Iterable) or (isinstance(outages, np.ndarray) and outages.ndim == 0):
            raise TypeError(f"outages must be a list of (agent, first, last), got {_checks.shown(outages)}")
        self.outages = tuple(_outage(k, outage, self.agents, self.labels) for k, outage in enumerate(outages))
        self.preserve = sums_option(preserve)
        # The set of disconnected agents changes only where an outage begins or ends; equal sets share a number.
        agent, first, last = np.array(self.outages, dtype=float).reshape(-1, 3).T
        last = np.where(np.isnan(last), np.inf, last)  # None became NaN
        self._changes = np.unique([0.0, *first, *last[np.isfinite(last)]])
        sets = [tuple(np.unique(agent[(first <= n) & (n < last)]).astype(int).tolist()) for n in self._changes]
        numbers = {away: number for number, away in enumerate(dict.fromkeys([(), *sets]))}
        self._sets, self._set = tuple(numbers), [numbers[away] for away in sets]

    def __repr__(self) -> str:
        shown = ", ".join(map(str, islice(self.outages, 4))) + (", ..." if len(self.outages) > 4 else "")
        kept = "" if self.preserve is None else f", preserve={self.preserve!r}"
        return f"AgentFailure({self.schedule!r}, outages=[{shown}]{kept})"

    def _settings(self) -> Hashable:
        return self.schedule, self.outages, self.preserve

    def away(self, round: int) -> tuple[int, ...]:
        """Return the agents that are disconnected in a round.

        Parameters
        ----------
        round : int
            Round, at least 0.

        Returns
        -------
        tuple of int
            Agents in ascending order.
        """
        return self._sets[self.key(round)[1]]

    @property
    def labels(self) -> tuple[Hashable, ...] | None:  # type: ignore[override]  # those of the wrapped schedule
        """Names of the agents, as in the wrapped schedule."""
        return getattr(self.schedule, "labels", None)

    @property
    def static(self) -> bool:
        """True if the same agents are disconnected in all rounds, and the wrapped schedule is static."""
        return len(set(self._set)) == 1 and is_static(self.schedule)

    def key(self, round: int) -> tuple[Hashable, int]:
        found = np.searchsorted(self._changes, integer("round", round, 0), side="right") - 1
        return self.schedule.key(round), self._set[found]

    def weights(self, key: tuple[Hashable, int]) -> sparse.csr_array:
        inner, number = key
        away = list(self._sets[number])
        matrix = self.schedule.weights(inner)
        if not away:
            return matrix
        parts = take_apart(matrix, self.preserve)
        absent = np.zeros(self.agents, dtype=bool)
        absent[away] = True
        lost = (absent[parts.rows] | absent[parts.columns]) & (parts.rows != parts.columns)
        return without(parts, lost, alone=away)

    def graph(self, round: int) -> nx.Graph:
        graph = self.schedule.graph(round)
        away = set(self.away(round))
        graph.remove_edges_from([edge for edge in graph.edges if not away.isdisjoint(edge)])
        return graph

    @property
    def union(self) -> Callable[[], sparse.csr_array]:
        """The method ``union`` of the wrapped schedule, if it has one, without edges of agents that never return."""
        union = cast(UnionSchedule, self.schedule).union
        return lambda: self._without_lost(union())

    def _without_lost(self, pattern: sparse.csr_array) -> sparse.csr_array:
        present = np.ones(self.agents)
        present[list(self._sets[self._set[-1]])] = 0.0  # outages after the last change never end
        kept = sparse.csr_array(sparse.diags_array(present) @ pattern @ sparse.diags_array(present))
        kept.eliminate_zeros()
        return kept


def _outage(place: int, outage: Outage, agents: int, labels: Sequence[Hashable] | None) -> tuple[int, int, int | None]:
    name = f"outages[{place}]"
    try:
        agent, first, last = outage
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be (agent, first, last), got {outage!r}") from None
    agent = integer(f"the agent of {name}", cast(int, _names.places(name, [agent], labels)[0]), 0)
    first = integer(f"the first round of {name}", first, 0)
    if agent >= agents:
        raise ValueError(f"{name} names agent {agent}, but the agents are 0, ..., {agents - 1}")
    return agent, first, last if last is None else integer(f"the last round of {name}", last, first + 1)
