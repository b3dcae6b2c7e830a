"""Failures laid over any schedule: links that lose their messages, agents that are away for a while.

What an agent would have given to a value that does not arrive must go somewhere, or the agents' sum leaks. With W the
mixing matrix of a round and L the set of lost entries (i, j), what j sends to i, one of these holds of the new matrix V:

    to the sender    v_jj = w_jj + sum_i w_ij over L:   columns keep their sums; the sender knows by acknowledgements,
    to the receiver  v_ii = w_ii + sum_j w_ij over L:   rows keep their sums; the receiver sees that nothing came,

and v_ij = 0 on L, v_ij = w_ij elsewhere. When W is symmetric and messages are lost both ways, the two are the same, and
V is symmetric and, like W, doubly stochastic.
"""

from collections.abc import Iterable
from itertools import islice

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.schedules.base import Recent, Schedule, is_static, stream
from topologies.schedules.lost_messages import links, take_apart, without


class LinkFailure(Schedule):
    """Every edge of another schedule fails with a given probability, independently in every round [1]_.

    The weight of a lost message returns to a diagonal, as the module describes. What the wrapped schedule's matrices
    are decides what comes out, and so which methods stay right:

    - symmetric doubly stochastic, ``symmetric=True``: they stay so, for gradient tracking, NEXT, EXTRA and the like;
    - column stochastic: they stay so, with or without ``symmetric``, for push-sum methods;
    - row stochastic: they stay so, with or without ``symmetric``, for the row-stochastic half of push-pull methods;
    - doubly stochastic, but not symmetric or with ``symmetric=False``: only the columns go on summing to one. Methods
      that need doubly stochastic matrices lose the agents' average; use a push-sum method.

    Every edge comes back again and again, so joint connectivity is that of the wrapped schedule. Which edges fail
    depends on `seed`, the round and the edges of the round alone: two schedules over one graph, one with row- and one
    with column-stochastic weights, lose the same messages under one seed. Failures laid over failures need seeds of
    their own.

    Parameters
    ----------
    schedule : schedule
    probability : float in [0, 1)
        Of an edge to fail.
    seed : int of at least 0
    symmetric : bool
        Whether both directions of an edge fail together. Else each fails by itself, and graphs are directed.
    preserve : {"columns", "rows"}, optional
        Whose sums to keep. By default the columns' if all of them are one, else the rows'. A schedule that is row
        stochastic, and column stochastic in some rounds by chance, needs ``"rows"`` to be row stochastic in all.

    Raises
    ------
    TypeError
        If `schedule` is not a schedule.
    ValueError
        If another argument is out of range. If, without `preserve`, neither rows nor columns of a matrix sum to one:
        at once in round 0, later by ``weights``.

    References
    ----------
    .. [1] S. Kar and J. M. F. Moura, "Sensor networks with random links: topology design for distributed consensus",
       IEEE Transactions on Signal Processing 56 (2008); for lost messages C. N. Hadjicostis, N. H. Vaidya and A. D.
       Dominguez-Garcia, "Robust distributed average consensus via exchange of running sums", IEEE Transactions on
       Automatic Control 61 (2016).

    Examples
    --------
    >>> import topologies
    >>> network = LinkFailure(topologies.Static(topologies.path(3)), 0.4, seed=1)
    >>> network
    LinkFailure(Static(agents=3, edges=2, weights=metropolis), probability=0.4, seed=1, symmetric=True)
    >>> network.graph(2).edges
    EdgeView([(0, 1)])
    >>> network.weights(network.key(2)).toarray().round(2)
    array([[0.67, 0.33, 0.  ],
           [0.33, 0.67, 0.  ],
           [0.  , 0.  , 1.  ]])
    """

    def __init__(self, schedule, probability, seed=0, symmetric=True, preserve=None):
        self.schedule, self.agents = _checks.schedule(schedule, also=("graph",)), schedule.agents
        why = "; at 1 no agents ever meet"
        self.probability = _checks.real("probability", probability, "a number in [0, 1)", lambda number: 0 <= number < 1, why)
        self.seed = integer("seed", seed, 0)
        self.symmetric, self.preserve = _checks.flag("symmetric", symmetric), _side(preserve)
        self._recent = Recent()
        self._links(0)  # refuses what cannot work before any round is run

    def __repr__(self):
        kept = "" if self.preserve is None else f", preserve={self.preserve!r}"
        settings = f"probability={self.probability}, seed={self.seed}, symmetric={self.symmetric}{kept}"
        return f"LinkFailure({self.schedule!r}, {settings})"

    def _settings(self):
        return self.schedule, self.probability, self.seed, self.symmetric, self.preserve

    def _links(self, round):
        """The matrix of a round as it is without failures, the number of the link of each entry, and of all links."""
        key = self.schedule.key(round)
        return self._recent.get(key, lambda: self._number(take_apart(self.schedule.weights(key), self.preserve)))

    def _number(self, parts):
        apart = parts.rows != parts.columns
        numbers = links(parts) if self.symmetric else np.cumsum(apart) - 1
        count = int(numbers[apart].max(initial=-1)) + 1
        numbers[~apart] = count  # one more link, which never fails
        return parts, numbers, count

    def _lost(self, round):
        parts, numbers, count = self._links(round)
        drawn = stream(b"link", self.seed, round).random(count)
        return parts, np.append(drawn < self.probability, False)[numbers]

    @property
    def static(self):
        """Whether nothing fails, and the schedule underneath stands still."""
        return not self.probability and is_static(self.schedule)

    def key(self, round):
        # Without failures all is as it was; with them even equal matrices meet other failures in other rounds.
        return integer("round", round, 0) if self.probability else self.schedule.key(round)

    def weights(self, key):
        return without(*self._lost(key)) if self.probability else self.schedule.weights(key)

    def graph(self, round):
        graph = self.schedule.graph(round)
        graph = graph if self.symmetric else nx.DiGraph(graph)
        if self.probability:
            parts, lost = self._lost(integer("round", round, 0))
            receivers, senders = parts.rows[lost].tolist(), parts.columns[lost].tolist()
            graph.remove_edges_from(zip(senders, receivers))
            if self.symmetric:
                graph.remove_edges_from(zip(receivers, senders))
        return graph

    def union(self):
        return self.schedule.union()


