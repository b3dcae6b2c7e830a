"""Fitted averages: exact where they can be, the best combination elsewhere, sums and agreements kept, everything counted."""

import networkx as nx
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import AdaptiveNEXT, GradientTracking
from consensus.solvers.adaptive import averaging
from consensus.solvers.adaptive.averaging import exchange, first_exchange, introduction

AGENTS = 6
CIRCLE = nx.DiGraph([(k, (k + 1) % AGENTS) for k in range(AGENTS)] + [(0, 3), (5, 2)])  # masses become unequal
PUSH = topologies.Static(CIRCLE, weights=topologies.push)
BASE = topologies.erdos_renyi(AGENTS, 0.5, seed=3)
OWN = {  # where every agent has a combination of its own
    "random": topologies.RandomEdges(BASE, 0.5, seed=1),
    "periodic": topologies.Periodic([topologies.ring(AGENTS), topologies.star(AGENTS)]),
    "directed": PUSH,
    "directed, failing": topologies.LinkFailure(PUSH, 0.3, seed=2, symmetric=False),
}
COMMON = {  # where one polynomial serves all
    "ring": topologies.Static(topologies.ring(8)),
    "random graph": topologies.Static(topologies.erdos_renyi(10, 0.4, seed=5)),
    "torus": topologies.Static(topologies.torus(3, 4)),
    "path": topologies.Static(topologies.path(7)),
}


@pytest.fixture(autouse=True)
def one_thread():
    """As engines do: threads cost more than they bring in small systems."""
    with threadpool_limits(1):
        yield


def rows(agents, seed=0, dtype=float):
    """Masses, something to average and something to sum."""
    rng = np.random.default_rng(seed)
    averaged, summed = 10 * rng.standard_normal((agents, 4)), rng.standard_normal((agents, 3))
    return np.ones((agents, 1), dtype), averaged.astype(dtype), summed.astype(dtype)


def products(schedule, count, first=0):
    """C_k ... C_1 for k = 0 ... count, dense."""
    chain = [np.eye(schedule.agents)]
    for k in range(first, first + count):
        chain.append(schedule.weights(schedule.key(k)) @ chain[-1])
    return np.array(chain)


def own_fit(schedule, count, first=0, masses=None):
    """Every agent's best combination of what it held: rows that should all be 1/A, and by how much they miss it."""
    A = schedule.agents
    masses = np.ones(A) if masses is None else masses
    chain = products(schedule, count, first)
    seen = chain / (chain @ masses)[:, :, None]  # an agent's row: how much of each agent's start is in its z_k
    combined = np.empty((A, A))
    for agent in range(A):
        steps = np.diff(seen[:, agent], axis=0).T
        b = np.linalg.lstsq(steps, 1 / A - seen[-1, agent], rcond=1e-9)[0]
        combined[agent] = seen[-1, agent] + steps @ b
    return combined, np.linalg.norm(combined - 1 / A, axis=1) / np.sqrt(1 - 1 / A)


def distinct(schedule):
    """How many eigenvalues the mixing matrix has."""
    values = np.sort(np.linalg.eigvalsh(schedule.weights(0).toarray()))
    return 1 + int((np.diff(values) > 1e-9).sum())


def first(schedule, target=0.05, strict=False, data=None):
    network = StackedNetwork(schedule, np.float64, strict)
    return network, first_exchange(network, *(data or rows(schedule.agents)), target)


