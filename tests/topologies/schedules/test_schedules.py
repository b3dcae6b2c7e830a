"""Schedules: what they give each round, random access, equality, travel between processes, refusals."""

import pickle

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies

EVENS, ODDS = nx.Graph([(0, 1), (2, 3)]), nx.Graph([(1, 2), (0, 3)])
DIRECTED = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])
CONTACTS = ([0, 3, 12, 15, 31, 44], [(0, 1), (1, 2), (0, 1), (2, 3), (3, 4), (0, 4)])
SCHEDULES = {
    "static": lambda: topologies.Static(topologies.star(6)),
    "directed": lambda: topologies.Static(DIRECTED, weights=push),
    "periodic": lambda: topologies.Periodic([EVENS, ODDS, topologies.ring(4)]),
    "random": lambda: topologies.RandomEdges(topologies.grid(4, 5), 0.4, seed=3),
    "matchings": lambda: topologies.Matchings(6, seed=1),
    "matchings of a graph": lambda: topologies.Matchings(7, seed=1, graph=topologies.star(7)),
    "one peer": lambda: topologies.OnePeerExponential(6),
    "links": lambda: topologies.LinkFailure(topologies.Static(topologies.star(6)), 0.5, seed=2),
    "links of random edges": lambda: topologies.LinkFailure(topologies.RandomEdges(EVENS, 0.5, seed=2), 0.5, seed=2),
    "directed links": lambda: topologies.LinkFailure(topologies.Static(DIRECTED, weights=push), 0.3, symmetric=False),
    "one-way links": lambda: topologies.LinkFailure(topologies.Static(topologies.ring(5)), 0.3, symmetric=False),
    "agents": lambda: topologies.AgentFailure(topologies.Periodic([EVENS, ODDS]), [(1, 3, 30), (3, 5, 20)]),
    "directed agents": lambda: topologies.AgentFailure(topologies.Static(DIRECTED, weights=push), [(1, 3, 5)]),
    "mobile": lambda: topologies.Mobile(6, 0.5, 0.3, seed=1),
    "sequence": lambda: topologies.Sequence(handshakes, agents=5),
    "temporal": lambda: topologies.Temporal(*CONTACTS, window=10),
}


def handshakes(round):
    graph = nx.empty_graph(5)
    graph.add_edges_from({(round % 5, (round + 1) % 5), (0, 2)})
    return graph


def push(graph):
    """Column-stochastic weights: every agent splits what it has evenly over itself and whom it sends to."""
    matrix = topologies.adjacency(graph).T + sparse.eye_array(len(graph))
    return matrix @ sparse.diags_array(1 / matrix.sum(axis=0))


def laplacian(graph):
    """Weights I - L / A in the node order of networkx, not of the agents."""
    return sparse.eye_array(len(graph)) - nx.laplacian_matrix(graph) / len(graph)


def same(one, other):
    return all(np.array_equal(getattr(one, part), getattr(other, part)) for part in ("indptr", "indices", "data"))


@pytest.fixture(params=SCHEDULES)
def make(request):
    return SCHEDULES[request.param]


def test_every_matrix_lives_on_the_graph_of_its_round(make):
    schedule = make()
    for n in range(7):
        matrix, graph = schedule.weights(schedule.key(n)), schedule.graph(n)
        assert isinstance(matrix, sparse.csr_array)
        assert matrix.shape == (schedule.agents, schedule.agents)
        assert matrix.dtype == np.float64
        assert matrix.has_canonical_format
        assert list(graph) == list(range(schedule.agents))
        expected = nx.to_numpy_array(graph).T + np.eye(schedule.agents)
        assert np.array_equal(matrix.toarray() != 0, expected != 0)


def test_the_union_holds_every_edge_of_every_round(make):
    schedule = make()
    union = schedule.union()
    assert union.format == "csr"
    seen = sum(nx.to_numpy_array(schedule.graph(n)) for n in range(60)) > 0
    assert np.array_equal(union.toarray() != 0, seen)


def test_equal_keys_mean_equal_matrices(make):
    schedule, matrices = make(), {}
    for n in range(10):
        key = schedule.key(n)
        assert same(matrices.setdefault(key, schedule.weights(key)), schedule.weights(schedule.key(n)))


def test_a_schedule_survives_pickling(make):
    schedule = make()
    copy = pickle.loads(pickle.dumps(schedule))
    assert copy == schedule
    assert hash(copy) == hash(schedule)
    assert repr(copy) == repr(schedule)
    for n in (0, 1, 5):
        assert same(copy.weights(copy.key(n)), schedule.weights(schedule.key(n)))
        assert set(copy.graph(n).edges) == set(schedule.graph(n).edges)


