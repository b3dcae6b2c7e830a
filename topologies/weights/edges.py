"""Edge weights of a graph of the user, checked and laid out over the agents."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import networkx as nx
import numpy as np
from scipy import sparse

from topologies._checks import shown
from topologies.pattern import GraphLike, adjacency, node_order


def edge_weights(graph: GraphLike, weight: str) -> sparse.csr_array:
    """Return the weighted adjacency matrix of a graph: entry (i, j) is the weight of the edge from i to j.

    `weight` is the edge attribute of a networkx graph; the weights of an array are its entries. Raise ValueError if a weight
    is missing, not finite, or not above 0, which would break the conditions under which agents agree.
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
    # The entries of the pattern are in row-major order.
    pattern.data = np.array(values, dtype=np.float64)[np.lexsort((columns, rows))]
    return pattern


def _refuse(edges: Iterable[tuple[object, object]], values: Sequence[Any], name: str | None = None) -> None:
    """Raise ValueError for the first edge whose weight is not a finite number above 0."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
        if (np.isfinite(numbers) & (numbers > 0)).all():
            return
    except (TypeError, ValueError):
        pass  # a value is not a number: the loop finds it
    for edge, value in zip(edges, values):
        if value is None:
            raise ValueError(f"edge {edge} has no attribute {name!r}; every edge needs a weight, a finite number above 0")
        try:
            fine = 0 < float(value) < np.inf
        except (TypeError, ValueError):
            fine = False
        if not fine:
            raise ValueError(f"edge {edge} has weight {value!r}; weights of edges must be finite numbers above 0")
