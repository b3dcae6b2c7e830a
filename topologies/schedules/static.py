"""The same matrix in every round."""

from __future__ import annotations

import networkx as nx
from scipy import sparse

from topologies import _checks
from topologies.matrices import MatrixLike
from topologies.pattern import GraphLike, adjacency, bare_nodes, content, count_edges, with_edges
from topologies.schedules.base import Schedule
from topologies.weights.base import Weights, mixing_matrix
from topologies.weights.given import from_matrix
from topologies.weights.metropolis import metropolis


class Static(Schedule):
    """The same graph and mixing matrix in every round.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Read as by `topologies.adjacency`.
    weights : function, default `topologies.metropolis`
        Takes a graph and returns a scipy sparse matrix (A, A). It gets `graph` itself, or a copy with the nodes of a
        networkx graph renamed and ordered 0, ..., A - 1. Called once and not kept, so that it may be a lambda.

    Raises
    ------
    ValueError
        If `weights` returns anything but a finite sparse (A, A) matrix whose nonzeros off the diagonal lie on edges;
        and for whatever `adjacency` and `weights` refuse.

    References
    ----------
    P. Di Lorenzo and G. Scutari, "NEXT: in-network nonconvex optimization" (2016), Assumption B on networks.

    Examples
    --------
    >>> import topologies
    >>> from topologies import Static
    >>> network = Static(topologies.path(3))
    >>> network
    Static(agents=3, edges=2, weights=metropolis)
    >>> network.weights(network.key(7)).toarray().round(2)
    array([[0.67, 0.33, 0.  ],
           [0.33, 0.33, 0.33],
           [0.  , 0.33, 0.67]])
    """

    static = True

    def __init__(self, graph: GraphLike, weights: Weights = metropolis) -> None:
        self._pattern = adjacency(graph)
        self.agents = self._pattern.shape[0]
        self._nodes = bare_nodes(graph, self._pattern)
        self._rule = _checks.name_of(weights)
        self._matrix = mixing_matrix(weights, graph, self._pattern)

    def __repr__(self):
        return f"Static(agents={self.agents}, edges={count_edges(self._pattern)}, weights={self._rule})"

    def _settings(self):
        return content(self._pattern), content(self._matrix)

    def key(self, round: int) -> int:
        return 0

    def weights(self, key: int) -> sparse.csr_array:
        return self._matrix

    def graph(self, round: int) -> nx.Graph:
        return with_edges(self._nodes, *self._pattern.nonzero())

    def union(self) -> sparse.csr_array:
        return self._pattern


def schedule_from_matrix(matrix: MatrixLike) -> Static:
    """Static schedule of a mixing matrix alone, on the graph of its nonzeros.

    The graph has an edge from j to i where entry (i, j) off the diagonal is not zero; it is undirected when these come in
    pairs, as they do in a symmetric matrix.

    Parameters
    ----------
    matrix : scipy sparse matrix or array_like, shape (A, A)
        As for `from_matrix`.

    Returns
    -------
    topologies.Static

    Raises
    ------
    ValueError
        For whatever `from_matrix` refuses.

    Examples
    --------
    >>> from topologies import schedule_from_matrix
    >>> network = schedule_from_matrix([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]])
    >>> network
    Static(agents=3, edges=2, weights=from_matrix)
    >>> network.graph(0).edges
    EdgeView([(0, 1), (1, 2)])
    """
    weights = from_matrix(matrix)
    graph = weights.matrix.T.tocsr()
    graph.setdiag(0)
    return Static(graph, weights=weights)