def test_schedules_are_equal_when_made_alike_and_only_then():
    for name, make in SCHEDULES.items():
        assert make() == make()
        assert all(make() != other() for different, other in SCHEDULES.items() if different != name)
    ring = topologies.ring(6)
    assert topologies.Static(ring) != topologies.Static(topologies.path(6))
    assert topologies.Static(ring) != topologies.Static(ring, weights=laplacian)
    assert topologies.Static(ring) == topologies.Static(nx.to_scipy_sparse_array(ring))
    assert topologies.RandomEdges(ring, 0.5, seed=1) != topologies.RandomEdges(ring, 0.5, seed=2)
    assert topologies.RandomEdges(ring, 0.5, seed=1) != topologies.RandomEdges(ring, 0.6, seed=1)
    assert topologies.Periodic([EVENS, ODDS]) != topologies.Periodic([ODDS, EVENS])


def test_changing_a_graph_given_or_taken_does_not_change_the_schedule():
    graph = topologies.path(4)
    schedules = [topologies.Static(graph), topologies.RandomEdges(graph, 1.0)]
    graph.add_edge(0, 3)
    for schedule in schedules:
        schedule.graph(0).add_edge(0, 2)
        assert set(schedule.graph(0).edges) == {(0, 1), (1, 2), (2, 3)}


@pytest.mark.parametrize(
    ("schedule", "shown"),
    [
        (topologies.Static(topologies.ring(6)), "Static(agents=6, edges=6, weights=metropolis)"),
        (topologies.Static(nx.DiGraph([(0, 1), (1, 2)]), weights=push), "Static(agents=3, edges=2, weights=push)"),
        (topologies.Periodic([EVENS, ODDS]), "Periodic(agents=4, period=2, edges=[2, 2], weights=metropolis)"),
        (
            topologies.Periodic([EVENS] * 9),
            "Periodic(agents=4, period=9, edges=[2, 2, 2, 2, ...], weights=metropolis)",
        ),
        (
            topologies.RandomEdges(topologies.ring(6), 0.5, seed=2),
            "RandomEdges(agents=6, edges=6, probability=0.5, seed=2)",
        ),
    ],
)
def test_repr_is_short_and_says_the_settings(schedule, shown):
    assert repr(schedule) == shown


def test_static_gives_metropolis_weights_in_every_round():
    graph = topologies.erdos_renyi(10, 0.3, seed=0)
    schedule = topologies.Static(graph)
    assert {schedule.key(n) for n in range(5)} == {schedule.key(0)}
    assert same(schedule.weights(schedule.key(4)), topologies.metropolis(graph))
    assert set(schedule.graph(4).edges) == set(graph.edges)


def test_static_calls_the_weights_function_once():
    calls = []
    schedule = topologies.Static(topologies.ring(5), weights=lambda graph: calls.append(1) or topologies.metropolis(graph))
    for n in range(5):
        schedule.weights(schedule.key(n))
    assert calls == [1]
    assert pickle.loads(pickle.dumps(schedule)) == topologies.Static(topologies.ring(5))


def test_static_keeps_node_attributes_and_gives_them_to_the_agents():
    graph = nx.Graph()
    graph.add_node("b", pos=(0.0, 1.0))
    graph.add_node("a", pos=(2.0, 3.0))
    graph.add_edge("a", "b")
    drawn = topologies.Static(graph).graph(0)
    assert dict(drawn.nodes(data="pos")) == {0: (0.0, 1.0), 1: (2.0, 3.0)}
    assert dict(topologies.RandomEdges(graph, 0.5).graph(2).nodes(data="pos")) == {0: (0.0, 1.0), 1: (2.0, 3.0)}


def test_weights_functions_that_follow_the_order_of_networkx_get_the_order_of_the_agents():
    ordered = topologies.barabasi_albert(9, 2, seed=1)
    shuffled = nx.Graph()
    shuffled.add_nodes_from(reversed(range(9)))
    shuffled.add_edges_from(ordered.edges)
    expected = topologies.Static(ordered, weights=laplacian)
    found = topologies.Static(shuffled, weights=laplacian)
    assert np.array_equal(found.weights(0).toarray(), expected.weights(0).toarray())


def test_directed_graphs_stay_directed_and_weights_run_against_the_edges():
    schedule = topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]), weights=push)
    third = 1 / 3
    expected = [[third, 0, 0.5], [third, 0.5, 0], [third, 0.5, 0.5]]
    np.testing.assert_allclose(schedule.weights(0).toarray(), expected, rtol=0, atol=1e-16)
    assert schedule.graph(0).is_directed()
    assert set(schedule.graph(0).edges) == {(0, 1), (1, 2), (2, 0), (0, 2)}


