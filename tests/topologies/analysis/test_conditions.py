"""Conditions of schedules whose every property is known, one broken at a time; needs of solvers."""

import re
from functools import partial

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import topologies
from tests.helpers.matrices_in_turn import MatricesInTurn
from tests.helpers.networks import EVENS, ODDS

DIGRAPH = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])
PROPERTIES = {name for name, found in vars(topologies.Conditions).items() if isinstance(found, property)} | {"static"}
NO_ROWS, NO_COLUMNS = ({f"{one}_stochastic", "doubly_stochastic", "symmetric"} for one in ("row", "column"))
PUSHED, PULLED = (topologies.Static(DIGRAPH, weights=rule) for rule in (topologies.push, topologies.pull))
THIRDS, HALVES = np.full((3, 3), 1 / 3), np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1.0]])
NEGATIVE = np.array([[0.5, 0.75, -0.25], [0.75, 0.25, 0.0], [-0.25, 0.0, 1.25]])
ROUNDING = 1e-12 * np.random.default_rng(0).standard_normal((3, 3))


def broken(found):
    return {name for name in PROPERTIES if not getattr(found, name)}


def measured(*matrices, **options):
    return topologies.conditions(MatricesInTurn(matrices), **options)


@pytest.mark.parametrize(("matrices", "expected"), [
    ([THIRDS], set()),
    ([THIRDS + ROUNDING], set()),
    ([(np.eye(3) + np.roll(np.eye(3), 1, axis=0)) / 2], {"symmetric"}),
    ([PUSHED.weights(0).toarray()], NO_ROWS),
    ([PULLED.weights(0).toarray()], NO_COLUMNS),
    ([NEGATIVE], {"nonnegative"}),
    ([(np.ones((3, 3)) - np.eye(3)) / 2], {"positive_diagonal"}),
    ([HALVES], {"jointly_connected"}),
    ([HALVES, HALVES[::-1, ::-1]], {"static"}),
])  # fmt: skip
def test_each_broken_property_is_found(matrices, expected):
    assert broken(measured(*matrices)) == expected


@pytest.mark.parametrize(("weights", "missing"), [
    (topologies.metropolis, set()),
    (topologies.max_degree, set()),
    (topologies.laplacian, set()),
    (topologies.lazy(topologies.metropolis), set()),
    (topologies.sinkhorn, set()),
    (topologies.fastest, {"positive_diagonal"}),
    (partial(topologies.fastest, diagonal=0.05), set()),
    (partial(topologies.fastest, nonnegative=False), {"positive_diagonal", "nonnegative"}),
    (topologies.push, NO_ROWS),
    (topologies.pull, NO_COLUMNS),
])  # fmt: skip
def test_conditions_of_every_rule(weights, missing):
    found = topologies.conditions(topologies.Static(topologies.star(6), weights=weights))
    assert broken(found) == missing
    assert (found.period, found.rounds, found.window, found.components, found.agents) == (1, 1, 1, 1, 6)


def test_the_worst_places_are_named_with_their_rounds():
    first = np.array([[0.5, 0.25, 0], [0.25, 0.75, 0], [0, 0.125, 1]])
    second = np.array([[1, 0, 0], [0, 1, 0], [0, -0.5, 0.875]])
    found = measured(np.eye(3), first, second)
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
    equally_bad = measured(THIRDS, HALVES, HALVES.copy())
    assert equally_bad.smallest_weight == (pytest.approx(1 / 3), 0, (0, 0))
    assert equally_bad.smallest_diagonal.round == 0


def test_matrices_with_an_entry_that_is_not_a_number_and_matrices_of_zeros():
    bad = THIRDS.copy()
    bad[1, 1] = np.nan
    found = measured(THIRDS, bad, HALVES)
    assert broken(found) >= {"row_stochastic", "column_stochastic", "symmetric", "nonnegative", "positive_diagonal"}
    assert found.row_sum[1:] == (1, (1,))
    assert "row 1 of round 1 sums to nan" in str(found)
    zeros = measured(np.zeros((2, 2)))
    assert zeros.smallest_weight is None
    assert broken(zeros) == PROPERTIES - {"symmetric", "nonnegative", "static"}
    assert "positive weights   no     none" in str(zeros)


EMPTY, EDGE, PATH = nx.empty_graph(4), nx.compose(nx.empty_graph(4), nx.path_graph(2)), topologies.path(4)


