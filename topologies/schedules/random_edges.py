"""Schedules of random subgraphs."""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Real
from typing import Any, cast

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.pattern import (
    Frame,
    Graph,
    GraphLike,
    bare_nodes,
    content,
    count_edges,
    edge_values,
    entries,
    named,
    node_order,
    say_order,
    with_edges,
)
from topologies.schedules.base import Schedule, stream
from topologies.weights.base import undirected
from topologies.weights.edges import edge_weights
from topologies.weights.metropolis import metropolis_entries

_ALLOWED = "a number in (0, 1]"


class RandomEdges(Schedule):
    """A schedule in which each edge of a graph is present with a given probability, independently in every round [1]_.

    Mixing matrices have Metropolis weights. The edges of a round depend on `seed` and the round alone.

    Parameters
    ----------
    graph : networkx.Graph, symmetric scipy sparse matrix or symmetric numpy array of shape (A, A)
        Undirected graph, read as by `topologies.adjacency`.
    probability : float, str or array_like of shape (A, A)
        Probability that an edge is present, in (0, 1]; for each edge by itself the name of an edge attribute of a networkx
        graph, or a symmetric matrix or pandas DataFrame, whose entries off the edges are not read.
    seed : int
        Seed, at least 0.

    References
    ----------
    .. [1] S. Kar and J. M. F. Moura, "Sensor networks with random links: topology design for distributed consensus" (2008).

    Examples
    --------
    >>> import topologies
    >>> network = topologies.RandomEdges(topologies.ring(5), 0.5, seed=0)
    >>> network
    RandomEdges(agents=5, edges=5, probability=0.5, seed=0)
    >>> (network.weights(network.key(3)) != topologies.metropolis(network.graph(3))).nnz
    0
    """

    def __init__(self, graph: GraphLike, probability: float | str | ArrayLike | Frame, seed: int = 0) -> None:
        one = isinstance(probability, Real | str) or np.ndim(cast(Any, probability)) == 0
        why = "; at 0 no agents ever meet"
        if one and not isinstance(probability, str):
            probability = _checks.real("probability", probability, _ALLOWED, lambda number: 0 < number <= 1, why)
        self.seed = integer("seed", seed, 0)
        graph = named(graph)
        self._pattern = undirected(graph)
        self.agents = self._pattern.shape[0]
        self._nodes = bare_nodes(graph, self._pattern)
        self._name_agents(graph)
        say_order(graph)
        # Both entries of an edge get its number, 1, ..., E in row-major order above the diagonal, and the diagonal gets E + 1,
        # the number of an edge that is always present.
        upper = sparse.triu(self._pattern, format="csr")
        upper.data = np.arange(1, upper.nnz + 1)
        numbers = (upper + upper.T + (upper.nnz + 1) * sparse.eye_array(self.agents, dtype=int)).tocsr()
        numbers.sort_indices()
        self._rows, self._columns = entries(numbers)
        self._edge = numbers.data - 1
        self.probability: float | np.ndarray
        if isinstance(probability, str) or not one:
            self.probability = self._each(graph, probability)
        else:
            self.probability = cast(float, probability)

    def _each(self, graph: Graph, probability: Any) -> np.ndarray:  # noqa: ANN401  # a name or a matrix
        """Return the probability of each edge, in row-major order above the diagonal."""
        rows, columns = entries(self._pattern)
        if isinstance(probability, str):
            if not isinstance(graph, nx.Graph):
                raise TypeError(
                    f"probability must be a number or a matrix, as graph has no edge attributes; got {probability!r}"
                )
            found = edge_weights(graph, probability).data
        else:
            names = node_order(graph) if isinstance(graph, nx.Graph) else range(self.agents)
            found = edge_values("probability", probability, self._pattern, names)
        back = sparse.csr_array((found, (rows, columns)), shape=self._pattern.shape).T.tocsr()[rows, columns]
        for wrong, wanted in ((~((found > 0) & (found <= 1)), f"{_ALLOWED} on every edge"), (found != back, "symmetric")):
            for k in np.flatnonzero(wrong)[:1].tolist():
                raise ValueError(f"probability must be {wanted}; on edge ({rows[k]}, {columns[k]}) it is {found[k]:g}")
        each: np.ndarray = found[rows < columns]
        return each

    def __repr__(self) -> str:
        size = f"agents={self.agents}, edges={count_edges(self._pattern)}"
        each = self.probability
        shown = f"{each.min():g} to {each.max():g}" if isinstance(each, np.ndarray) and each.size else each
        return f"RandomEdges({size}, probability={shown}, seed={self.seed})"

    def _settings(self) -> Hashable:
        each = self.probability
        return content(self._pattern), each.tobytes() if isinstance(each, np.ndarray) else each, self.seed

    def _entries(self, round: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows and columns of the entries of a round, the diagonal included, in row-major order."""
        drawn = stream(b"edge", self.seed, round).random(self._pattern.nnz // 2)
        present = np.append(drawn < self.probability, True)
        kept = present[self._edge]
        return self._rows[kept], self._columns[kept]

    @property
    def static(self) -> bool:
        """True if every edge is always present."""
        return bool(np.all(self.probability == 1)) or not self._pattern.nnz

    def key(self, round: int) -> int:
        round = integer("round", round, 0)
        return 0 if self.static else round

    def weights(self, key: int) -> sparse.csr_array:
        return metropolis_entries(self.agents, *self._entries(key))

    def graph(self, round: int) -> nx.Graph:
        return with_edges(self._nodes, *self._entries(self.key(round)))

    def union(self) -> sparse.csr_array:
        return self._pattern
