"""Graphs of every kind, weights of a user's own, and when two matrices are the same."""

import networkx as nx
import numpy as np
from scipy import sparse

import topologies

GRAPHS = {
    "one agent": topologies.path(1),
    "two agents": topologies.path(2),
    "ring": topologies.ring(10),
    "path": topologies.path(10),
    "star": topologies.star(40),
    "complete": topologies.complete(10),
    "grid": topologies.grid(4, 6),
    "torus": topologies.torus(4, 6),
    "hypercube": topologies.hypercube(5),
    "erdos_renyi": topologies.erdos_renyi(40, 0.2, seed=1),
    "random_geometric": topologies.random_geometric(40, 0.3, seed=1),
    "random_regular": topologies.random_regular(40, 3, seed=1),
    "small_world": topologies.small_world(40, 4, 0.2, seed=1),
    "barabasi_albert": topologies.barabasi_albert(40, 2, seed=1),
    "disconnected": nx.disjoint_union(topologies.ring(5), nx.empty_graph(3)),
}
EVENS, ODDS = nx.Graph([(0, 1), (2, 3)]), nx.Graph([(1, 2), (0, 3)])


def growing(round):
    """A path over the first agents, longer in every round."""
    return nx.compose(nx.empty_graph(6), nx.path_graph(min(round + 1, 6)))


def same(one, other):
    """Equal to the bit, positions of stored entries included."""
    return all(np.array_equal(getattr(one, part), getattr(other, part)) for part in ("indptr", "indices", "data"))


def push(graph):
    """Column-stochastic weights: every agent splits what it has evenly over itself and whom it sends to."""
    matrix = topologies.adjacency(graph).T + sparse.eye_array(len(graph))
    return matrix @ sparse.diags_array(1 / matrix.sum(axis=0))


def laplacian(graph):
    """Weights I - L / A in the node order of networkx, not of the agents."""
    return sparse.eye_array(len(graph)) - nx.laplacian_matrix(graph) / len(graph)
