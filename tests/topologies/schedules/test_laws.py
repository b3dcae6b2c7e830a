"""Laws of every schedule, over graphs, seeds and rounds: sums of rows and columns, symmetry, support, averages."""

import networkx as nx
import numpy as np
import pytest
from every_schedule import DIRECTED, UNDIRECTED
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import topologies

EXAMPLES = settings(max_examples=25, deadline=None, derandomize=True, database=None)
ROUNDS = st.lists(st.integers(0, 40) | st.integers(0, 2**40), min_size=1, max_size=6)
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


def check_support(network, n):
    matrix, graph = network.weights(network.key(n)), network.graph(n)
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.has_canonical_format
    assert list(graph) == list(range(network.agents))
    allowed = nx.to_numpy_array(graph).T + np.eye(network.agents) > 0
    assert np.array_equal(matrix.toarray() != 0, allowed)


@pytest.mark.slow
@pytest.mark.parametrize("name", UNDIRECTED)
@given(st.data())
@EXAMPLES
def test_undirected_schedules_are_symmetric_and_doubly_stochastic_and_stay_so_under_failures(name, data):
    graph, seed, probability = data.draw(graphs()), data.draw(SEEDS), data.draw(PROBABILITIES)
    inner = UNDIRECTED[name](graph, seed)
    absent = topologies.AgentFailure(inner, data.draw(outages(inner.agents)))
    values = np.random.default_rng(seed).standard_normal(inner.agents)
    mean = values.mean()
    for network in (
        inner,
        absent,
        topologies.LinkFailure(inner, probability, seed),
        topologies.LinkFailure(absent, probability, seed),
        topologies.AgentFailure(topologies.LinkFailure(inner, probability, seed), absent.outages),
    ):
        for n in data.draw(ROUNDS):
            check_support(network, n)
            matrix = network.weights(network.key(n)).toarray()
            assert np.array_equal(matrix, matrix.T)
            assert abs(matrix.sum(axis=0) - 1).max() <= 5e-16
            assert matrix.min() >= 0
            values = matrix @ values
    assert abs(values.mean() - mean) <= 1e-14


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
    for network in (
        inner,
        absent,
        topologies.LinkFailure(inner, probability, seed, symmetric, preserve),
        topologies.LinkFailure(absent, probability, seed, symmetric, preserve),
    ):
        for n in data.draw(ROUNDS):
            check_support(network, n)
            matrix = network.weights(network.key(n)).toarray()
            assert abs(matrix.sum(axis=0 if preserve == "columns" else 1) - 1).max() <= 5e-16
            assert matrix.min() >= 0


@given(st.integers(1, 40), ROUNDS)
@EXAMPLES
def test_one_peer_exponential_schedules_are_doubly_stochastic(agents, rounds):
    network = topologies.OnePeerExponential(agents)
    for n in rounds:
        check_support(network, n)
        matrix = network.weights(network.key(n)).toarray()
        assert np.array_equal(matrix.sum(axis=0), np.ones(agents))
        assert np.array_equal(matrix.sum(axis=1), np.ones(agents))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_one_peer_exponential_schedules_become_column_stochastic_when_messages_are_lost(symmetric, seed):
    network = topologies.LinkFailure(topologies.OnePeerExponential(16), 0.4, seed, symmetric)
    for n in range(8):
        check_support(network, n)
        matrix = network.weights(network.key(n)).toarray()
        assert np.array_equal(matrix.sum(axis=0), np.ones(16))
        # At half the way round two agents hear each other, and can lose both messages together.
        both_lost = symmetric and n % 4 == 3
        assert abs(matrix.sum(axis=1) - 1).max() == (0.0 if both_lost else 0.5)
