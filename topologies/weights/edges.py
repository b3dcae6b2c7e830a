"""Weights that the user's graph carries on its edges, checked and laid out over the agents."""

from collections.abc import Hashable

import networkx as nx
import numpy as np
from scipy import sparse

from topologies._checks import shown
from topologies.pattern import GraphLike, adjacency, node_order


def edge_weights(graph: GraphLike, weight: str) -> sparse.csr_array:
    """Adjacency matrix with the weights of a graph's own edges: entry (i, j) is that of the edge from i to j.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Read as by `topologies.adjacency`.
    weight : str
        The edge attribute of a networkx graph that holds the weights; those of an array are its entries.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        Laid out as by `topologies.adjacency`. Symmetric when a networkx graph is undirected.

    Raises
    ------
    ValueError
        If the weight of an edge is missing, no number, not finite, or not above 0: weights say how much an agent values
        a neighbour, and a mixing matrix with negative ones, or with an edge that is none, breaks the conditions under
        which agents agree. And for whatever `adjacency` refuses.

    Examples
    --------
    >>> import networkx as nx
    >>> from topologies.weights.edges import edge_weights
    >>> edge_weights(nx.Graph([(0, 1, {"rate": 3.0})]), "rate").toarray()
    array([[0., 3.],
           [3., 0.]])
    """
    pattern = adjacency(graph)
    if not isinstance(graph, nx.Graph):
        matrix = sparse.csr_array(graph, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        rows, columns = matrix.tocoo().coords
        _refuse(zip(rows.tolist(), columns.tolist()), matrix.data.tolist())
        return matrix
    if not isinstance(weight, Hashable):
        raise TypeError(f"weight must be the name of an edge attribute, got {shown(weight)}")
    agent = {name: k for k, name in enumerate(node_order(graph))}
    edges = list(graph.edges(data=weight))
    if not edges:
        return pattern
    sources, targets, values = zip(*edges)
    _refuse(zip(sources, targets), values, weight)
    rows, columns = ([agent[name] for name in ends] for ends in (sources, targets))
    if not graph.is_directed():
        rows, columns, values = rows + columns, columns + rows, values * 2
    # The pattern's own layout: its ones are replaced, entry by entry, in row-major order.
    pattern.data = np.array(values, dtype=np.float64)[np.lexsort((columns, rows))]
    return pattern


def _refuse(edges, values, name=None):
    """Raise ValueError that names the first edge whose weight is not a finite number above 0."""
    try:
        fine = np.asarray(values, dtype=np.float64)
        if (np.isfinite(fine) & (fine > 0)).all():
            return
    except (TypeError, ValueError):
        pass  # some value is no number; find it below
    for edge, value in zip(edges, values):
        if value is None:
            raise ValueError(f"edge {edge} has no attribute {name!r}; every edge needs a weight, a finite number above 0")
        try:
            fine = 0 < float(value) < np.inf
        except (TypeError, ValueError):
            fine = False
        if not fine:
            raise ValueError(f"edge {edge} has weight {value!r}; weights of edges must be finite numbers above 0")