def test_a_directed_matrix_gives_a_directed_graph():
    cycle = np.roll(np.eye(4), 1, axis=1)
    graph = topologies.Static(cycle, weights=lambda _: sparse.csr_array((cycle.T + np.eye(4)) / 2)).graph(0)
    assert graph.is_directed()
    assert set(graph.edges) == {(0, 1), (1, 2), (2, 3), (3, 0)}


def test_periodic_takes_its_graphs_in_turn():
    graphs = [EVENS, ODDS, topologies.ring(4)]
    schedule = topologies.Periodic(graphs)
    for n in range(9):
        assert same(schedule.weights(schedule.key(n)), topologies.metropolis(graphs[n % 3]))
        assert {frozenset(edge) for edge in schedule.graph(n).edges} == {frozenset(edge) for edge in graphs[n % 3].edges}
    assert [schedule.key(n) == schedule.key(0) for n in range(5)] == [True, False, False, True, False]


@pytest.mark.parametrize("graph", [topologies.path(1), nx.empty_graph(4)])
def test_agents_without_edges_keep_what_they_have(graph):
    for schedule in (topologies.Static(graph), topologies.RandomEdges(graph, 0.5)):
        assert np.array_equal(schedule.weights(schedule.key(0)).toarray(), np.eye(len(graph)))
        assert schedule.union().nnz == 0


def test_rounds_in_any_order_are_those_in_sequence(make):
    one, other = make(), make()
    sequence = [one.weights(one.key(n)) for n in range(40)]
    for n in np.random.default_rng(0).permutation(40).tolist():
        assert same(other.weights(other.key(n)), sequence[n])
        assert same(other.weights(other.key(np.int64(n))), sequence[n])


@pytest.mark.parametrize("name", ["random", "matchings", "matchings of a graph", "links", "mobile"])
def test_round_ten_thousand_is_that_of_a_run_from_the_start(name):
    one, other = SCHEDULES[name](), SCHEDULES[name]()
    for n in range(10_001):
        matrix = one.weights(one.key(n))
    assert same(matrix, other.weights(other.key(10_000)))
    assert not all(same(matrix, other.weights(other.key(n))) for n in range(20))


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name not in ("static", "directed")])
def test_negative_rounds_are_refused(name):
    with pytest.raises(ValueError, match="round must be at least 0, got -1"):
        SCHEDULES[name]().key(-1)


def test_periodic_names_the_graph_of_another_size():
    with pytest.raises(ValueError, match=r"graphs\[2\] has 5 agents but graphs\[0\] has 4"):
        topologies.Periodic([EVENS, ODDS, topologies.ring(5), topologies.ring(6)])


def test_periodic_needs_a_graph():
    with pytest.raises(ValueError, match="graphs is empty; pass at least one graph"):
        topologies.Periodic([])


@pytest.mark.parametrize("single", [topologies.ring(4), np.zeros((4, 4)), sparse.csr_array((4, 4))])
def test_periodic_refuses_a_single_graph(single):
    with pytest.raises(TypeError, match=r"must be a list of graphs, got one .*; use Static"):
        topologies.Periodic(single)


def dense(graph):
    return topologies.metropolis(graph).toarray()


def wrong_size(graph):
    return sparse.eye_array(len(graph) + 1)


def everyone(graph):
    return sparse.csr_array(np.full((len(graph), len(graph)), 1 / len(graph)))


def broken(graph):
    return sparse.diags_array(np.full(len(graph), np.nan))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            dense,
            r"weights function dense must return a .* of shape \(4, 4\), got ndarray of shape \(4, 4\)",
        ),
        (wrong_size, r"weights function wrong_size must return .* \(4, 4\), got dia_array of shape \(5, 5\)"),
        (everyone, r"weights function everyone returned nonzeros off the edges.*\(0, 2\), \(1, 3\), \(2, 0\), \.\.\. "),
        (broken, "weights function broken returned entries that are not finite"),
    ],
)
def test_weights_that_do_not_belong_to_the_graph_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        topologies.Static(topologies.ring(4), weights=weights)
    with pytest.raises(ValueError, match=message):
        topologies.Periodic([topologies.ring(4)], weights=weights)


def test_weights_along_instead_of_against_directed_edges_are_refused():
    def forward(graph):
        return topologies.adjacency(graph)

    with pytest.raises(ValueError, match=r"nonzeros off the edges of the graph: \(i, j\) = \(0, 1\) without edge j to i"):
        topologies.Static(nx.DiGraph([(0, 1)]), weights=forward)


def test_weights_must_be_a_function():
    with pytest.raises(TypeError, match="weights must be a function from a graph to a matrix, got a csr_array"):
        topologies.Static(topologies.ring(4), weights=topologies.metropolis(topologies.ring(4)))
