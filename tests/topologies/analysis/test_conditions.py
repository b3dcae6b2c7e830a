"""Conditions of schedules whose every property is known, one broken at a time."""

from functools import partial
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies

DIGRAPH = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])
PROPERTIES = (
    "row_stochastic",
    "column_stochastic",
    "doubly_stochastic",
    "symmetric",
    "nonnegative",
    "positive_diagonal",
    "jointly_connected",
    "static",
)


class Turns(NamedTuple):
    """A schedule of given matrices in turn, without a union of its own."""

    matrices: list

    @property
    def agents(self):
        return np.asarray(self.matrices[0]).shape[0]

    @property
    def static(self):
        return len(self.matrices) == 1

    def key(self, round):
        return round % len(self.matrices)

    def weights(self, key):
        return sparse.csr_array(self.matrices[key])


def broken(found):
    return {name for name in PROPERTIES if not getattr(found, name)}


THIRDS, HALVES = np.full((3, 3), 1 / 3), np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1.0]])
OTHER_HALVES = HALVES[::-1, ::-1]
ROTATE = np.array([[0, 0, 1.0], [1, 0, 0], [0, 1, 0]])
NEGATIVE = np.array([[0.5, 0.75, -0.25], [0.75, 0.25, 0.0], [-0.25, 0.0, 1.25]])
ONE_BROKEN = {
    "nothing": ([THIRDS], set()),
    "symmetric": ([(np.eye(3) + ROTATE) / 2], {"symmetric"}),
    "rows": ([topologies.push(DIGRAPH).toarray()], {"row_stochastic", "doubly_stochastic", "symmetric"}),
    "columns": ([topologies.pull(DIGRAPH).toarray()], {"column_stochastic", "doubly_stochastic", "symmetric"}),
    "nonnegative": ([NEGATIVE], {"nonnegative"}),
    "diagonal": ([(np.ones((3, 3)) - np.eye(3)) / 2], {"positive_diagonal"}),
    "connected": ([HALVES], {"jointly_connected"}),
    "static": ([HALVES, OTHER_HALVES], {"static"}),
}


@pytest.mark.parametrize("name", ONE_BROKEN)
def test_each_property_is_seen_to_break(name):
    matrices, expected = ONE_BROKEN[name]
    assert broken(topologies.conditions(Turns(matrices))) == expected


@pytest.mark.parametrize(
    ("weights", "missing"),
    [
        (topologies.metropolis, set()),
        (topologies.max_degree, set()),
        (topologies.laplacian, set()),
        (topologies.lazy(topologies.metropolis), set()),
        (topologies.sinkhorn, set()),
        (topologies.fastest, {"positive_diagonal"}),
        (partial(topologies.fastest, diagonal=0.05), set()),
        (partial(topologies.fastest, nonnegative=False), {"positive_diagonal", "nonnegative"}),
        (topologies.push, {"row_stochastic", "doubly_stochastic", "symmetric"}),
        (topologies.pull, {"column_stochastic", "doubly_stochastic", "symmetric"}),
    ],
)
def test_what_every_rule_guarantees(weights, missing):
    found = topologies.conditions(topologies.Static(topologies.star(6), weights=weights))
    assert broken(found) == missing
    assert (found.period, found.rounds, found.window, found.components, found.agents) == (1, 1, 1, 1, 6)


def test_the_worst_places_are_named_with_their_rounds():
    matrices = [np.eye(3), np.eye(3), np.eye(3)]
    matrices[1] = np.array([[0.5, 0.25, 0], [0.25, 0.75, 0], [0, 0.125, 1]])
    matrices[2] = np.array([[1, 0, 0], [0, 1, 0], [0, -0.5, 0.875]])
    found = topologies.conditions(Turns(matrices))
    assert found.row_sum == (0.375, 2, (2,))
    assert found.column_sum == (0.5, 2, (1,))
    assert found.asymmetry == (0.5, 2, (1, 2))
    assert found.smallest_entry == (-0.5, 2, (2, 1))
    assert found.smallest_diagonal == (0.5, 1, (0,))
    assert found.smallest_weight == (0.125, 1, (2, 1))
    assert (found.period, found.rounds, found.window, found.components) == (3, 3, None, 2)
    assert str(found).splitlines() == [
        "3 agents, rounds 0 to 2",
        "condition          holds  detail",
        "row stochastic     no     row 2 of round 2 sums to 0.375",
        "column stochastic  no     column 1 of round 2 sums to 0.5",
        "doubly stochastic  no",
        "symmetric          no     largest difference 0.5, (1, 2) of round 2",
        "nonnegative        no     least entry -0.5, (2, 1) of round 2",
        "positive diagonal  yes    least 0.5, agent 0 of round 1",
        "positive weights   yes    least 0.125, (2, 1) of round 1",
        "jointly connected  no     not in these rounds",
        "one component      no     2 over all rounds",
        "static             no     repeats after 3 rounds",
    ]


