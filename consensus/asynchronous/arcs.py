"""The arcs of a network without rounds, and the weights of what comes along them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import networkx as nx
import numpy as np
from scipy import sparse

from topologies.schedules import ScheduleLike, is_static

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Arcs(NamedTuple):
    """Arcs that lead to a block of agents: their sources, and the weights of two matrices R and C.

    Agents have D places for sources, D the largest in-degree of the network; a place that is not needed has weight zero.

    Attributes
    ----------
    sources : ndarray of int (agents, D)
        The senders in increasing order; -1 in places that are not needed.
    r_own, c_own : ndarray (agents, 1)
        R_ii and C_ii.
    r, c : ndarray (agents, D, 1)
        R_ij and C_ij of the senders j.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import networkx as nx, consensus
    >>> from consensus.asynchronous import AsynchronousDGD, Simulated
    >>> @dataclass(frozen=True)
    ... class Shown(AsynchronousDGD):
    ...     def init(self, problem, arcs, w):
    ...         print(arcs.sources.tolist(), arcs.r.round(3)[..., 0].tolist(), arcs.r_own.round(3).ravel().tolist())
    ...         return super().init(problem, arcs, w)
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> result = consensus.solve(problem, nx.path_graph(3), Shown(0.1), rounds=1, engine=Simulated())
    [[1, -1], [0, 2], [1, -1]] [[0.333, 0.0], [0.333, 0.333], [0.333, 0.0]] [0.667, 0.333, 0.667]
    """

    sources: Int[np.ndarray, "agents D"]
    r_own: Float[np.ndarray, "agents 1"]
    r: Float[np.ndarray, "agents D 1"]
    c_own: Float[np.ndarray, "agents 1"]
    c: Float[np.ndarray, "agents D 1"]

    def block(self, rows: slice) -> Arcs:
        """Return the arcs to some agents.

        Parameters
        ----------
        rows : slice
            The agents.

        Returns
        -------
        Arcs
            Views.
        """
        return Arcs(*(value[rows] for value in self))


def received(
    weights: Float[np.ndarray, "agents D 1"], messages: Float[np.ndarray, "agents D P"]
) -> Float[np.ndarray, "agents P"]:
    """Return ``sum_j weights_ij messages_ij``, added in the order of the senders.

    Parameters
    ----------
    weights : ndarray (agents, D, 1)
        Weights of the places.
    messages : ndarray (agents, D, P)
        The messages in them.

    Returns
    -------
    ndarray (agents, P)
        The sums.
    """
    total: np.ndarray = weights[:, 0] * messages[:, 0]
    for place in range(1, weights.shape[1]):
        total += weights[:, place] * messages[:, place]
    return total


def arcs_of(r: sparse.csr_array, c: sparse.csr_array, dtype: np.dtype) -> Arcs:
    """Return the arcs where R or C is not zero off the diagonal."""
    r, c = (sparse.csr_array(matrix).astype(dtype) for matrix in (r, c))
    pattern = sparse.csr_array(((abs(r) + abs(c)) > 0).astype(np.int8))
    pattern.sort_indices()
    agents = r.shape[0]
    rows = [pattern.indices[pattern.indptr[i] : pattern.indptr[i + 1]] for i in range(agents)]
    rows = [row[row != i] for i, row in enumerate(rows)]
    places = max(1, *map(len, rows))
    sources = np.full((agents, places), -1)
    weights = np.zeros((2, agents, places, 1), dtype)
    for i, row in enumerate(rows):
        sources[i, : len(row)] = row
        for of, matrix in zip(weights, (r, c), strict=True):
            of[i, : len(row), 0] = matrix[[i]].toarray()[0, row]
    return Arcs(sources, r.diagonal()[:, None], weights[0], c.diagonal()[:, None], weights[1])


def graph_of(name: str, schedule: ScheduleLike) -> nx.DiGraph:
    """Return the network's graph, directed; raise ``ValueError`` if it changes or is not strongly connected."""
    if not is_static(schedule):
        raise ValueError(f"{name} wakes without rounds, and {schedule} changes from round to round: give one graph")
    matrix = sparse.csr_array(schedule.weights(schedule.key(0)))
    graph = nx.DiGraph()
    graph.add_nodes_from(range(schedule.agents))
    graph.add_edges_from((j, i) for i, j in zip(*map(np.ndarray.tolist, matrix.nonzero()), strict=True) if i != j)
    parts = sorted(map(sorted, nx.strongly_connected_components(graph)))
    if len(parts) > 1:
        shown = ", ".join(str(part) for part in parts[:4]) + (", ..." if len(parts) > 4 else "")
        raise ValueError(f"{name} needs a strongly connected graph; this one falls into {len(parts)} parts: {shown}")
    return graph


def checked_weights(name: str, weights: Sequence[object], graph: nx.DiGraph) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return (R, C) as sparse matrices; raise ``ValueError`` if they do not fit each other and the graph.

    R has rows that sum to one, C columns; both have positive diagonals and entries on arcs alone; some agent reaches all others
    along R and is reached by all along C.
    """
    if not isinstance(weights, (tuple, list)) or len(weights) != 2:
        raise TypeError(f"weights of {name} must be a pair (R, C) of matrices; got {weights!r}")
    agents = len(graph)
    found, roots = [], []
    for letter, given, axis in zip("RC", weights, (1, 0), strict=True):
        matrix = sparse.csr_array(given, dtype=float)
        if matrix.shape != (agents, agents):
            raise ValueError(f"{letter} of weights must have shape {(agents, agents)}; got {matrix.shape}")
        if (matrix.data < 0).any() or not (matrix.diagonal() > 0).all():
            raise ValueError(f"{letter} of weights must have entries >= 0 and a diagonal > 0")
        if not np.allclose(matrix.sum(axis=axis), 1, atol=1e-9):
            raise ValueError(f"{('rows', 'columns')[axis == 0]} of {letter} of weights must sum to 1")
        pairs = [(j, i) for i, j in zip(*map(np.ndarray.tolist, matrix.nonzero()), strict=True) if i != j]
        if odd := [pair for pair in pairs if not graph.has_edge(*pair)]:
            raise ValueError(
                f"{letter} of weights has an entry from agent {odd[0][0]} to agent {odd[0][1]}, and no arc leads there"
            )
        own = nx.DiGraph(pairs if letter == "R" else [(i, j) for j, i in pairs])
        own.add_nodes_from(range(agents))
        order = nx.condensation(own)
        first = [part for part in order if order.in_degree(part) == 0]
        roots.append(set(order.nodes[first[0]]["members"]) if len(first) == 1 else set())
        found.append(matrix)
    if not roots[0] & roots[1]:
        raise ValueError(f"weights of {name}: some agent must reach all others along R and be reached by all along C")
    return found[0], found[1]
