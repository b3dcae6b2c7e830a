"""Schedules of graphs given by a function of the round, or by a list that repeats."""

from collections.abc import Callable, Hashable, Iterable

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies._checks import ROUNDS, integer
from topologies.pattern import GraphLike, count_edges, named, node_order, say_order, union_pattern
from topologies.schedules.base import Recent, Schedule
from topologies.schedules.static import Static
from topologies.weights.base import Weights, weights_function
from topologies.weights.metropolis import metropolis

_KEPT, _EACH = 1 << 22, 1000  # entries of the matrices that are kept, some 100 MB; what else a graph takes, in entries
_ALL = "every graph needs the nodes of all agents, also of those without edges: graph.add_nodes_from(...)"


def _nodes(graph: GraphLike | Static) -> list[Hashable] | None:
    """Return the nodes of a networkx graph in the order of the agents; None for a matrix, which has numbers alone."""
    if isinstance(graph, Static):
        return list(graph.labels or ()) or None
    graph = named(graph)
    return list(node_order(graph)) if isinstance(graph, nx.Graph) else None


def _same_nodes(name: str, nodes: list[Hashable] | None, first_name: str, first: list[Hashable] | None) -> None:
    """Raise ValueError if two graphs give the numbers of the agents to different nodes, or in another order."""
    if nodes is None or first is None or nodes == first:
        return
    found, wanted = ([str(node) for node in some] for some in (nodes, first))
    raise ValueError(
        f"{name} has the agents {_checks.listed(found)} in this order, but {first_name} has {_checks.listed(wanted)}: add the "
        "nodes of all graphs in one order, graph.add_nodes_from(...) before edges, or number them 0, 1, ..."
    )


class Sequence(Schedule):
    """A schedule whose graphs are given by a function of the round.

    The function must return the same graph whenever it is called with the same round, in any order and in any process, as in
    `topologies.ScheduleLike`.

    Parameters
    ----------
    function : function
        Takes a round, 0, 1, 2, ..., and returns a graph as in `topologies.Static`, or a static schedule, as
        `topologies.schedule_from_matrix` makes of a mixing matrix.
    agents : int
        Number of agents of all graphs, at least 1.
    weights : function
        Weights function as in `topologies.Static`, called in every round; by default `topologies.metropolis`.
    horizon : int
        Number of first rounds, at least 1, in which ``union()`` collects the edges that appear again and again.

    Raises
    ------
    TypeError, ValueError
        In ``weights`` and ``graph`` if a graph has a different number of agents or other nodes than earlier ones, or
        `topologies.Static` rejects it.

    Notes
    -----
    The schedule keeps the graphs of the last rounds, as many as have 4 million edges together, and a few thousand at most: the
    function is called once for a round that is asked for again soon. It can be pickled if both functions can.

    Examples
    --------
    >>> import networkx
    >>> from topologies import Sequence
    >>> def handshakes(round):
    ...     graph = networkx.empty_graph(5)
    ...     graph.add_edge(round % 5, (round + 1) % 5)
    ...     return graph
    >>> network = Sequence(handshakes, agents=5)
    >>> network
    Sequence(handshakes, agents=5, weights=metropolis)
    >>> network.graph(7).edges
    EdgeView([(2, 3)])
    """

    def __init__(
        self, function: Callable[[int], GraphLike | Static], agents: int, weights: Weights = metropolis, horizon: int = 100
    ) -> None:
        if not callable(function):
            remedy = "; use Periodic for a list of graphs" if isinstance(function, list | tuple) else ""
            raise TypeError(f"function must be a function from a round to a graph, got a {type(function).__name__}{remedy}")
        self.function, self.rule = function, weights_function(weights)
        self.agents, self.horizon = integer("agents", agents, 1), integer("horizon", horizon, 1, ROUNDS)
        self._recent, self._first = Recent(_KEPT), Recent(1)

    def __repr__(self) -> str:
        function, rule = _checks.name_of(self.function), _checks.name_of(self.rule)
        return f"Sequence({function}, agents={self.agents}, weights={rule})"

    def _settings(self) -> Hashable:
        return self.function, self.agents, self.rule, self.horizon

    def _at(self, round: int) -> Static:
        return self._recent.get(round, lambda: self._made(round), lambda made: made.weights(0).nnz + _EACH)

    def _made(self, round: int) -> Static:
        graph = self.function(round)
        try:
            made = Static._turn(graph, self.rule)
        except (TypeError, ValueError) as error:
            raise type(error)(f"round {round}: {error}") from error
        if made.agents != self.agents:
            raise ValueError(f"round {round}: the graph has {made.agents} agents, but agents={self.agents}; {_ALL}")
        nodes = _nodes(graph)
        first, known = self._first.get("nodes", lambda: self._met(round, graph))  # of the graph that was made first
        _same_nodes(f"round {round}: the graph", nodes, f"that of round {first}", known)
        return made

    @staticmethod
    def _met(round: int, graph: GraphLike | Static) -> tuple[int, list[Hashable] | None]:
        say_order(graph)
        return round, _nodes(graph)

    @property
    def labels(self) -> tuple[Hashable, ...] | None:  # type: ignore[override]  # the function says them
        """Names of the agents: the nodes of the graph of round 0."""
        return self._at(0).labels

    def key(self, round: int) -> int:
        return integer("round", round, 0)

    def weights(self, key: int) -> sparse.csr_array:
        return self._at(key).weights(0)

    def graph(self, round: int) -> nx.Graph:
        return self._at(self.key(round)).graph(0)

    def union(self) -> sparse.csr_array:
        return union_pattern(self._at(round).union() for round in range(self.horizon))