@pytest.mark.parametrize(
    "graph",
    [
        topologies.ring(8),
        topologies.ring(21),
        topologies.ring(50),
        topologies.star(7),
        topologies.hypercube(4),
        topologies.torus(4, 5),
        topologies.complete(6),
        topologies.path(20),
        topologies.erdos_renyi(8, 0.4, seed=2),
    ],
    ids=["ring 8", "ring 21", "ring 50", "star", "hypercube", "torus", "complete", "path", "random"],
)
def test_averages_are_exact_after_as_many_exchanges_as_there_are_other_eigenvalues(graph):
    schedule = topologies.Static(graph)
    masses, averaged, summed = rows(schedule.agents)
    needed = distinct(schedule) - 1
    _, news = first(schedule, target=1e-9)
    assert news.pace == needed
    network = StackedNetwork(schedule, np.float64)
    again = exchange(network, news.done, news.pace, news.fit, masses, averaged, summed)
    for found in (news, again):
        np.testing.assert_allclose(found.averages, np.tile(averaged.mean(axis=0), (len(averaged), 1)), rtol=0, atol=3e-7)
        np.testing.assert_allclose(found.sums, np.tile(summed.mean(axis=0), (len(averaged), 1)), rtol=0, atol=3e-8)
    assert network.exchanges == news.pace


