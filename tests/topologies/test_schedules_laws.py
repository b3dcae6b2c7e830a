"""Laws of every schedule, over graphs and seeds: sums of rows and columns, symmetry, support, averages."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies

AGENTS = 16
GRAPHS = {
    "ring": topologies.ring(AGENTS),
    "star": topologies.star(AGENTS),
    "complete": topologies.complete(AGENTS),
    "random": topologies.erdos_renyi(AGENTS, 0.3, seed=2),
    "parts": nx.disjoint_union(topologies.grid(3, 4), nx.empty_graph(4)),
}


def contacts(graph, seed):
    rng = np.random.default_rng(seed)
    edges = np.array(graph.edges)
    return rng.uniform(0, 100, 60), edges[rng.integers(0, len(edges), 60)]


def rewired(graph, seed):
    def function(round):
        order = np.random.default_rng([seed, round]).permutation(AGENTS).tolist()
        return nx.relabel_nodes(graph, dict(enumerate(order)))

    return function


SYMMETRIC = {
    "static": lambda graph, seed: topologies.Static(graph),
    "periodic": lambda graph, seed: topologies.Periodic([graph, topologies.path(AGENTS)]),
    "random edges": lambda graph, seed: topologies.RandomEdges(graph, 0.5, seed),
    "matchings": lambda graph, seed: topologies.Matchings(AGENTS, seed),
    "matchings of a graph": lambda graph, seed: topologies.Matchings(AGENTS, seed, graph),
    "mobile": lambda graph, seed: topologies.Mobile(AGENTS, 0.3, 0.1, seed),
    "sequence": lambda graph, seed: topologies.Sequence(rewired(graph, seed), AGENTS),
    "temporal": lambda graph, seed: topologies.Temporal(*contacts(graph, seed), 10, labels=range(AGENTS)),
}
LAYERS = {
    "links": lambda inner, seed: topologies.LinkFailure(inner, 0.4, seed),
    "agents": lambda inner, seed: topologies.AgentFailure(inner, [(seed % AGENTS, 3, 12), (5, 0, 7), (5, 10, None)]),
    "both": lambda inner, seed: LAYERS["links"](LAYERS["agents"](inner, seed), seed),
    "twice": lambda inner, seed: topologies.LinkFailure(LAYERS["links"](inner, seed), 0.2, seed + 1),
}
SEEDS = range(3)


@pytest.fixture(params=GRAPHS)
def graph(request):
    return GRAPHS[request.param]


@pytest.fixture(params=SEEDS)
def seed(request):
    return request.param


def check_support(network, n):
    matrix, graph = network.weights(network.key(n)), network.graph(n)
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.has_canonical_format
    assert list(graph) == list(range(network.agents))
    allowed = nx.to_numpy_array(graph).T + np.eye(network.agents) > 0
    assert np.array_equal(matrix.toarray() != 0, allowed)


@pytest.mark.parametrize("layer", [None, *LAYERS])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_undirected_schedules_are_symmetric_and_doubly_stochastic_on_their_graphs(name, layer, graph, seed):
    network = SYMMETRIC[name](graph, seed)
    if layer is not None:
        network = LAYERS[layer](network, seed)
    values = np.random.default_rng(seed).standard_normal(AGENTS)
    mean = values.mean()
    for n in (*range(12), 10_000):
        check_support(network, n)
        matrix = network.weights(network.key(n)).toarray()
        assert np.array_equal(matrix, matrix.T)
        assert abs(matrix.sum(axis=0) - 1).max() <= 5e-16
        assert matrix.min() >= 0
        values = matrix @ values
    assert abs(values.mean() - mean) <= 1e-15


def push(graph):
    """Column-stochastic weights: every agent splits what it has evenly over itself and whom it sends to."""
    matrix = topologies.adjacency(graph).T + sparse.eye_array(len(graph))
    return matrix @ sparse.diags_array(1 / matrix.sum(axis=0))


def pull(graph):
    """Row-stochastic weights: every agent takes the average over itself and whom it hears."""
    return push(graph.reverse()).T


def arcs(graph, seed):
    """Every edge in one direction at random, some in both."""
    rng = np.random.default_rng(seed)
    directed = nx.DiGraph(graph)
    directed.remove_edges_from([edge[:: rng.choice([-1, 1])] for edge in graph.edges if rng.random() < 0.8])
    return directed


DIRECTED = {
    "static": lambda graph, seed, weights: topologies.Static(arcs(graph, seed), weights),
    "periodic": lambda graph, seed, weights: topologies.Periodic([arcs(graph, seed), arcs(graph, seed + 9)], weights),
    "sequence": lambda graph, seed, weights: topologies.Sequence(lambda n: arcs(graph, [seed, n]), AGENTS, weights),
}


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("preserve", ["columns", "rows"])
@pytest.mark.parametrize("name", DIRECTED)
def test_directed_schedules_keep_the_sums_of_columns_or_rows(name, preserve, symmetric, graph, seed):
    inner = DIRECTED[name](graph, seed, push if preserve == "columns" else pull)
    absent = topologies.AgentFailure(inner, [(seed, 3, 12), (7, 0, 5)], preserve)
    for network in (
        inner,
        topologies.LinkFailure(inner, 0.4, seed, symmetric, preserve),
        absent,
        topologies.LinkFailure(absent, 0.4, seed, symmetric, preserve),
    ):
        for n in (*range(8), 10_000):
            check_support(network, n)
            matrix = network.weights(network.key(n)).toarray()
            assert abs(matrix.sum(axis=0 if preserve == "columns" else 1) - 1).max() <= 5e-16
            assert matrix.min() >= 0


@pytest.mark.parametrize("agents", range(1, 20))
def test_one_peer_exponential_schedules_are_doubly_stochastic(agents):
    network = topologies.OnePeerExponential(agents)
    for n in (*range(8), 10_000):
        check_support(network, n)
        matrix = network.weights(network.key(n)).toarray()
        assert np.array_equal(matrix.sum(axis=0), np.ones(agents))
        assert np.array_equal(matrix.sum(axis=1), np.ones(agents))


@pytest.mark.parametrize("symmetric", [True, False])
def test_one_peer_exponential_schedules_become_column_stochastic_under_loss(symmetric, seed):
    network = topologies.LinkFailure(topologies.OnePeerExponential(AGENTS), 0.4, seed, symmetric)
    for n in (*range(8), 10_000):
        check_support(network, n)
        matrix = network.weights(network.key(n)).toarray()
        assert np.array_equal(matrix.sum(axis=0), np.ones(AGENTS))
        assert abs(matrix.sum(axis=1) - 1).max() == 0.5
