"""How many exchanges a round takes: the first number that is enough, found out by the agents, in messages that are counted."""

import networkx as nx
import numpy as np
import pytest
from exchanges import COMMON, OWN, PUSH, mass_and_data, own_fit, products
from threadpoolctl import threadpool_limits

import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import AdaptiveNEXT
from consensus.solvers.adaptive import first_exchanges
from consensus.solvers.adaptive.first_exchanges import find_pace, introduce

EVERY = OWN | COMMON


@pytest.fixture(autouse=True)
def one_thread():
    """As engines do: threads cost more than they bring in small systems."""
    with threadpool_limits(1):
        yield


def found(schedule, target=0.05, dtype=float, strict=False):
    """The network, what its agents held in the first exchanges, and the pace."""
    network = StackedNetwork(schedule, dtype, strict)
    held, pace = find_pace(network, *mass_and_data(schedule.agents, dtype=dtype), target)
    return network, held, pace


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("target", [0.05, 0.02])
def test_the_pace_is_the_first_number_of_exchanges_that_is_enough(target, name):
    schedule = EVERY[name]
    network, held, pace = found(schedule, target)
    again = StackedNetwork(schedule, np.float64).crossing(0) if name in COMMON or name == "directed" else pace
    assert held.exchanges == network.exchanges == pace + again  # what travels second has crossed the network by then
    enough = [(own_fit(schedule, k)[1] <= target).all() and products(schedule, k)[-1].all() for k in (pace - 1, pace)]
    assert enough == [False, True]  # everyone is near the averages, and has heard from everyone


@pytest.mark.parametrize("graph", [nx.Graph([(0, 1), (2, 3), (3, 4)]), nx.DiGraph([(0, 1), (1, 2), (2, 1), (1, 3), (3, 2)])])
def test_a_network_that_is_not_connected_is_named(graph):
    weights = topologies.push if graph.is_directed() else topologies.metropolis
    with pytest.raises(ValueError, match=r"in \d+ exchanges .* the network must be connected"):
        found(topologies.Static(graph, weights=weights))


@pytest.mark.parametrize("name", ["periodic", "directed"])
def test_more_agents_than_probes_stop_at_a_last_number_that_all_know(name, monkeypatch):
    monkeypatch.setattr(first_exchanges, "PROBES", 5)
    monkeypatch.setattr(first_exchanges, "MOST", 2)
    network, held, pace = found(EVERY[name], 1e-9)
    assert held.exchanges == network.exchanges == pace == 2


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
    assert found(topologies.Static(graph))[2] >= nx.diameter(graph)


TORUS = topologies.Static(topologies.torus(4, 5))


@pytest.mark.parametrize(("schedule", "enough"), [(COMMON["ring"], True), (COMMON["path"], True), (TORUS, False), (PUSH, True)])
def test_in_an_introduction_agents_learn_whether_the_diameter_is_enough(schedule, enough):
    A = schedule.agents
    mass, data = mass_and_data(A)
    network = StackedNetwork(schedule, np.float64, strict=True)
    held, pace = introduce(network, mass, data, 0.01)
    D = nx.diameter(nx.Graph(schedule.graph(0))) if schedule is not PUSH else max(map(max, distances(schedule)))
    assert held.exchanges == network.exchanges == 2 * D
    assert bool((own_fit(schedule, D)[1] <= 0.01).all()) is enough
    assert pace == (D if enough else 0)
    edges = schedule.weights(0).nnz - A
    assert network.messages == 2 * D * edges
    # Four sets of at most 64 agents, a bit each; two times, a diagonal, flags, the centre and its eccentricity; once a weight.
    assert network.floats == edges * (2 * D * (1 + 7 + A + 4 + 6) + 1)
    np.testing.assert_allclose(held.last.data, products(schedule, 2 * D)[-1] @ data, rtol=0, atol=1e-14)


def distances(schedule):
    lengths = dict(nx.all_pairs_shortest_path_length(schedule.graph(0)))
    return [list(lengths[agent].values()) for agent in lengths]


@pytest.mark.parametrize("name", ["ring", "directed", "random"])
def test_everything_sent_is_counted(name):
    schedule = EVERY[name]
    A = schedule.agents
    network, held, _ = found(schedule, strict=True)
    assert network.messages == len(network.record)
    assert network.messages == sum(schedule.weights(schedule.key(k)).nnz - A for k in range(held.exchanges))
    beside = 2 + (name == "random")  # who is done, and since when; where graphs change, who has been heard from
    assert network.floats == (1 + 7 + A + beside) * network.messages
