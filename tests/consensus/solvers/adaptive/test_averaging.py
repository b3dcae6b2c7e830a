"""Fitted averages: exact where they can be, the best combination elsewhere, sums and agreements kept, everything counted."""

import itertools

import networkx as nx
import numpy as np
import pytest
from exchanges import AGENTS, COMMON, OWN, Rows, own_fit, products, rows
from threadpoolctl import threadpool_limits

import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers.adaptive import averaging
from consensus.solvers.adaptive.averaging import Averaging, average

EVERY = OWN | COMMON


@pytest.fixture(autouse=True)
def one_thread():
    """As engines do: threads cost more than they bring in small systems."""
    with threadpool_limits(1):
        yield


def rounds(network, count, *blocks):
    """What ``count`` rounds of exchanges bring, in which the same blocks are sent."""
    state = Averaging.at_start(blocks[0].rows)
    for _ in range(count):
        news = average(network, state, *blocks)
        state = news.state
        yield news


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
def test_where_agents_get_to_know_their_graph_averages_are_exact(graph):
    schedule = topologies.Static(graph)
    A, D = schedule.agents, nx.diameter(graph)
    network, (averaged, summed) = StackedNetwork(schedule, np.float64), rows(schedule.agents)
    for count, news in enumerate(rounds(network, 3, averaged, summed), start=1):
        assert D <= news.state.pace <= min(D + 1, 2 * nx.radius(graph))
        np.testing.assert_allclose(news.means.rows, np.tile(averaged.rows.mean(axis=0), (A, 1)), rtol=0, atol=1e-13)
        np.testing.assert_allclose(news.totals.rows, np.tile(summed.rows.sum(axis=0), (A, 1)), rtol=0, atol=1e-14 * A)
        np.testing.assert_allclose(A * news.mixed.rows, news.totals.rows, rtol=1e-14)
        assert news.state.sent == network.exchanges == D + count * news.state.pace  # they meet in the first D


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", OWN)
def test_elsewhere_every_agent_takes_its_own_best_combination(name, count):
    schedule = OWN[name]
    averaged, summed = rows(AGENTS)
    state = Averaging.at_start(averaged.rows)._replace(pace=count, sent=7)
    news = average(StackedNetwork(schedule, np.float64), state, averaged, summed)
    combined, misfit = own_fit(schedule, count, first=7)
    assert misfit.max() > 1e-3  # not yet exact
    np.testing.assert_allclose(news.means.rows, combined @ averaged.rows, rtol=0, atol=1e-8)
    np.testing.assert_allclose(news.totals.rows, AGENTS * combined @ summed.rows, rtol=0, atol=AGENTS * 1e-9)
    chain = products(schedule, count, first=7)[-1]
    np.testing.assert_allclose(news.mixed.rows, chain @ summed.rows, rtol=0, atol=1e-14)
    np.testing.assert_allclose(news.state.mass, chain @ state.mass, rtol=0, atol=1e-14)
    assert (news.state.sent, news.state.fit.size) == (7 + count, 0)


@pytest.mark.parametrize("name", EVERY)
def test_sums_and_masses_are_kept_over_many_exchanges(name):
    schedule = EVERY[name]
    averaged, summed = rows(schedule.agents)
    network, mixed, state = StackedNetwork(schedule, np.float64), summed, Averaging.at_start(averaged.rows)
    for _ in range(21):
        news = average(network, state, averaged, mixed)
        state, mixed = news.state, news.mixed
    np.testing.assert_allclose(mixed.rows.sum(axis=0), summed.rows.sum(axis=0), rtol=0, atol=1e-11)
    assert abs(state.mass.sum() - schedule.agents) < 1e-12


@pytest.mark.parametrize("name", EVERY)
def test_an_agreement_is_kept(name):
    schedule = EVERY[name]
    averaged, summed = rows(schedule.agents)
    agreed = Rows(np.tile(1e3 * averaged.rows[0], (schedule.agents, 1)))
    _, *later = rounds(StackedNetwork(schedule, np.float64), 6, agreed, summed)
    for news in later:
        np.testing.assert_allclose(news.means.rows, agreed.rows, rtol=3e-14, atol=0)
    if name.startswith("directed"):
        assert np.ptp(news.state.mass) > 0.1


@pytest.mark.parametrize(
    ("graph", "fewest"), [(topologies.erdos_renyi(300, 0.05, seed=1), 5), (topologies.star(270), 2)], ids=["random", "star"]
)
def test_more_agents_than_probes(graph, fewest, monkeypatch):
    monkeypatch.setattr(averaging, "_MISFIT_STATIC", 0.05)
    averaged, summed = rows(len(graph), seed=2)
    data = np.concatenate([averaged.rows, summed.rows], axis=1)
    start = data - data.mean(axis=0)
    _, _, *later = rounds(StackedNetwork(topologies.Static(graph), np.float64), 5, averaged, summed)
    assert later[0].state.pace == max(2 * StackedNetwork(topologies.Static(graph), np.float64).tree.depth, fewest)
    for news in later:
        left = np.concatenate([news.means.rows, news.totals.rows / len(graph)], axis=1) - data.mean(axis=0)
        assert (np.linalg.norm(left, axis=0) < 0.05 * np.linalg.norm(start, axis=0)).all()


@pytest.mark.parametrize("name", ["directed", "random"])
def test_what_rounds_send_is_counted(name):
    """After what is found out in the first, whose numbers the tests of the first exchanges count."""
    schedule = EVERY[name]
    A, network = schedule.agents, StackedNetwork(schedule, np.float64, strict=True)
    (news,) = rounds(network, 1, *rows(A))
    while not news.state.pace:
        news = average(network, news.state, *rows(A))
    for _ in range(3):
        old, floats, messages = news.state, network.floats, network.messages
        news = average(network, old, *rows(A))
        edges = sum(schedule.weights(schedule.key(k)).nnz - A for k in range(old.sent, old.sent + old.pace))
        assert news.state.sent == old.sent + old.pace
        assert network.messages - messages == edges
        assert network.floats - floats == edges * (1 + 4 + 3 + A)


@pytest.mark.parametrize("name", COMMON)
def test_what_is_sent_where_agents_get_to_know_their_graph_is_counted(name):
    schedule = COMMON[name]
    A, network = schedule.agents, StackedNetwork(schedule, np.float64)
    edges, D = schedule.weights(0).nnz - A, network.crossing(0)
    seen = [(network.messages, network.floats) for _ in rounds(network, 3, *rows(A))]
    hubs = len(network.hubs(D + 1).hubs)
    messages = A - hubs + hubs * (A - 1)
    assert [after - before for (before, _), (after, _) in itertools.pairwise(seen)] == [messages] * 2
    assert [after - before for (_, before), (_, after) in itertools.pairwise(seen)] == [messages * (4 + 3)] * 2
    assert seen[0][0] == D * edges + messages
    names = seen[0][1] - messages * (4 + 3)  # of everyone a name and the bits of its neighbours, to every other
    assert A * (A - 1) <= names / 2 <= A * edges
    if name == "path":
        assert names / 2 == A * (A - 1)
    if name == "ring":  # over every edge one way, and over one both ways
        assert names / 2 == A * A


@pytest.mark.parametrize(
    ("agents", "dtype", "numbers"), [(1, float, 1), (64, float, 1), (65, float, 2), (64, np.float32, 2), (300, float, 5)]
)
def test_names_are_bits(agents, dtype, numbers):
    assert StackedNetwork(topologies.Static(topologies.star(agents)), dtype).names == numbers
