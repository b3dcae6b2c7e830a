"""A schedule of every kind: makers that take a graph and a seed, and examples over a few agents."""

import networkx as nx
import numpy as np

import topologies

GRAPH = topologies.erdos_renyi(12, 0.4, seed=1)
ARCS = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (2, 0), (1, 4)])
ARC_RING = nx.DiGraph([(k, (k + 1) % 5) for k in range(5)])


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
    "base graph": lambda graph, seed: topologies.BaseGraph(len(graph), 1 + seed % 3),
    "shifted pairs": lambda graph, seed: topologies.EquiDyn(len(graph), seed),
    "mobile": lambda graph, seed: topologies.Mobile(len(graph), 0.4, 0.1, seed),
    "sequence": lambda graph, seed: topologies.Sequence(rewired(graph, seed), len(graph)),
    "temporal": lambda graph, seed: topologies.Temporal(*contacts(graph, seed), 10, labels=range(len(graph))),
}


def arcs(graph, seed):
    """Return a directed graph with each edge in one direction at random, some in both."""
    rng = np.random.default_rng(seed)
    directed = nx.DiGraph(graph)
    directed.remove_edges_from([edge[:: rng.choice([-1, 1])] for edge in graph.edges if rng.random() < 0.8])
    return directed


DIRECTED = {
    "static": lambda graph, seed, weights: topologies.Static(arcs(graph, seed), weights),
    "periodic": lambda graph, seed, weights: topologies.Periodic([arcs(graph, seed), arcs(graph, seed + 9)], weights),
    "sequence": lambda graph, seed, weights: topologies.Sequence(lambda n: arcs(graph, [seed, n]), len(graph), weights),
}


def everyone_else(graph):
    """Return the doubly stochastic weights without self-weights of a complete graph."""
    return topologies.adjacency(graph) / (len(graph) - 1)


def handshakes(round):
    graph = nx.empty_graph(12)
    graph.add_edges_from({(round % 12, (round + 1) % 12), (0, 2)})
    return graph


def symmetric():
    """Return new schedules of 12 agents with symmetric doubly stochastic matrices."""
    static, random = topologies.Static(GRAPH), topologies.RandomEdges(GRAPH, 0.6, seed=1)
    return {
        "static": static,
        "no self-weights": topologies.Static(topologies.complete(12), weights=everyone_else),
        "periodic": topologies.Periodic([topologies.ring(12), GRAPH, nx.empty_graph(12)]),
        "sequence": topologies.Sequence(handshakes, 12),
        "random edges": random,
        "matchings": topologies.Matchings(12, seed=1),
        "matchings of a graph": topologies.Matchings(12, seed=1, graph=GRAPH),
        "base graph": topologies.BaseGraph(12, 3),
        "simple base graph": topologies.SimpleBaseGraph(11),
        "exponential ring": topologies.AlternatingExponentialRing(4, 3),
        "hyper-hypercube": topologies.HyperHypercube(12, 2),
        "static shifts": topologies.EquiStatic(12, 2),
        "shifted pairs": topologies.EquiDyn(12, seed=2),
        "mobile": topologies.Mobile(12, 0.4, 0.3, seed=1),
        "recorded positions": topologies.Mobile.from_positions(np.random.default_rng(4).random((9, 12, 2)), 0.5),
        "temporal": topologies.Temporal(*contacts(GRAPH, 1), 10, labels=range(12)),
        "lasting contacts": topologies.Temporal(range(30), contacts(GRAPH, 1)[1][:30], 2, labels=range(12), ends=range(3, 33)),
        "edges with their own chances": topologies.RandomEdges(GRAPH, np.full((12, 12), 0.5) + np.eye(12), seed=3),
        "links with their own chances": topologies.LinkFailure(static, np.full((12, 12), 0.3), seed=9),
        "link failure": topologies.LinkFailure(static, 0.3, seed=9),
        "links of random edges": topologies.LinkFailure(random, 0.5, seed=2),
        "links that fail in bursts": topologies.GilbertElliott(static, 0.3, 5.0, seed=2),
        "agents active at random": topologies.RandomActivation(static, 0.6, seed=3),
        "agents with long breaks": topologies.RandomActivation(random, 0.6, idle=6.0, seed=4),
        "agent failure": topologies.AgentFailure(static, [(0, 5, 25), (7, 10, 30)]),
        "agents of a period": topologies.AgentFailure(topologies.Periodic([GRAPH, topologies.ring(12)]), [(1, 3, 30)]),
    }


def column_stochastic():
    """Return new schedules of 5 to 12 agents with column-stochastic matrices that are not symmetric."""
    static = topologies.Static(ARCS, weights=topologies.push)
    return {
        "arcs": static,
        "arc ring": topologies.Static(ARC_RING, weights=topologies.push),
        "both ways": topologies.Static(GRAPH, weights=topologies.push),
        "turning arcs": topologies.Periodic([ARCS, ARC_RING], weights=topologies.push),
        "one peer": topologies.OnePeerExponential(9),
        "shifts": topologies.EquiDyn(9, symmetric=False),
        "static arcs of shifts": topologies.EquiStatic(9, 2, symmetric=False),
        "failing arcs": topologies.LinkFailure(static, 0.3, symmetric=False),
        "one-way failures": topologies.LinkFailure(topologies.Static(topologies.ring(5)), 0.3, symmetric=False),
        "agents of arcs": topologies.AgentFailure(static, [(1, 3, 5)]),
    }