def test_the_first_of_equally_bad_rounds_is_named():
    found = topologies.conditions(Turns([THIRDS, HALVES, HALVES.copy()]))
    assert found.smallest_weight == (pytest.approx(1 / 3), 0, (0, 0))
    assert found.smallest_diagonal.round == 0


def test_an_entry_that_is_not_a_number_breaks_everything_it_touches():
    bad = THIRDS.copy()
    bad[1, 1] = np.nan
    found = topologies.conditions(Turns([THIRDS, bad, HALVES]))
    assert broken(found) >= {"row_stochastic", "column_stochastic", "symmetric", "nonnegative", "positive_diagonal"}
    assert found.row_sum[1:] == (1, (1,))
    assert "row 1 of round 1 sums to nan" in str(found)


def test_a_matrix_of_zeros():
    found = topologies.conditions(Turns([np.zeros((2, 2))]))
    assert found.smallest_weight is None
    assert broken(found) == {
        "row_stochastic",
        "column_stochastic",
        "doubly_stochastic",
        "positive_diagonal",
        "jointly_connected",
    }
    assert "positive weights   no     none" in str(found)


def test_a_periodic_schedule_is_looked_at_for_one_period():
    evens, odds = nx.Graph([(0, 1), (2, 3)]), nx.Graph([(1, 2), (0, 3)])
    found = topologies.conditions(topologies.Periodic([evens, odds, evens, nx.empty_graph(4), odds]))
    assert (found.period, found.rounds, found.window, found.components) == (5, 5, 3, 1)
    assert broken(found) == {"static"}
    # With fewer rounds than a period it looks at what it may.
    part = topologies.conditions(topologies.Periodic([evens, evens, evens, odds]), rounds=3)
    assert (part.period, part.rounds, part.window, part.components) == (None, 3, None, 1)


def test_windows_that_reach_into_the_next_period_count():
    empty = nx.empty_graph(4)
    found = topologies.conditions(topologies.Periodic([topologies.path(4), empty, empty]))
    assert found.window == 3


def test_a_schedule_that_never_repeats():
    schedule = topologies.RandomEdges(topologies.ring(6), 0.5, seed=0)
    found = topologies.conditions(schedule, rounds=40)
    assert (found.period, found.rounds, found.components) == (None, 40, 1)
    assert found.window == topologies.joint_connectivity(schedule, 40)
    assert broken(found) == {"static"}
    assert "static             no     no period seen" in str(found)


def test_components_are_those_of_the_union_though_the_rounds_do_not_join():
    schedule = topologies.RandomEdges(topologies.path(20), 0.01, seed=0)
    found = topologies.conditions(schedule, rounds=5)
    assert (found.window, found.components) == (None, 1)
    assert topologies.conditions(topologies.Static(nx.empty_graph(3))).components == 3


def test_rounding_errors_break_nothing():
    noise = 1e-12 * np.random.default_rng(0).standard_normal((3, 3))
    assert broken(topologies.conditions(Turns([THIRDS + noise]))) == set()


@pytest.mark.parametrize("rounds", [0, -3, 2.5])
def test_rounds_out_of_range_are_refused(rounds):
    with pytest.raises(ValueError, match="rounds must be"):
        topologies.conditions(topologies.Static(topologies.ring(4)), rounds)


def test_windows_reach_over_the_end_of_a_period():
    """Joined in round 1 of four alone: the longest wait is from round 2 of a period to round 1 of the next."""
    edge, both = nx.empty_graph(3), nx.path_graph(3)
    edge.add_edge(0, 1)
    found = topologies.conditions(topologies.Periodic([edge, both, edge, edge]))
    assert (found.period, found.window) == (4, 4)
