"""Schedules that failures are laid over, and sums of their matrices."""

import networkx as nx
import numpy as np

import topologies

GRAPH = topologies.erdos_renyi(12, 0.4, seed=1)
ARCS = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (2, 0), (1, 4)])
ARC_RING = nx.DiGraph([(k, (k + 1) % 5) for k in range(5)])


def everyone_else(graph):
    """Doubly stochastic weights without self-weights, of a complete graph."""
    return topologies.adjacency(graph) / (len(graph) - 1)


UNDIRECTED = {
    "static": topologies.Static(GRAPH),
    "periodic": topologies.Periodic([topologies.ring(12), GRAPH, nx.empty_graph(12)]),
    "random": topologies.RandomEdges(GRAPH, 0.6, seed=1),
    "matchings": topologies.Matchings(12, seed=1),
    "mobile": topologies.Mobile(12, 0.4, 0.1, seed=1),
    "no self-weights": topologies.Static(topologies.complete(12), weights=everyone_else),
    "failures": topologies.LinkFailure(topologies.Static(GRAPH), 0.3, seed=9),
    "agents": topologies.AgentFailure(topologies.Static(GRAPH), [(0, 5, 25), (7, 10, None)]),
}
PUSHED = {
    "arcs": topologies.Static(ARCS, weights=topologies.push),
    "ring": topologies.Static(ARC_RING, weights=topologies.push),
    "periodic": topologies.Periodic([ARCS, ARC_RING], weights=topologies.push),
    "both ways": topologies.Static(GRAPH, weights=topologies.push),
    "one peer": topologies.OnePeerExponential(9),
}


def sums(matrix, axis):
    return np.asarray(matrix.sum(axis=axis)).ravel()
