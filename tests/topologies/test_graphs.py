"""Every generator: edges by their definition, degrees, connectedness, seeds, and errors that name the remedy."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest

import topologies

PAIRS = list(itertools.combinations(range(32), 2))
# A graph, its number of agents, and its edges; those of a torus also if a side is too short to wrap around.
DEFINED = {
    **{f"ring {n}": (topologies.ring(n), n, [(i, (i + 1) % n) for i in range(n) if n > 1]) for n in (1, 2, 3, 7)},
    **{f"path {n}": (topologies.path(n), n, [(i, i + 1) for i in range(n - 1)]) for n in (1, 5)},
    **{f"star {n}": (topologies.star(n), n, [(0, i) for i in range(1, n)]) for n in (1, 6)},
    **{f"complete {n}": (topologies.complete(n), n, itertools.combinations(range(n), 2)) for n in (1, 6)},
    "grid": (topologies.grid(3, 4), 12, [(k, k + 1) for k in range(12) if k % 4 < 3] + [(k, k + 4) for k in range(8)]),
    **{
        f"torus {r} {c}": (
            topologies.torus(r, c),
            r * c,
            [(k, k + 1 if (k + 1) % c else k + 1 - c) for k in range(r * c) if c > 1]
            + [(k, (k + c) % (r * c)) for k in range(r * c) if r > 1],
        )
        for r, c in ((4, 5), (1, 6), (2, 2), (3, 3))
    },
    **{
        f"hypercube {d}": (topologies.hypercube(d), 2**d, [(i, j) for i, j in PAIRS if j < 2**d and (i ^ j).bit_count() == 1])
        for d in (0, 1, 2, 5)
    },
    "lattice": (topologies.small_world(11, 4, 0.0), 11, [(i, (i + step) % 11) for i in range(11) for step in (1, 2)]),
    "certain": (topologies.erdos_renyi(10, 1.0), 10, itertools.combinations(range(10), 2)),
    "empty": (topologies.erdos_renyi(10, 0.0, connected=False), 10, []),
}
RANDOM = {
    "erdos_renyi": lambda seed: topologies.erdos_renyi(30, 0.15, seed=seed),
    "random_geometric": lambda seed: topologies.random_geometric(30, 0.35, seed=seed),
    "random_regular": lambda seed: topologies.random_regular(30, 3, seed=seed),
    "small_world": lambda seed: topologies.small_world(30, 4, 0.3, seed=seed),
    "barabasi_albert": lambda seed: topologies.barabasi_albert(30, 2, seed=seed),
}


def edges(graph):
    return {frozenset(edge) for edge in graph.edges}


@pytest.mark.parametrize("name", DEFINED)
def test_graphs_have_the_agents_in_order_and_the_edges_of_their_definition(name):
    graph, agents, expected = DEFINED[name]
    assert type(graph) is nx.Graph
    assert list(graph) == list(range(agents))
    assert edges(graph) == set(map(frozenset, expected))


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_random_graphs_are_connected_and_a_function_of_the_seed(name, seed):
    graph = RANDOM[name](seed)
    assert type(graph) is nx.Graph
    assert list(graph) == list(range(30))
    assert nx.is_connected(graph)
    assert nx.number_of_selfloops(graph) == 0
    assert edges(graph) == edges(RANDOM[name](np.int64(seed))) != edges(RANDOM[name](seed + 1))


def test_erdos_renyi_edge_count_is_binomial():
    pairs = 40 * 39 // 2
    counts = [topologies.erdos_renyi(40, 0.3, seed=seed, connected=False).number_of_edges() for seed in range(50)]
    assert abs(np.mean(counts) - 0.3 * pairs) < 4 * math.sqrt(pairs * 0.3 * 0.7 / 50)


@pytest.mark.parametrize("connected", [True, False])
def test_random_geometric_joins_exactly_the_close_points(connected):
    graph = topologies.random_geometric(25, 0.35 if connected else 0.3, seed=4, connected=connected)
    place = {agent: np.array(graph.nodes[agent]["pos"]) for agent in graph}
    assert all(point.min() >= 0 and point.max() <= 1 for point in place.values())
    near = {(i, j) for i, j in PAIRS if j < 25 and np.linalg.norm(place[i] - place[j]) <= (0.35 if connected else 0.3)}
    assert edges(graph) == set(map(frozenset, near))


@pytest.mark.parametrize(("agents", "degree"), [(2, 1), (10, 2), (9, 4), (20, 3), (1, 0)])
def test_random_regular_degrees(agents, degree):
    graph = topologies.random_regular(agents, degree, seed=2)
    assert list(graph) == list(range(agents))
    assert {found for _, found in graph.degree} == {degree}
    assert nx.is_connected(graph)


def test_numbers_of_edges_do_not_depend_on_the_seed():
    assert topologies.small_world(20, 6, 0.5, seed=1).number_of_edges() == 60
    for agents, new in ((2, 1), (20, 1), (20, 3)):
        graph = topologies.barabasi_albert(agents, new, seed=5)
        assert graph.number_of_edges() == new * (agents - new)
        assert nx.is_connected(graph)


def test_the_first_draw_is_returned_if_it_is_connected_and_another_if_not():
    plain = [topologies.erdos_renyi(12, 0.2, seed=seed, connected=False) for seed in range(20)]
    found = [topologies.erdos_renyi(np.int64(12), np.float64(0.2), seed=seed) for seed in range(20)]
    kept = [nx.is_connected(graph) for graph in plain]
    assert all(map(nx.is_connected, found))
    assert [edges(one) == edges(other) for one, other in zip(plain, found)] == kept
    assert 0 < sum(kept) < 20


@pytest.mark.parametrize(("call", "message"), [
    (lambda: topologies.erdos_renyi(50, 0.01), r"erdos_renyi\(agents=50, probability=0.01\).*raise probability.*0.078"),
    (lambda: topologies.random_geometric(50, 0.01), r"random_geometric\(agents=50, radius=0.01\).*raise radius.*0.16"),
    (lambda: topologies.random_regular(10, 1), r"random_regular\(agents=10, degree=1\).*raise degree"),
    (lambda: topologies.small_world(600, 2, 1.0), r"small_world\(agents=600, neighbours=2.* none of 2 draws.*raise neighbours"),
])  # fmt: skip
def test_errors_about_graphs_that_stay_disconnected_name_the_remedy(call, message, monkeypatch):
    if "small_world" in message:  # one of a few dozen draws is connected
        monkeypatch.setattr(topologies.graphs.random, "DRAWS", 2)
    with pytest.raises(ValueError, match=message):
        call()
