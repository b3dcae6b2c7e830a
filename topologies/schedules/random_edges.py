"""Schedules of random subgraphs."""

from collections.abc import Hashable

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.pattern import GraphLike, bare_nodes, content, count_edges, entries, named, say_order, with_edges
from topologies.schedules.base import Schedule, stream
from topologies.weights.base import undirected
from topologies.weights.metropolis import metropolis_entries


class RandomEdges(Schedule):
    """A schedule in which each edge of a graph is present with a given probability, independently in every round [1]_.

    Mixing matrices have Metropolis weights. The edges of a round depend on `seed` and the round alone.

    Parameters
    ----------
    graph : networkx.Graph, symmetric scipy sparse matrix or symmetric numpy array of shape (A, A)
        Undirected graph, read as by `topologies.adjacency`.
    probability : float in (0, 1]
        Probability that an edge is present.
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

    def __init__(self, graph: GraphLike, probability: float, seed: int = 0) -> None:
        why = "; at 0 no agents ever meet"
        self.probability = _checks.real("probability", probability, "a number in (0, 1]", lambda number: 0 < number <= 1, why)
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

    def __repr__(self) -> str:
        size = f"agents={self.agents}, edges={count_edges(self._pattern)}"
        return f"RandomEdges({size}, probability={self.probability}, seed={self.seed})"

    def _settings(self) -> Hashable:
        return content(self._pattern), self.probability, self.seed

    def _entries(self, round: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows and columns of the entries of a round, the diagonal included, in row-major order."""
        drawn = stream(b"edge", self.seed, round).random(self._pattern.nnz // 2)
        present = np.append(drawn < self.probability, True)
        kept = present[self._edge]
        return self._rows[kept], self._columns[kept]

    @property
    def static(self) -> bool:
        """Whether every edge is always present."""
        return self.probability == 1 or not self._pattern.nnz

    def key(self, round: int) -> int:
        round = integer("round", round, 0)
        return 0 if self.static else round

    def weights(self, key: int) -> sparse.csr_array:
        return metropolis_entries(self.agents, *self._entries(key))

    def graph(self, round: int) -> nx.Graph:
        return with_edges(self._nodes, *self._entries(self.key(round)))

    def union(self) -> sparse.csr_array:
        return self._pattern
