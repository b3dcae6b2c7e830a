"""What a solver needs against what a schedule offers: what is refused, what is missed, what may be missing."""

import networkx as nx
import pytest

import topologies

ARCS = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])
PUSHED = topologies.Static(ARCS, weights=topologies.push)
PULLED = topologies.Static(ARCS, weights=topologies.pull)
AVERAGED = topologies.Static(topologies.ring(5))


class Solver:
    def __init__(self, mixing):
        self.mixing = mixing


@pytest.mark.parametrize(
    ("mixing", "served", "refused"),
    [
        ("doubly stochastic", [AVERAGED], [PUSHED, PULLED]),
        ("column stochastic", [AVERAGED, PUSHED], [PULLED]),
        ("row stochastic", [AVERAGED, PULLED], [PUSHED]),
    ],
)
def test_sums_that_a_solver_needs_are_told(mixing, served, refused):
    for network in served:
        found = topologies.check(network, Solver(mixing))
        assert found.refusal is None
        assert all(holds for _, holds, _ in found.needs)
    for network in refused:
        found = topologies.check(network, Solver(mixing))
        assert f"Solver needs {mixing} mixing matrices, but" in found.refusal
        assert [name for name, holds, _ in found.needs if not holds] == [mixing]


def test_doubly_stochastic_is_not_yet_symmetric():
    turning = topologies.OnePeerExponential(4)
    assert topologies.check(turning, Solver("doubly stochastic")).refusal is None
    refusal = topologies.check(turning, Solver("symmetric")).refusal
    assert "needs symmetric doubly stochastic mixing matrices, but entries" in refusal
    assert "differ by 0.5" in refusal
    assert topologies.check(AVERAGED, Solver("symmetric")).refusal is None


def test_a_zero_diagonal_is_missed_only_where_agents_merely_swap():
    swap = topologies.Static(topologies.path(2), weights=topologies.adjacency)
    assert [name for name, holds, _ in topologies.check(swap, object()).needs if not holds] == ["positive diagonal"]
    # The fastest matrix of a star has no weight at its centre, and mixes all the same.
    star = topologies.Static(topologies.star(5), weights=topologies.fastest)
    assert not topologies.conditions(star).positive_diagonal
    assert all(holds for _, holds, _ in topologies.check(star, object()).needs)


def test_a_need_that_is_none_is_refused_by_name():
    with pytest.raises(ValueError, match=r"mixing of Solver must be one of .*'doubly stochastic', .*; got 'doubly'"):
        topologies.check(AVERAGED, Solver("doubly"))
