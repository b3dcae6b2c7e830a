"""Edge weights of a graph of the user, checked and laid out over the agents."""

import math
from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import networkx as nx
import numpy as np
from scipy import sparse

from topologies._checks import shown
from topologies.pattern import GraphLike, adjacency, entries, named, node_order


def edge_weights(graph: GraphLike, weight: str) -> sparse.csr_array:
    """Return the weighted adjacency matrix of a graph: entry (i, j) is the weight of the edge from i to j.

    `weight` is the edge attribute of a networkx graph; the weights of an array are its entries. Raise ValueError if a weight
    is missing, not finite, or not above 0, which would break the conditions under which agents agree.
    """
    graph = named(graph)
    pattern = adjacency(graph)
    if not isinstance(graph, nx.Graph):
        matrix = sparse.csr_array(graph, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        places = (place.tolist() for place in entries(matrix))
        _checked(list(zip(*places)), matrix.data.tolist())
        return matrix
    if not isinstance(weight, Hashable):
        raise TypeError(f"weight must be the name of an edge attribute, got {shown(weight)}")
    agent = {name: k for k, name in enumerate(node_order(graph))}
    edges = list(graph.edges(data=weight))
    if not edges:
        return pattern
    sources, targets, values = zip(*edges)
    weights = _checked(list(zip(sources, targets)), values, weight)
    rows, columns = ([agent[name] for name in ends] for ends in (sources, targets))
    if not graph.is_directed():
        rows, columns, weights = rows + columns, columns + rows, np.tile(weights, 2)
    pattern.data = weights[np.lexsort((columns, rows))]  # its entries are in row-major order
    return pattern


def _checked(edges: Sequence[tuple[object, object]], values: Sequence[Any], name: str | None = None) -> np.ndarray:
    """Return weights as an array; raise ValueError for the first edge whose weight is not a finite number above 0."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array([value if isinstance(value, Real) else math.nan for value in values])
    for k in np.flatnonzero(~(np.isfinite(found) & (found > 0))).tolist():
        if values[k] is None:
            raise ValueError(f"edge {edges[k]} has no attribute {name!r}; every edge needs one, a finite number above 0")
        raise ValueError(f"edge {edges[k]} has weight {values[k]!r}; weights of edges must be finite numbers above 0")
    return found
