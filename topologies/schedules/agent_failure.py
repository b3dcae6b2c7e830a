"""Agents that are away for a while, over any schedule."""

from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Any, Literal

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.schedules.base import Schedule, ScheduleLike, is_static
from topologies.schedules.lost_messages import take_apart, whose_sums, without


class AgentFailure(Schedule):
    """Agents of another schedule are away in given rounds: their edges vanish, and they keep what they have.

    In a round with the set F of agents away no message goes to or from them: v_ij = 0 for i in F or j in F, i != j. The
    weight returns to diagonals as in `LinkFailure`, so that v_kk = 1 for k in F. Symmetric doubly stochastic matrices,
    column stochastic ones and row stochastic ones stay what they are; doubly stochastic ones that are not symmetric
    become column stochastic. An agent that is away still takes its own steps between the exchanges: the schedule is about
    messages alone.

    Parameters
    ----------
    schedule : schedule
    outages : iterable of (agent, first, last)
        The agent is away in the rounds first <= n < last; last None means for good. Outages may overlap.
    preserve : {"columns", "rows"}, optional
        As in `LinkFailure`.

    Raises
    ------
    TypeError
        If `schedule` is not a schedule.
    ValueError
        If an outage is not such a triple, or names no agent of the schedule or no round. If, without `preserve`,
        neither rows nor columns of a matrix with agents away sum to one.

    Examples
    --------
    >>> import topologies
    >>> from topologies import AgentFailure
    >>> network = AgentFailure(topologies.Static(topologies.path(3)), [(0, 10, 20)])
    >>> network
    AgentFailure(Static(agents=3, edges=2, weights=metropolis), outages=[(0, 10, 20)])
    >>> [network.away(n) for n in (9, 10, 19, 20)]
    [(), (0,), (0,), ()]
    >>> network.weights(network.key(15)).toarray().round(2)
    array([[1.  , 0.  , 0.  ],
           [0.  , 0.67, 0.33],
           [0.  , 0.33, 0.67]])
    """

    def __init__(
        self,
        schedule: ScheduleLike,
        outages: Iterable[tuple[int, int, int | None]],
        preserve: Literal["columns", "rows"] | None = None,
    ) -> None:
        self.schedule, self.agents = _checks.schedule(schedule, also=("graph",)), schedule.agents
        if not isinstance(outages, Iterable) or (isinstance(outages, np.ndarray) and outages.ndim == 0):
            raise TypeError(f"outages must be a list of (agent, first, last), got {_checks.shown(outages)}")
        self.outages = tuple(_outage(k, outage, self.agents) for k, outage in enumerate(outages))
        self.preserve = whose_sums(preserve)
        # Who is away changes only where an outage begins or ends; equal sets of agents share one number.
        agent, first, last = np.array(self.outages, dtype=float).reshape(-1, 3).T
        last = np.where(np.isnan(last), np.inf, last)  # None, that is
        self._changes = np.unique([0.0, *first, *last[np.isfinite(last)]])
        sets = [tuple(np.unique(agent[(first <= n) & (n < last)]).astype(int).tolist()) for n in self._changes]
        numbers = {away: number for number, away in enumerate(dict.fromkeys([(), *sets]))}
        self._sets, self._set = tuple(numbers), [numbers[away] for away in sets]

    def __repr__(self):
        shown = ", ".join(map(str, islice(self.outages, 4))) + (", ..." if len(self.outages) > 4 else "")
        kept = "" if self.preserve is None else f", preserve={self.preserve!r}"
        return f"AgentFailure({self.schedule!r}, outages=[{shown}]{kept})"

    def _settings(self):
        return self.schedule, self.outages, self.preserve

    def away(self, round: int) -> tuple[int, ...]:
        """Return the agents that are away in a round, in ascending order."""
        return self._sets[self.key(round)[1]]

    @property
    def static(self) -> bool:
        """Whether the same agents are away in all rounds, and the schedule underneath stands still."""
        return len(set(self._set)) == 1 and is_static(self.schedule)

    def key(self, round: int) -> tuple[Hashable, int]:
        found = np.searchsorted(self._changes, integer("round", round, 0), side="right") - 1
        return self.schedule.key(round), self._set[found]

    def weights(self, key: Any) -> sparse.csr_array:
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
        """That of the wrapped schedule, if it has one, without the agents that never come back."""
        whole = self.schedule.union
        return lambda: self._among_those_who_stay(whole())

    def _among_those_who_stay(self, pattern):
        here = np.ones(self.agents)
        here[list(self._sets[self._set[-1]])] = 0.0  # after the last change only they are away who never come back
        kept = sparse.csr_array(sparse.diags_array(here) @ pattern @ sparse.diags_array(here))
        kept.eliminate_zeros()
        return kept


def _outage(place, outage, agents):
    name = f"outages[{place}]"
    try:
        agent, first, last = outage
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be (agent, first, last), got {outage!r}") from None
    agent, first = integer(f"the agent of {name}", agent, 0), integer(f"the first round of {name}", first, 0)
    if agent >= agents:
        raise ValueError(f"{name} is about agent {agent}, but the agents are 0, ..., {agents - 1}")
    # None, for good, is after all rounds.
    return agent, first, last if last is None else integer(f"the last round of {name}", last, first + 1)
