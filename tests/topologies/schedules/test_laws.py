"""Laws of every schedule and of failures over it, for random graphs, seeds and rounds: sums, symmetry, support."""

import networkx as nx
import pytest
from every_schedule import DIRECTED, UNDIRECTED
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from consensus.testing import check_schedule

EXAMPLES = settings(max_examples=25, deadline=None, derandomize=True, database=None)
SEEDS, PROBABILITIES = st.integers(0, 2**70), st.floats(0, 0.99)
GRAPHS = st.builds(nx.gnp_random_graph, st.integers(2, 12), st.floats(0, 1), seed=st.integers(0, 1000))


@st.composite
def outages(draw, agents):
    firsts = draw(st.lists(st.tuples(st.integers(0, agents - 1), st.integers(0, 40)), max_size=5))
    return [(agent, first, draw(st.none() | st.integers(first + 1, first + 20))) for agent, first in firsts]


def check(networks, mixing, data):
    for network in networks:
        check_schedule(network, 6, mixing=mixing)
        assert network.weights(network.key(data.draw(st.integers(0, 2**40)))).min() >= 0


@pytest.mark.slow
@pytest.mark.parametrize("name", UNDIRECTED)
@EXAMPLES
@given(st.data(), GRAPHS, SEEDS, PROBABILITIES)
def test_undirected_schedules_are_symmetric_and_stay_so_under_failures(name, data, graph, seed, probability):
    inner = UNDIRECTED[name](graph, seed)
    absent = topologies.AgentFailure(inner, data.draw(outages(inner.agents)))
    failing = topologies.LinkFailure(inner, probability, seed)
    both = topologies.LinkFailure(absent, probability, seed), topologies.AgentFailure(failing, absent.outages)
    check((inner, absent, failing, *both), "symmetric", data)


@pytest.mark.slow
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("preserve", ["columns", "rows"])
@pytest.mark.parametrize("name", DIRECTED)
@EXAMPLES
@given(st.data(), GRAPHS, SEEDS, PROBABILITIES)
def test_directed_schedules_keep_the_sums_of_columns_or_rows(name, preserve, symmetric, data, graph, seed, probability):
    inner = DIRECTED[name](graph, seed, topologies.push if preserve == "columns" else topologies.pull)
    absent = topologies.AgentFailure(inner, data.draw(outages(inner.agents)), preserve)
    failing = [topologies.LinkFailure(one, probability, seed, symmetric, preserve) for one in (inner, absent)]
    check((inner, absent, *failing), f"{preserve.removesuffix('s')} stochastic", data)
