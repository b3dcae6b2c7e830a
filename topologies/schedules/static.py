"""Static schedules."""

from __future__ import annotations

from collections.abc import Hashable

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies.matrices import MatrixLike
from topologies.pattern import (
    Frame,
    GraphLike,
    adjacency,
    bare_nodes,
    content,
    count_edges,
    is_table,
    named,
    node_order,
    off_diagonal,
    say_order,
    table,
    with_edges,
)
from topologies.schedules.base import Schedule
from topologies.weights.base import Weights, mixing_matrix
from topologies.weights.given import from_matrix
from topologies.weights.metropolis import metropolis


class Static(Schedule):
    """A schedule with the same graph and mixing matrix in every round [1]_.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix, numpy array or pandas DataFrame of shape (A, A)
        Read as by `topologies.adjacency`.
    weights : function
        Weights function, which takes a graph with nodes 0, ..., A - 1 and returns its mixing matrix, a scipy sparse matrix
        (A, A); by default `topologies.metropolis`. It is called once and not stored, so it may be a lambda.

    Raises
    ------
    ValueError
        If `weights` returns anything but a finite sparse (A, A) matrix whose nonzeros off the diagonal lie on edges, or
        rejects `graph`, as `topologies.adjacency` may.

    References
    ----------
    .. [1] P. Di Lorenzo and G. Scutari, "NEXT: in-network nonconvex optimization" (2016), Assumption B on networks.

    Examples
    --------
    >>> import topologies
    >>> network = topologies.Static(topologies.path(3))
    >>> network
    Static(agents=3, edges=2, weights=metropolis)
    >>> network.graph(7).edges
    EdgeView([(0, 1), (1, 2)])
    """

    static = True
    resorted = False  #: whether the nodes of the graph were ordered as numbers, and had another order

    def __init__(self, graph: GraphLike, weights: Weights = metropolis) -> None:
        graph = named(graph)
        self._read(graph, weights)
        if say_order(graph):
            self.resorted = True

    @classmethod
    def _turn(cls, graph: GraphLike | Static, weights: Weights) -> Static:
        """Return the schedule of one graph of several, which tells the log nothing of their common nodes."""
        if isinstance(graph, Static):
            return graph
        made = cls.__new__(cls)
        made._read(named(graph), weights)
        return made

    def _read(self, graph: GraphLike, weights: Weights) -> None:
        self._pattern = adjacency(graph)
        self.agents = self._pattern.shape[0]
        self._nodes = bare_nodes(graph, self._pattern)
        self._name_agents(graph)
        self._rule = _checks.name_of(weights)
        self._matrix = mixing_matrix(weights, graph, self._pattern)

    def __repr__(self) -> str:
        return f"Static(agents={self.agents}, edges={count_edges(self._pattern)}, weights={self._rule})"

    def _settings(self) -> Hashable:
        return content(self._pattern), content(self._matrix)

    def key(self, round: int) -> int:
        return 0

    def weights(self, key: int) -> sparse.csr_array:
        return self._matrix

    def graph(self, round: int) -> nx.Graph:
        return with_edges(self._nodes, *self._pattern.nonzero())

    def union(self) -> sparse.csr_array:
        return self._pattern


def schedule_from_matrix(matrix: MatrixLike | Frame) -> Static:
    """Return the static schedule of a mixing matrix on the graph of its nonzeros.

    The graph has an edge from j to i wherever entry (i, j) off the diagonal is not zero. It is undirected if all edges go both
    ways.

    Parameters
    ----------
    matrix : scipy sparse matrix, array_like or pandas DataFrame, shape (A, A)
        Mixing matrix, as in `from_matrix`. The rows of a DataFrame are the agents, by name, and its columns have the same names
        in any order.

    Returns
    -------
    topologies.Static
        Schedule of the matrix.

    Examples
    --------
    >>> from topologies import schedule_from_matrix
    >>> network = schedule_from_matrix([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]])
    >>> network
    Static(agents=3, edges=2, weights=from_matrix)
    >>> network.graph(0).edges
    EdgeView([(0, 1), (1, 2)])
    """
    names = None
    if is_table(matrix):
        names, matrix = table(matrix, "matrix")
        nodes = nx.empty_graph(0)
        nodes.add_nodes_from(names)
        order = [names.index(name) for name in node_order(nodes)]  # numbers are sorted
        names, matrix = [names[k] for k in order], matrix[np.ix_(order, order)]
    weights = from_matrix(matrix)
    edges = off_diagonal(weights.matrix).T.tocsr()
    if names is None:
        return Static(edges, weights=weights)
    graph = with_edges(bare_nodes(edges, edges), *edges.nonzero())
    return Static(nx.relabel_nodes(graph, dict(enumerate(names))), weights=weights)
