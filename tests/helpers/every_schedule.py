"""A schedule of every kind, on a graph and with a seed of choice."""

import networkx as nx
import numpy as np

import topologies


def contacts(graph, seed):
    rng = np.random.default_rng(seed)
    edges = np.array([*graph.edges, (0, 1)])
    return rng.uniform(0, 100, 60), edges[rng.integers(0, len(edges), 60)]


def rewired(graph, seed):
    def function(round):
        order = np.random.default_rng([seed, round]).permutation(len(graph)).tolist()
        return nx.relabel_nodes(graph, dict(enumerate(order)))

    return function


UNDIRECTED = {
    "static": lambda graph, seed: topologies.Static(graph),
    "periodic": lambda graph, seed: topologies.Periodic([graph, topologies.path(len(graph))]),
    "random edges": lambda graph, seed: topologies.RandomEdges(graph, 0.5, seed),
    "matchings": lambda graph, seed: topologies.Matchings(len(graph), seed),
    "matchings of a graph": lambda graph, seed: topologies.Matchings(len(graph), seed, graph),
    "mobile": lambda graph, seed: topologies.Mobile(len(graph), 0.4, 0.1, seed),
    "sequence": lambda graph, seed: topologies.Sequence(rewired(graph, seed), len(graph)),
    "temporal": lambda graph, seed: topologies.Temporal(*contacts(graph, seed), 10, labels=range(len(graph))),
}


def arcs(graph, seed):
    """Every edge in one direction at random, some in both."""
    rng = np.random.default_rng(seed)
    directed = nx.DiGraph(graph)
    directed.remove_edges_from([edge[:: rng.choice([-1, 1])] for edge in graph.edges if rng.random() < 0.8])
    return directed


DIRECTED = {
    "static": lambda graph, seed, weights: topologies.Static(arcs(graph, seed), weights),
    "periodic": lambda graph, seed, weights: topologies.Periodic([arcs(graph, seed), arcs(graph, seed + 9)], weights),
    "sequence": lambda graph, seed, weights: topologies.Sequence(lambda n: arcs(graph, [seed, n]), len(graph), weights),
}
