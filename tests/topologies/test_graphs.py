"""Every generator: sizes, degrees, edges by their definition, connectedness, seeds, refusals."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest

import topologies

DETERMINISTIC = {
    "ring": lambda: topologies.ring(9),
    "path": lambda: topologies.path(9),
    "star": lambda: topologies.star(9),
    "complete": lambda: topologies.complete(9),
    "grid": lambda: topologies.grid(3, 3),
    "torus": lambda: topologies.torus(3, 3),
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


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_deterministic_graphs_have_the_agents_in_order_and_are_connected(name):
    graph = DETERMINISTIC[name]()
    assert type(graph) is nx.Graph
    assert list(graph) == list(range(9))
    assert nx.is_connected(graph)
    assert nx.number_of_selfloops(graph) == 0


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_random_graphs_are_connected_and_a_function_of_the_seed(name, seed):
    graph, again = RANDOM[name](seed), RANDOM[name](seed)
    assert type(graph) is nx.Graph
    assert list(graph) == list(range(30))
    assert nx.is_connected(graph)
    assert nx.number_of_selfloops(graph) == 0
    assert edges(graph) == edges(again)
    assert edges(graph) != edges(RANDOM[name](seed + 1))


def test_ring_edges():
    assert edges(topologies.ring(7)) == {frozenset((i, (i + 1) % 7)) for i in range(7)}


@pytest.mark.parametrize(("agents", "count"), [(1, 0), (2, 1), (3, 3)])
def test_small_rings_have_no_selfloop_and_no_doubled_edge(agents, count):
    graph = topologies.ring(agents)
    assert graph.number_of_edges() == count
    assert nx.number_of_selfloops(graph) == 0


def test_path_edges():
    assert edges(topologies.path(5)) == {frozenset((i, i + 1)) for i in range(4)}


def test_star_has_agent_zero_in_the_centre():
    assert edges(topologies.star(6)) == {frozenset((0, i)) for i in range(1, 6)}


def test_complete_has_every_pair():
    assert edges(topologies.complete(6)) == {frozenset(pair) for pair in itertools.combinations(range(6), 2)}


@pytest.mark.parametrize("name", ["ring", "path", "star", "complete"])
def test_one_agent_has_no_edges(name):
    graph = getattr(topologies, name)(1)
    assert list(graph) == [0]
    assert graph.number_of_edges() == 0


def test_grid_numbers_agents_row_by_row():
    found = edges(topologies.grid(3, 4))
    across = {frozenset((4 * r + c, 4 * r + c + 1)) for r in range(3) for c in range(3)}
    down = {frozenset((4 * r + c, 4 * (r + 1) + c)) for r in range(2) for c in range(4)}
    assert found == across | down


def test_torus_wraps_around_both_ways():
    expected = set()
    for r, c in itertools.product(range(4), range(5)):
        expected |= {frozenset((5 * r + c, 5 * r + (c + 1) % 5)), frozenset((5 * r + c, 5 * ((r + 1) % 4) + c))}
    graph = topologies.torus(4, 5)
    assert edges(graph) == expected
    assert {degree for _, degree in graph.degree} == {4}


@pytest.mark.parametrize(("rows", "columns", "same"), [(1, 6, topologies.ring(6)), (2, 2, topologies.grid(2, 2))])
def test_torus_with_a_short_side_does_not_double_edges(rows, columns, same):
    assert edges(topologies.torus(rows, columns)) == edges(same)


@pytest.mark.parametrize("dimension", [0, 1, 2, 5])
def test_hypercube_joins_numbers_one_digit_apart(dimension):
    graph = topologies.hypercube(dimension)
    pairs = itertools.combinations(range(2**dimension), 2)
    assert list(graph) == list(range(2**dimension))
    assert edges(graph) == {frozenset(pair) for pair in pairs if (pair[0] ^ pair[1]).bit_count() == 1}


def test_erdos_renyi_edge_count_is_binomial():
    pairs = 40 * 39 // 2
    counts = [topologies.erdos_renyi(40, 0.3, seed=seed, connected=False).number_of_edges() for seed in range(50)]
    deviation = math.sqrt(pairs * 0.3 * 0.7 / 50)
    assert abs(np.mean(counts) - 0.3 * pairs) < 4 * deviation


@pytest.mark.parametrize(("probability", "count"), [(0.0, 0), (1.0, 45)])
def test_erdos_renyi_at_the_ends_of_the_range(probability, count):
    assert topologies.erdos_renyi(10, probability, connected=False).number_of_edges() == count


def test_random_geometric_joins_exactly_the_close_points():
    graph = topologies.random_geometric(25, 0.3, seed=4, connected=False)
    place = {agent: np.array(graph.nodes[agent]["pos"]) for agent in graph}
    assert all(point.min() >= 0 and point.max() <= 1 for point in place.values())
    pairs = itertools.combinations(range(25), 2)
    assert edges(graph) == {frozenset((i, j)) for i, j in pairs if np.linalg.norm(place[i] - place[j]) <= 0.3}


def test_random_geometric_keeps_positions_when_connected():
    graph = topologies.random_geometric(25, 0.35, seed=4)
    assert set(nx.get_node_attributes(graph, "pos")) == set(range(25))


@pytest.mark.parametrize(("agents", "degree"), [(2, 1), (10, 2), (9, 4), (20, 3), (1, 0)])
def test_random_regular_degrees(agents, degree):
    graph = topologies.random_regular(agents, degree, seed=2)
    assert list(graph) == list(range(agents))
    assert {found for _, found in graph.degree} == {degree}
    assert nx.is_connected(graph)


def test_small_world_without_rewiring_is_the_lattice():
    graph = topologies.small_world(11, 4, 0.0)
    assert edges(graph) == {frozenset((i, (i + step) % 11)) for i in range(11) for step in (1, 2)}


def test_small_world_rewiring_keeps_the_number_of_edges():
    assert topologies.small_world(20, 6, 0.5, seed=1).number_of_edges() == 60


@pytest.mark.parametrize(("agents", "new"), [(2, 1), (20, 1), (20, 3)])
def test_barabasi_albert_edge_count(agents, new):
    graph = topologies.barabasi_albert(agents, new, seed=5)
    assert graph.number_of_edges() == new * (agents - new)
    assert nx.is_connected(graph)


def test_connected_is_the_plain_draw_when_that_is_connected_and_another_when_not():
    kept = redrawn = 0
    for seed in range(20):
        plain = topologies.erdos_renyi(12, 0.2, seed=seed, connected=False)
        found = topologies.erdos_renyi(12, 0.2, seed=seed)
        assert nx.is_connected(found)
        assert (edges(plain) == edges(found)) == nx.is_connected(plain)
        kept, redrawn = kept + nx.is_connected(plain), redrawn + (not nx.is_connected(plain))
    assert kept > 0
    assert redrawn > 0


def test_numpy_integers_are_integers():
    drawn = topologies.erdos_renyi(np.int64(12), np.float64(0.4), seed=np.int64(3))
    assert edges(drawn) == edges(topologies.erdos_renyi(12, 0.4, seed=3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: topologies.erdos_renyi(50, 0.01),
            r"erdos_renyi\(agents=50, probability=0.01\).*raise probability.*0.078",
        ),
        (
            lambda: topologies.random_geometric(50, 0.01),
            r"random_geometric\(agents=50, radius=0.01\).*raise radius.*0.16",
        ),
        (lambda: topologies.random_regular(10, 1), r"random_regular\(agents=10, degree=1\).*raise degree"),
    ],
)
def test_graphs_that_stay_disconnected_are_refused_with_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_small_world_that_stays_disconnected_is_refused_with_the_remedy(monkeypatch):
    # One draw in a few dozen is connected here, so that the full number of draws would find one.
    monkeypatch.setattr(topologies.graphs.random, "DRAWS", 2)
    with pytest.raises(ValueError, match=r"small_world\(agents=600, neighbours=2.* none of 2 draws.*raise neighbours"):
        topologies.small_world(600, 2, 1.0)


@pytest.mark.parametrize("name", ["ring", "path", "star", "complete"])
@pytest.mark.parametrize(("agents", "message"), [(0, "agents must be at least 1, got 0"), (2.5, "agents must be an int")])
def test_bad_number_of_agents(name, agents, message):
    with pytest.raises(ValueError, match=message):
        getattr(topologies, name)(agents)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: topologies.grid(0, 3), "rows must be at least 1, got 0"),
        (lambda: topologies.grid(3, 0), "columns must be at least 1, got 0"),
        (lambda: topologies.torus(0, 3), "rows must be at least 1, got 0"),
        (lambda: topologies.torus(3, -1), "columns must be at least 1, got -1"),
        (lambda: topologies.hypercube(-1), "dimension must be at least 0, got -1"),
        (lambda: topologies.erdos_renyi(0, 0.5), "agents must be at least 1, got 0"),
        (lambda: topologies.erdos_renyi(5, 1.5), r"probability must be a number in \[0, 1\], got 1.5"),
        (lambda: topologies.erdos_renyi(5, math.nan), "probability must be a number"),
        (lambda: topologies.erdos_renyi(5, "half"), "probability must be a number in .* got 'half'"),
        (lambda: topologies.erdos_renyi(5, 0.5, seed=-1), "seed must be at least 0, got -1"),
        (lambda: topologies.erdos_renyi(5, 0.5, seed=None), "seed must be an integer of at least 0, got None"),
        (lambda: topologies.random_geometric(0, 0.5), "agents must be at least 1"),
        (lambda: topologies.random_geometric(5, 0.0), "radius must be a finite number above 0, got 0.0"),
        (lambda: topologies.random_geometric(5, math.inf), "radius must be a finite number above 0, got inf"),
        (lambda: topologies.random_regular(5, 5), "degree must be below agents.*degree=5, agents=5"),
        (lambda: topologies.random_regular(5, 3), "agents \\* degree even; got degree=3, agents=5"),
        (lambda: topologies.random_regular(5, -2), "degree must be at least 0, got -2"),
        (lambda: topologies.small_world(10, 3, 0.1), "neighbours must be even and below agents=10, got 3"),
        (lambda: topologies.small_world(10, 10, 0.1), "neighbours must be even and below agents=10, got 10"),
        (lambda: topologies.small_world(10, 0, 0.1), "neighbours must be at least 2, got 0"),
        (lambda: topologies.small_world(10, 4, -0.1), "probability must be a number in .* got -0.1"),
        (lambda: topologies.barabasi_albert(1, 1), "agents must be at least 2, got 1"),
        (lambda: topologies.barabasi_albert(5, 5), "edges must be below agents=5, got 5"),
        (lambda: topologies.barabasi_albert(5, 0), "edges must be at least 1, got 0"),
        (lambda: topologies.barabasi_albert(5, 2, seed=-3), "seed must be at least 0, got -3"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
