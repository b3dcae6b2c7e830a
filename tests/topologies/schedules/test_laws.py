"""Laws of every schedule, over graphs, seeds and rounds: sums of rows and columns, symmetry, support, averages."""

import networkx as nx
import numpy as np
import pytest
from every_schedule import DIRECTED, UNDIRECTED
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from consensus.testing import check_schedule

EXAMPLES = settings(max_examples=25, deadline=None, derandomize=True, database=None)
ROUNDS = st.integers(0, 2**40)
SEEDS = st.integers(0, 2**70)
PROBABILITIES = st.floats(0, 0.99)


@st.composite
def graphs(draw):
    """Of 2 to 12 agents, from empty to complete."""
    agents = draw(st.integers(2, 12))
    return nx.gnp_random_graph(agents, draw(st.floats(0, 1)), seed=draw(st.integers(0, 1000)))


@st.composite
def outages(draw, agents):
    firsts = draw(st.lists(st.tuples(st.integers(0, agents - 1), st.integers(0, 40)), max_size=5))
    lasts = st.integers(1, 20) | st.none()
    return [(agent, first, last and first + last) for agent, first in firsts for last in [draw(lasts)]]


@pytest.mark.slow
@pytest.mark.parametrize("name", UNDIRECTED)
@given(st.data())
@EXAMPLES
def test_undirected_schedules_are_symmetric_and_stay_so_under_failures(name, data):
    graph, seed, probability = data.draw(graphs()), data.draw(SEEDS), data.draw(PROBABILITIES)
    inner = UNDIRECTED[name](graph, seed)
    absent = topologies.AgentFailure(inner, data.draw(outages(inner.agents)))
    failing = topologies.LinkFailure(inner, probability, seed)
    both = topologies.LinkFailure(absent, probability, seed), topologies.AgentFailure(failing, absent.outages)
    for network in (inner, absent, failing, *both):
        check_schedule(network, 6, mixing="symmetric")
        assert network.weights(network.key(data.draw(ROUNDS))).min() >= 0


@pytest.mark.slow
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("preserve", ["columns", "rows"])
@pytest.mark.parametrize("name", DIRECTED)
@given(st.data())
@EXAMPLES
def test_directed_schedules_keep_the_sums_of_columns_or_rows(name, preserve, symmetric, data):
    graph, seed, probability = data.draw(graphs()), data.draw(SEEDS), data.draw(PROBABILITIES)
    inner = DIRECTED[name](graph, seed, topologies.push if preserve == "columns" else topologies.pull)
    absent = topologies.AgentFailure(inner, data.draw(outages(inner.agents)), preserve)
    failing = [topologies.LinkFailure(one, probability, seed, symmetric, preserve) for one in (inner, absent)]
    for network in (inner, absent, *failing):
        check_schedule(network, 6, mixing=f"{preserve.removesuffix('s')} stochastic")
        assert network.weights(network.key(data.draw(ROUNDS))).min() >= 0


@pytest.mark.parametrize("agents", [1, 2, 3, 7, 16, 40])
def test_one_peer_exponential_schedules_are_doubly_stochastic(agents):
    check_schedule(topologies.OnePeerExponential(agents), mixing="doubly stochastic")


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_one_peer_exponential_schedules_become_column_stochastic_when_messages_are_lost(symmetric, seed):
    network = topologies.LinkFailure(topologies.OnePeerExponential(16), 0.4, seed, symmetric)
    for n in range(8):
        matrix = network.weights(network.key(n)).toarray()
        assert np.array_equal(matrix.sum(axis=0), np.ones(16))
        # At half the way round two agents hear each other, and can lose both messages together.
        both_lost = symmetric and n % 4 == 3
        assert abs(matrix.sum(axis=1) - 1).max() == (0.0 if both_lost else 0.5)
