"""The protocol of weights functions, and what the rules of this package share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies.pattern import GraphLike, adjacency, node_order

if TYPE_CHECKING:
    from jaxtyping import Real


class Weights(Protocol):
    """A function from a graph to its mixing matrix, such as `topologies.metropolis`."""

    def __call__(self, graph: Any, /) -> Real[sparse.sparray | sparse.spmatrix, "agents agents"]:  # noqa: ANN401
        """Return a mixing matrix whose nonzeros off the diagonal, entries (i, j), lie on edges from j to i."""
        ...


def weights_function(value: Weights, remedy: str = "") -> Weights:
    """Return `value` if it can be called; otherwise raise TypeError with a message that ends with `remedy`."""
    if not callable(value):
        raise TypeError(f"weights must be a function from a graph to a matrix, got a {type(value).__name__}{remedy}")
    return value


def warn_of_weights(graph: GraphLike) -> None:
    """Warn that a rule ignores the edge weights of a networkx graph, unless all of them are 1."""
    if isinstance(graph, nx.Graph) and any(weight != 1 for _, _, weight in graph.edges(data="weight", default=1)):
        _checks.warn(
            "edge attribute 'weight' is ignored by this rule; topologies.laplacian and topologies.sinkhorn "
            "read it: weights=lambda graph: topologies.sinkhorn(graph, weight='weight')"
        )


def undirected(graph: GraphLike, rule: str = "Metropolis weights", weight: str | None = None) -> sparse.csr_array:
    """Return the adjacency pattern of a graph; raise ValueError, which names `rule`, if the graph is directed."""
    pattern = adjacency(graph)
    if isinstance(graph, nx.Graph):
        fault = "this one is a DiGraph" if graph.is_directed() else None
    else:
        one_way = ((pattern - pattern.T) > 0).nonzero()
        shown = _checks.listed(zip(*(index.tolist() for index in one_way)))
        fault = f"the adjacency matrix has no edge back for {shown}" if shown else None
    if fault:
        raise ValueError(
            f"{rule} need an undirected graph, and {fault}; for directed ones take column-stochastic weights, "
            "weights=topologies.push, and a push-sum method such as SONATA"
        )
    if weight is None:
        warn_of_weights(graph)
    return pattern


def received(edges: sparse.csr_array) -> sparse.csr_array:
    """Return A' + I for an adjacency matrix A: entry (i, j) belongs to the message from j to i, entry (i, i) to agent i."""
    return sparse.csr_array(edges.T.tocsr() + sparse.eye_array(edges.shape[0], format="csr"))


def mixing_matrix(weights: Weights, graph: GraphLike, pattern: sparse.csr_array) -> sparse.csr_array:
    """Return the mixing matrix of a graph by a weights function, as float64 CSR.

    Raise ValueError unless the result is a finite sparse (A, A) matrix whose nonzeros belong to edges of `pattern`.
    """
    name = f"weights function {_checks.name_of(weights_function(weights))}"
    if isinstance(graph, nx.Graph) and list(graph) != list(range(len(graph))):
        # The matrices of networkx follow the order of iteration: make it the order of the agents.
        agent = {label: k for k, label in enumerate(node_order(graph))}
        ordered = nx.empty_graph(len(graph), create_using=nx.DiGraph if graph.is_directed() else nx.Graph)
        ordered.update(nx.relabel_nodes(graph, agent))
        graph = ordered
    matrix = weights(graph)
    if not sparse.issparse(matrix) or matrix.shape != pattern.shape:
        found = f"{type(matrix).__name__} of shape {getattr(matrix, 'shape', None)}"
        raise ValueError(f"{name} must return a scipy sparse matrix of shape {pattern.shape}, got {found}")
    matrix = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"{name} returned entries that are not finite")
    stray = (matrix - matrix.multiply(received(pattern))).nonzero()
    if stray[0].size:
        shown = _checks.listed(zip(*(index.tolist() for index in stray)))
        raise ValueError(f"{name} returned nonzeros off the edges of the graph: (i, j) = {shown} without edge j to i")
    return matrix


def balanced(weights: sparse.csr_array) -> sparse.csr_array:
    """Return the mixing matrix with the given weights between agents, and the rest of each row on the diagonal.

    Zeros are dropped, because every stored entry off the diagonal is a message.
    """
    kept = sparse.diags_array(1.0 - np.asarray(weights.sum(axis=1)), format="csr")
    matrix = sparse.csr_array(weights + kept)
    matrix.eliminate_zeros()
    return matrix