class Periodic(Schedule):
    """A schedule that repeats a list of graphs: round n uses ``graphs[n % len(graphs)]``.

    Consensus needs only a connected union of the graphs, see `topologies.components`, not connected graphs [1]_.

    Parameters
    ----------
    graphs : sequence of graphs
        Graphs as in `topologies.Static`, over the same agents; or static schedules, as `topologies.schedule_from_matrix` makes
        of mixing matrices.
    weights : function
        Weights function as in `topologies.Static`, called once for each graph; by default `topologies.metropolis`.

    Raises
    ------
    ValueError
        If `graphs` is empty, the graphs have different numbers of agents or list different nodes, or `topologies.Static`
        rejects one of them.

    References
    ----------
    .. [1] A. Nedic, A. Olshevsky and W. Shi, "Achieving geometric convergence for distributed optimization over
       time-varying graphs" (2017), on B-connected sequences of graphs.

    Examples
    --------
    >>> import networkx
    >>> from topologies import Periodic
    >>> network = Periodic([networkx.Graph([(0, 1), (2, 3)]), networkx.Graph([(1, 2), (0, 3)])])
    >>> network
    Periodic(agents=4, period=2, edges=[2, 2], weights=metropolis)
    >>> sorted(network.graph(3).edges)
    [(0, 3), (1, 2)]
    """

    def __init__(self, graphs: Iterable[GraphLike | Static], weights: Weights = metropolis) -> None:
        if isinstance(graphs, nx.Graph | np.ndarray) or sparse.issparse(graphs) or hasattr(graphs, "columns"):
            raise TypeError(f"graphs must be a list of graphs, got one {type(graphs).__name__}; use Static for one")
        if not isinstance(graphs, Iterable):
            raise TypeError(f"graphs must be a list of graphs, got {_checks.shown(graphs)}")
        graphs = list(graphs)
        self._turns = tuple(Static._turn(graph, weights) for graph in graphs)
        if not self._turns:
            raise ValueError("graphs is empty; pass at least one graph")
        self.agents = self._turns[0].agents
        for index, turn in enumerate(self._turns):
            if turn.agents != self.agents:
                raise ValueError(f"graphs[{index}] has {turn.agents} agents but graphs[0] has {self.agents}; {_ALL}")
            _same_nodes(f"graphs[{index}]", _nodes(graphs[index]), "graphs[0]", _nodes(graphs[0]))
        say_order(graphs[0])
        self._alike = all(turn == self._turns[0] for turn in self._turns)

    def __repr__(self) -> str:
        edges, rule = [count_edges(turn.union()) for turn in self._turns], self._turns[0]._rule
        shown = ", ".join(map(str, edges[:4])) + (", ..." if len(edges) > 4 else "")
        return f"Periodic(agents={self.agents}, period={len(edges)}, edges=[{shown}], weights={rule})"

    def _settings(self) -> Hashable:
        return self._turns

    @property
    def labels(self) -> tuple[Hashable, ...] | None:  # type: ignore[override]  # the graphs have them
        """Names of the agents: the nodes of the graphs."""
        return self._turns[0].labels

    @property
    def static(self) -> bool:
        """True if all graphs are equal."""
        return self._alike

    def key(self, round: int) -> int:
        return integer("round", round, 0) % (1 if self._alike else len(self._turns))

    def weights(self, key: int) -> sparse.csr_array:
        return self._turns[key].weights(0)

    def graph(self, round: int) -> nx.Graph:
        return self._turns[self.key(round)].graph(0)

    def union(self) -> sparse.csr_array:
        return union_pattern(turn.union() for turn in self._turns)