class AgentFailure(Schedule):
    """Agents of another schedule are away in given rounds: their edges vanish, and they keep what they have.

    In a round with the set F of agents away no message goes to or from them: v_ij = 0 for i in F or j in F, i != j, the
    weight returns to diagonals as the module describes, and for k in F v_kk = 1 and nothing else in its row. Symmetric
    doubly stochastic matrices stay so, column stochastic ones and row stochastic ones stay so; doubly stochastic ones
    that are not symmetric become column stochastic. An agent that is away still takes its own steps between the
    exchanges: the schedule is about messages alone.

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

    def __init__(self, schedule, outages, preserve=None):
        self.schedule, self.agents = _checks.schedule(schedule, also=("graph",)), schedule.agents
        if not isinstance(outages, Iterable) or (isinstance(outages, np.ndarray) and outages.ndim == 0):
            raise TypeError(f"outages must be a list of (agent, first, last), got {_checks.shown(outages)}")
        self.outages = tuple(_outage(k, outage, self.agents) for k, outage in enumerate(outages))
        self.preserve = _side(preserve)
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

    def away(self, round):
        """Return the agents that are away in a round, in ascending order."""
        return self._sets[self.key(round)[1]]

    @property
    def static(self):
        """Whether the same agents are away in all rounds, and the schedule underneath stands still."""
        return len(set(self._set)) == 1 and is_static(self.schedule)

    def key(self, round):
        found = np.searchsorted(self._changes, integer("round", round, 0), side="right") - 1
        return self.schedule.key(round), self._set[found]

    def weights(self, key):
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

    def graph(self, round):
        graph = self.schedule.graph(round)
        away = set(self.away(round))
        graph.remove_edges_from([edge for edge in graph.edges if not away.isdisjoint(edge)])
        return graph

    def union(self):
        # Beyond the last change only those are away who never come back.
        here = np.ones(self.agents)
        here[list(self._sets[self._set[-1]])] = 0.0
        union = sparse.csr_array(sparse.diags_array(here) @ self.schedule.union() @ sparse.diags_array(here))
        union.eliminate_zeros()
        return union


def _side(preserve):
    if not (preserve is None or (isinstance(preserve, str) and preserve in ("columns", "rows"))):
        raise ValueError(f"preserve must be 'columns', 'rows' or None, got {preserve!r}")
    return preserve


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