@pytest.mark.parametrize(("schedule", "rounds", "expected"), [
    (topologies.Periodic([EVENS, ODDS, EVENS, EMPTY, ODDS]), 100, (5, 5, 3, 1)),
    (topologies.Periodic([EVENS, EVENS, EVENS, ODDS]), 3, (None, 3, None, 1)),  # fewer rounds than a period
    (topologies.Periodic([PATH, EMPTY, EMPTY]), 100, (3, 3, 3, 1)),
    # Connected in round 1 of four alone: the longest window begins in round 2 and ends in the next period.
    (topologies.Periodic([EDGE, PATH, EDGE, EDGE]), 100, (4, 4, 4, 1)),
    # Components are those of the union, although these rounds are not jointly connected.
    (topologies.RandomEdges(topologies.path(20), 0.01, seed=0), 5, (None, 5, None, 1)),
    (topologies.Static(nx.empty_graph(3)), 100, (1, 1, None, 3)),
])  # fmt: skip
def test_periods_windows_and_components(schedule, rounds, expected):
    found = topologies.conditions(schedule, rounds)
    assert (found.period, found.rounds, found.window, found.components) == expected


def test_a_schedule_without_a_period():
    schedule = topologies.RandomEdges(topologies.ring(6), 0.5, seed=0)
    found = topologies.conditions(schedule, rounds=40)
    assert (found.period, found.rounds, found.components) == (None, 40, 1)
    assert found.window == topologies.joint_connectivity(schedule, 40)
    assert broken(found) == {"static"}
    assert "static             no     no period seen" in str(found)


class Solver:
    def __init__(self, mixing):
        self.mixing = mixing


AVERAGED, TURNING = topologies.Static(topologies.ring(5)), topologies.OnePeerExponential(4)


@pytest.mark.parametrize(("mixing", "accepted", "refused"), [
    ("doubly stochastic", [AVERAGED, TURNING], [(PUSHED, "row 2"), (PULLED, "column 0")]),
    ("column stochastic", [AVERAGED, PUSHED, TURNING], [(PULLED, "column 0")]),
    ("row stochastic", [AVERAGED, PULLED, TURNING], [(PUSHED, "row 2")]),
    ("symmetric", [AVERAGED], [(PUSHED, "row 2"), (PULLED, "column 0"), (TURNING, r"entries \(0, 1\).* differ by 0.5")]),
])  # fmt: skip
def test_the_sums_that_a_solver_needs_are_compared_with_those_of_a_schedule(mixing, accepted, refused):
    for network in accepted:
        found = topologies.check(network, Solver(mixing))
        assert found.refusal is None
        assert all(holds for _, holds, _ in found.needs)
    for network, why in refused:
        found = topologies.check(network, Solver(mixing))
        needed = "symmetric doubly stochastic" if mixing == "symmetric" else mixing
        assert re.match(f"Solver needs {needed} mixing matrices, but {why}", found.refusal)
        assert [name for name, holds, _ in found.needs if not holds] == [mixing]


def test_a_zero_diagonal_is_reported_only_if_the_agents_merely_swap_values():
    swap = topologies.Static(topologies.path(2), weights=topologies.adjacency)
    assert [name for name, holds, _ in topologies.check(swap, object()).needs if not holds] == ["positive diagonal"]
    # The fastest matrix of a star has no weight at its centre, and contracts the disagreement all the same.
    star = topologies.Static(topologies.star(5), weights=topologies.fastest)
    assert not topologies.conditions(star).positive_diagonal
    assert all(holds for _, holds, _ in topologies.check(star, object()).needs)


def test_an_unknown_need_is_rejected_by_name():
    with pytest.raises(ValueError, match=r"mixing of Solver must be one of .*'doubly stochastic', .*; got 'doubly'"):
        topologies.check(AVERAGED, Solver("doubly"))
    with pytest.raises(TypeError, match=r"^solver must be a solver, .* got the class Solver itself: call it$"):
        topologies.check(AVERAGED, Solver)
    with pytest.raises(TypeError, match=r"^solver must be a solver, .* got 'NEXT'$"):
        topologies.check(AVERAGED, "NEXT")


# Components against networkx; windows of joint connectivity by hand, and against unions taken one by one.

LEFT, MIDDLE, RIGHT = (nx.compose(EMPTY, nx.Graph([edge])) for edge in PATH.edges)
THERE, BACK = nx.DiGraph([(0, 1), (1, 2)]), nx.compose(nx.empty_graph(3, create_using=nx.DiGraph), nx.DiGraph([(2, 0)]))


@pytest.mark.parametrize(("graphs", "window"), [
    ([topologies.ring(4)], 1),
    ([LEFT, MIDDLE, RIGHT], 3),
    ([LEFT, MIDDLE, RIGHT, EMPTY], 4),
    ([LEFT, MIDDLE, RIGHT, MIDDLE], 4),  # RIGHT is in one of four rounds
    ([LEFT, LEFT, MIDDLE, RIGHT], 4),
    ([PATH, EMPTY], 2),
    ([PATH, EMPTY, EMPTY, topologies.star(4), EMPTY], 3),
    ([EVENS, ODDS], 2),
    ([LEFT, RIGHT], None),
    ([EMPTY], None),
    ([PATH, LEFT, RIGHT], 3),
    ([topologies.path(1)], 1),
    ([THERE], None),  # a directed union must be strongly connected
    ([THERE, BACK], 2),
    ([THERE, THERE, THERE, BACK], 4),
    ([nx.cycle_graph(3, create_using=nx.DiGraph)], 1),
])  # fmt: skip
def test_windows_of_periodic_schedules_by_hand(graphs, window):
    schedule = topologies.Periodic(graphs, weights=topologies.push)
    assert topologies.joint_connectivity(schedule, 5 * len(graphs)) == window


