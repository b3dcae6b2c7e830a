"""The protocol of weights functions, and what the rules of this package share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies.pattern import GraphLike, adjacency, named, node_order

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
    """Warn that a rule ignores the edge weights of a graph, unless all of them are 1."""
    graph, remedy = named(graph), "weights=lambda graph: topologies.sinkhorn(graph, weight='weight')"
    if isinstance(graph, nx.Graph):
        if any(weight != 1 for _, _, weight in graph.edges(data="weight", default=1)):
            readers = "topologies.laplacian and topologies.sinkhorn read it"
            _checks.warn(f"edge attribute 'weight' is ignored by this rule; {readers}: {remedy}")
        return
    matrix = sparse.coo_array(graph, dtype=np.float64)
    for k in np.flatnonzero((matrix.data != 0) & (matrix.data != 1))[:1].tolist():
        at = tuple(int(index[k]) for index in matrix.coords)
        _checks.warn(
            f"entries of the matrix other than 0 and 1, such as {matrix.data[k]:g} at {at}, are ignored by this rule, to which "
            f"they are edges; topologies.laplacian and topologies.sinkhorn read them as weights: {remedy}. Of a matrix of "
            "distances pass (matrix > 0) & (matrix <= radius), of a graph without weights matrix != 0"
        )


def undirected(graph: GraphLike, rule: str = "Metropolis weights", weight: str | None = None) -> sparse.csr_array:
    """Return the adjacency pattern of a graph; raise ValueError, which names `rule`, if the graph is directed."""
    pattern, graph = adjacency(graph), named(graph)
    one_way = ((pattern - pattern.T) > 0).nonzero()
    directed = "for directed ones take column-stochastic weights, weights=topologies.push, and a push-sum method such as SONATA"
    fault, remedy = None, directed
    if isinstance(graph, nx.Graph) and graph.is_directed():
        fault = "this one is a DiGraph"
        if not one_way[0].size:
            fault, remedy = f"{fault}, all of whose edges go both ways", f"pass graph.to_undirected(); {directed}"
        else:
            once = "edges are mutual and a file lists each once: of a table, networkx.from_pandas_adjacency(graph)"
            remedy = f"pass graph.to_undirected() if {once}; {directed}"
    elif one_way[0].size:
        shown = _checks.listed(zip(*(index.tolist() for index in one_way)))
        fault = f"the adjacency matrix has no edge back for {shown}"
        remedy = f"pass (graph + graph.T) != 0 if edges are mutual and each is stored once; {directed}"
    if fault:
        raise ValueError(f"{rule} need an undirected graph, and {fault}; {remedy}")
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
    name, graph = f"weights function {_checks.name_of(weights_function(weights))}", named(graph)
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