@pytest.mark.parametrize("name", COMMON)
def test_one_polynomial_is_the_best_of_its_degree(name):
    """Least squares over all agents at once, on the stacked powers of the mixing matrix."""
    schedule = COMMON[name]
    A, W = schedule.agents, schedule.weights(0).toarray()
    _, news = first(schedule, target=0.2)
    powers = products(schedule, news.pace)
    steps = np.diff(powers, axis=0).reshape(news.pace, -1).T
    b = np.linalg.lstsq(steps, (1 / A - powers[-1]).ravel(), rcond=None)[0]
    polynomial = powers[-1] + (steps @ b).reshape(A, A)
    masses, averaged, summed = rows(A, seed=1)
    news = exchange(StackedNetwork(schedule, np.float64), 0, news.pace, news.fit, masses, averaged, summed)
    np.testing.assert_allclose(news.averages, polynomial @ averaged, rtol=0, atol=1e-9)
    np.testing.assert_allclose(news.sums, polynomial @ summed, rtol=0, atol=1e-10)
    assert np.abs(W @ polynomial - polynomial @ W).max() < 1e-12


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", OWN)
def test_elsewhere_every_agent_takes_its_own_best_combination(name, count):
    schedule = OWN[name]
    masses, averaged, summed = rows(AGENTS)
    news = exchange(StackedNetwork(schedule, np.float64), 7, count, np.zeros((AGENTS, 0)), masses, averaged, summed)
    combined, misfit = own_fit(schedule, count, first=7)
    assert misfit.max() > 1e-3  # not yet exact
    np.testing.assert_allclose(news.averages, combined @ averaged, rtol=0, atol=1e-8)
    np.testing.assert_allclose(news.sums, combined @ summed, rtol=0, atol=1e-9)
    chain = products(schedule, count, first=7)[-1]
    np.testing.assert_allclose(news.mixed, chain @ summed, rtol=0, atol=1e-14)
    np.testing.assert_allclose(news.masses, chain @ masses, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", [*OWN, *COMMON])
def test_sums_and_masses_are_kept_over_many_exchanges(name):
    schedule = (OWN | COMMON)[name]
    _, averaged, summed = rows(schedule.agents)
    network, news = first(schedule)
    for _ in range(20):
        news = exchange(network, network.exchanges, news.pace, news.fit, news.masses, averaged, news.mixed)
    np.testing.assert_allclose(news.mixed.sum(axis=0), summed.sum(axis=0), rtol=0, atol=1e-11)
    assert abs(news.masses.sum() - schedule.agents) < 1e-12


@pytest.mark.parametrize("name", [*OWN, *COMMON])
def test_an_agreement_is_kept(name):
    schedule = (OWN | COMMON)[name]
    masses, averaged, summed = rows(schedule.agents)
    averaged[:] = 1e3 * averaged[0]
    network, news = first(schedule, data=(masses, averaged, summed))
    for _ in range(5):
        news = exchange(network, network.exchanges, news.pace, news.fit, news.masses, averaged, summed)
        np.testing.assert_allclose(news.averages, averaged, rtol=3e-14, atol=0)
    if name.startswith("directed"):
        assert np.ptp(news.masses) > 0.1


@pytest.mark.parametrize("name", [*OWN, *COMMON])
@pytest.mark.parametrize("target", [0.05, 0.02])
def test_the_pace_is_the_first_number_of_exchanges_that_is_enough(target, name):
    schedule = (OWN | COMMON)[name]
    network, news = first(schedule, target)
    again = StackedNetwork(schedule, np.float64).crossing(0) if name in COMMON or name == "directed" else news.pace
    assert news.done == network.exchanges == news.pace + again  # what travels second has crossed the network by then
    enough = [(own_fit(schedule, k)[1] <= target).all() and products(schedule, k)[-1].all() for k in (news.pace - 1, news.pace)]
    assert enough == [False, True]  # everyone is near the averages, and has heard from everyone


@pytest.mark.parametrize("graph", [nx.Graph([(0, 1), (2, 3), (3, 4)]), nx.DiGraph([(0, 1), (1, 2), (2, 1), (1, 3), (3, 2)])])
def test_a_network_that_is_not_connected_is_named(graph):
    weights = topologies.push if graph.is_directed() else topologies.metropolis
    with pytest.raises(ValueError, match=r"in \d+ exchanges .* the network must be connected"):
        first(topologies.Static(graph, weights=weights))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("graph", [topologies.ring(20), topologies.path(20)], ids=["ring", "path"])
def test_long_graphs_are_connected(graph, dtype):
    schedule = topologies.Static(graph)
    network = StackedNetwork(schedule, dtype)
    news = first_exchange(network, *rows(len(graph), dtype=dtype), 0.05)
    assert news.pace == distinct(schedule) - 1 if dtype is np.float64 else news.pace <= len(graph)


@pytest.mark.parametrize("graph", [topologies.erdos_renyi(300, 0.05, seed=1), topologies.star(270)], ids=["random", "star"])
def test_more_agents_than_probes(graph):
    schedule = topologies.Static(graph)
    masses, averaged, summed = rows(len(graph), seed=2)
    network, news = first(schedule)
    assert news.pace <= 5
    data = np.concatenate([averaged, summed], axis=1)
    start = data - data.mean(axis=0)
    for _ in range(3):
        news = exchange(network, network.exchanges, news.pace, news.fit, masses, averaged, summed)
        left = np.concatenate([news.averages, news.sums], axis=1) - data.mean(axis=0)
        assert (np.linalg.norm(left, axis=0) < 0.05 * np.linalg.norm(start, axis=0)).all()


def test_a_long_network_of_too_many_agents_is_refused_at_once():
    schedule = topologies.Static(topologies.ring(300))
    with pytest.raises(ValueError, match="300 exchanges, or more, are needed to find the averages of 300 agents: among more"):
        AdaptiveNEXT().check_network(schedule)
    X = np.random.default_rng(0).standard_normal((300, 2))
    calls = []

    class Recorded(consensus.Linear):
        def predict(self, w, x):
            calls.append(len(w))
            return super().predict(w, x)

    shards = consensus.partition(X, X[:, 0], agents=300)
    p = consensus.Problem(Recorded(2), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    with pytest.raises(ValueError, match="NEXT and GradientTracking take this one"):
        consensus.solve(p, schedule, rounds=1)
    assert calls == []
    assert consensus.solve(p, schedule, GradientTracking(0.1), rounds=1).rounds == 1


def test_what_is_found_late_only_is_refused_then(monkeypatch):
    """The averages of two dense halves take more exchanges than news does; with fewer probes, as the test is dear with all."""
    monkeypatch.setattr(averaging, "_PROBES", 24)
    network = StackedNetwork(topologies.Static(nx.barbell_graph(15, 0)), np.float32)
    AdaptiveNEXT().check_network(network.schedule)
    with pytest.raises(ValueError, match="13 exchanges, or more, are needed to find the averages of 30 agents"):
        first_exchange(network, *rows(30, dtype=np.float32), 1e-9)


def test_parts_of_a_network_are_named_before_any_work():
    graph = nx.Graph([("ann", "bob"), ("cy", "di"), ("di", "ed"), ("ed", "flo")])
    with pytest.raises(ValueError, match="its 2 parts are of the agents 'ann', 'bob'; 'cy', 'di', 'ed' and 1 more"):
        AdaptiveNEXT().check_network(topologies.RandomEdges(graph, 0.5))


def hairs(agents, length):
    """A complete graph with two paths that end in the open."""
    graph = nx.complete_graph(agents)
    for root in (0, 1):
        nx.add_path(graph, [root, *(agents + root * length + k for k in range(length))])
    return graph


@pytest.mark.parametrize("graph", [topologies.star(30), nx.lollipop_graph(20, 3), hairs(40, 2)], ids=["star", "one", "two"])
def test_in_the_pace_news_crosses_the_whole_graph(graph):
    """Otherwise agents could not know that all are done, nor what the common fit takes."""
    assert first(topologies.Static(graph))[1].pace >= nx.diameter(graph)


TORUS = topologies.Static(topologies.torus(4, 5))


@pytest.mark.parametrize(("schedule", "enough"), [(COMMON["ring"], True), (COMMON["path"], True), (TORUS, False), (PUSH, True)])
def test_in_an_introduction_agents_learn_whether_the_diameter_is_enough(schedule, enough):
    A = schedule.agents
    masses, averaged, summed = rows(A)
    network = StackedNetwork(schedule, np.float64, strict=True)
    news = introduction(network, masses, averaged, summed, 0.01)
    D = nx.diameter(nx.Graph(schedule.graph(0))) if schedule is not PUSH else max(map(max, distances(schedule)))
    assert news.done == network.exchanges == 2 * D
    assert bool((own_fit(schedule, D)[1] <= 0.01).all()) is enough
    assert news.pace == (D if enough else 0)
    assert news.fit.shape == (A, 0)
    edges = schedule.weights(0).nnz - A
    assert network.messages == 2 * D * edges
    # Three sets of at most 64 agents, a bit each; two times, a diagonal, flags; and once a weight.
    assert network.floats == edges * (2 * D * (1 + 4 + 3 + A + 3 + 4) + 1)
    np.testing.assert_allclose(news.mixed, products(schedule, 2 * D)[-1] @ summed, rtol=0, atol=1e-14)


def distances(schedule):
    lengths = dict(nx.all_pairs_shortest_path_length(schedule.graph(0)))
    return [list(lengths[agent].values()) for agent in lengths]


@pytest.mark.parametrize("name", ["ring", "directed", "random"])
def test_everything_sent_is_counted(name):
    schedule = (OWN | COMMON)[name]
    A = schedule.agents
    network, news = first(schedule, strict=True)
    common, K = name == "ring", news.pace
    edges = [schedule.weights(schedule.key(k)).nnz - A for k in range(5 * K)]  # with weights for all diagonals
    wide = 1 + 4 + 3 + A
    assert network.messages == len(network.record) == sum(edges[: news.done])
    beside = 2 + (name == "random")  # who is done, and since when; where graphs change, who has been heard from
    assert network.floats == (wide + beside) * network.messages
    before, start, equations = network.floats, news.done, 0
    if common:  # every row of K (K + 3) / 2 numbers with a name goes over every edge of a ring one way, and over one both ways
        equations = A * A * (1 + K * (K + 3) // 2)
    for width, flooded in ((7 if common else wide, equations), (7 if common else wide, 0)):
        news = exchange(network, start, K, news.fit, *rows(A))
        assert network.floats - before == sum(edges[start : start + K]) * width + flooded
        before, start = network.floats, start + K
    assert network.messages == sum(edges[:start])


@pytest.mark.parametrize(
    ("agents", "dtype", "numbers"), [(1, float, 1), (64, float, 1), (65, float, 2), (64, np.float32, 2), (300, float, 5)]
)
def test_names_are_bits(agents, dtype, numbers):
    assert StackedNetwork(topologies.Static(topologies.star(agents)), dtype).names == numbers