@pytest.mark.parametrize(("graphs", "windows"), [
    ([LEFT, MIDDLE, RIGHT], [None, None, 3, 3, 3, 3]),
    ([EMPTY, EMPTY, PATH], [None, None, 3, 3, 3, 3]),
    ([PATH, EMPTY, EMPTY], [1, 2, 3, 3, 3, 3]),
])  # fmt: skip
def test_only_the_first_rounds_count(graphs, windows):
    schedule = topologies.Periodic(graphs)
    assert [topologies.joint_connectivity(schedule, rounds) for rounds in range(1, 7)] == windows


def test_an_edge_without_weight_does_not_connect():
    def identity(graph):
        return sparse.eye_array(len(graph))

    assert topologies.joint_connectivity(topologies.Static(topologies.ring(4), weights=identity), 5) is None


def one_by_one(graphs, rounds, connected):
    """The definition: try every window, and every place of it."""
    for window in range(1, rounds + 1):
        unions = (nx.compose_all(graphs[first : first + window]) for first in range(rounds - window + 1))
        if all(map(connected, unions)):
            return window
    return None


@pytest.mark.slow
@settings(derandomize=True, deadline=None, database=None, max_examples=150)
@given(
    agents=st.integers(1, 5),
    rounds=st.integers(1, 14),
    density=st.floats(0.05, 0.5),
    seed=st.integers(0, 10**6),
    directed=st.booleans(),
)
def test_random_sequences_agree_with_the_definition(agents, rounds, density, seed, directed):
    edges = np.random.default_rng(seed).random((rounds, agents, agents)) < density
    edges &= ~np.eye(agents, dtype=bool)
    kind, connected = (nx.DiGraph, nx.is_strongly_connected) if directed else (nx.Graph, nx.is_connected)
    if not directed:
        edges |= edges.transpose(0, 2, 1)
    graphs = [nx.from_numpy_array(round_, create_using=kind) for round_ in edges]
    found = topologies.joint_connectivity(topologies.Periodic(graphs, weights=topologies.push), rounds)
    assert found == one_by_one(graphs, rounds, connected)


def test_random_edges_agree_with_the_definition():
    schedule = topologies.RandomEdges(topologies.ring(8), 0.3, seed=2)
    graphs = [schedule.graph(n) for n in range(60)]
    assert topologies.joint_connectivity(schedule, 60) == one_by_one(graphs, 60, nx.is_connected) > 3


APART = nx.compose(nx.empty_graph(7), nx.Graph([(6, 0), (1, 5), (5, 3)]))
SPARSE = topologies.erdos_renyi(500, 0.002, seed=3, connected=False)


@pytest.mark.parametrize(("schedule", "groups"), [
    (topologies.Static(topologies.ring(6)), [[0, 1, 2, 3, 4, 5]]),
    (topologies.Static(APART), [[0, 6], [1, 3, 5], [2], [4]]),  # in the order of their first agents
    (topologies.RandomEdges(APART, 0.01, seed=0), [[0, 6], [1, 3, 5], [2], [4]]),
    (topologies.RandomEdges(topologies.path(20), 0.1, seed=1), [list(range(20))]),
    (topologies.Periodic([EVENS, EVENS]), [[0, 1], [2, 3]]),
    (topologies.Periodic([EVENS, ODDS]), [[0, 1, 2, 3]]),
    (
        topologies.Static(nx.DiGraph([(0, 1), (1, 0), (1, 2), (2, 3), (3, 2)]), weights=topologies.push),
        [[0, 1], [2, 3]],  # strongly connected
    ),
    (topologies.Static(SPARSE), sorted(map(sorted, nx.connected_components(SPARSE)))),
])  # fmt: skip
def test_components(schedule, groups):
    assert [group.tolist() for group in topologies.components(schedule)] == groups


@pytest.mark.parametrize(("round", "exchanges"), [(0, 4), (1, 6), (2, 5), (3, 4), (5, 5)])
def test_a_crossing_begins_in_the_given_round(round, exchanges):
    """The ends of a path of four have information from each other when its edges were used in order, in both directions."""
    schedule = topologies.Periodic([nx.compose(LEFT, RIGHT), MIDDLE, EMPTY])
    assert topologies.analysis.crossing(schedule, round) == exchanges
