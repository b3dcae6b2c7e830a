"""Whether a schedule is static: one property, the same for solvers, conditions and checks."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies
from consensus.engines.stacked import StackedNetwork
from tests.helpers.every_schedule import ARCS

GRAPH, STAR = topologies.ring(6), topologies.star(6)
RING = topologies.Static(GRAPH)
MEETINGS = [(0, 1), (1, 2)]
ONE_EDGE = nx.compose(nx.empty_graph(3), nx.Graph([(0, 2)]))


class Turning(topologies.Static):
    """A user's subclass of a static schedule that is not static."""

    def key(self, round):
        return round % 2

    def weights(self, key):
        return topologies.metropolis(GRAPH) if key == 0 else sparse.eye_array(self.agents, format="csr")


class TurningPeriodic(topologies.Periodic):
    """A user's subclass with equal graphs and changing matrices."""

    key, weights = Turning.key, Turning.weights


class Named(topologies.Static):
    """A user's subclass that only has a name of its own."""


class Own:
    """A schedule without the attribute ``static``."""

    agents = 6

    def key(self, round):
        return 0

    def weights(self, key):
        return RING.weights(0)


class OwnStatic(Own):
    static = True


STATIC = {
    "static": RING,
    "derived": Named(GRAPH),
    "matrix": topologies.schedule_from_matrix(RING.weights(0)),
    "one turn": topologies.Periodic([GRAPH]),
    "equal turns": topologies.Periodic([GRAPH, GRAPH]),
    "no failures": topologies.LinkFailure(RING, 0),
    "no failures, one way": topologies.LinkFailure(topologies.Static(ARCS, weights=topologies.push), 0.0, symmetric=False),
    "no outages": topologies.AgentFailure(RING, []),
    "away in turns": topologies.AgentFailure(RING, [(2, 0, 5), (2, 5, None)]),
    "away for good": topologies.AgentFailure(RING, [(2, 0, None)]),
    "nested": topologies.AgentFailure(topologies.LinkFailure(topologies.Periodic([GRAPH] * 3), 0.0), []),
    "sure edges": topologies.RandomEdges(GRAPH, 1),
    "one pair": topologies.Matchings(2),
    "one edge": topologies.Matchings(3, graph=ONE_EDGE),
    "exponential, two": topologies.OnePeerExponential(2),
    "base graph, two": topologies.BaseGraph(2),
    "base graph, one": topologies.BaseGraph(1),
    "shifted pairs, two": topologies.EquiDyn(2),
    "shifts, two": topologies.EquiDyn(2, symmetric=False),
    "wide radius": topologies.Mobile(5, radius=1.5, speed=0.1),
    "one window": topologies.Temporal([0, 1], MEETINGS, window=10),
    "equal windows": topologies.Temporal([0, 1, 10, 11], MEETINGS * 2, window=10),
    "own": OwnStatic(),
}
CHANGING = {
    "turning turns": TurningPeriodic([GRAPH]),
    "turning": Turning(GRAPH),
    "periodic": topologies.Periodic([GRAPH, STAR]),
    "failures": topologies.LinkFailure(RING, 0.01),
    "no failures of a changing one": topologies.LinkFailure(topologies.Periodic([GRAPH, STAR]), 0),
    "late outage": topologies.AgentFailure(RING, [(0, 1000, 1001)]),
    "early outage": topologies.AgentFailure(RING, [(0, 0, 1)]),
    "random": topologies.RandomEdges(GRAPH, 0.999),
    "matchings": topologies.Matchings(3),
    "two edges": topologies.Matchings(3, graph=topologies.path(3)),
    "base graph": topologies.BaseGraph(3),
    "shifted pairs": topologies.EquiDyn(3),
    "exponential": topologies.OnePeerExponential(3),
    "mobile": topologies.Mobile(5, radius=0.5, speed=0.1),
    "nearly the diagonal": topologies.Mobile(2, radius=1.41, speed=0.3),
    "windows": topologies.Temporal([0, 11], MEETINGS, window=10),
    "an empty window": topologies.Temporal([0, 1, 20, 21], MEETINGS * 2, window=10),
    "windows that end": topologies.Temporal([0, 1], MEETINGS, window=10, cyclic=False),
    "sequence": topologies.Sequence(lambda round: GRAPH, agents=6),
    "own": Own(),
}


@pytest.mark.parametrize(
    ("schedule", "static"), [(found, True) for found in STATIC.values()] + [(found, False) for found in CHANGING.values()]
)
def test_solvers_conditions_and_checks_read_the_same_property(schedule, static):
    assert topologies.conditions(schedule, rounds=5).static is static
    assert StackedNetwork(schedule, np.float64).static is static
    assert topologies.check(schedule, object()).conditions.static is static
    assert getattr(schedule, "static", False) is static


@pytest.mark.parametrize("name", STATIC)
def test_a_static_schedule_has_one_key_one_matrix_and_one_graph(name):
    schedule = STATIC[name]
    keys = {schedule.key(n) for n in (0, 1, 2, 7, 1000)}
    assert len(keys) == 1
    assert topologies.conditions(schedule).period == 1
    if hasattr(schedule, "graph"):
        assert all(set(a.edges) == set(b.edges) for a, b in pairwise(schedule.graph(n) for n in (0, 1, 7)))
        assert len({schedule.weights(schedule.key(n)).toarray().tobytes() for n in (0, 1, 7)}) == 1


def test_rounds_that_look_alike_do_not_make_a_schedule_static():
    shown = str(topologies.conditions(CHANGING["late outage"]))
    assert "static             no     the same in these rounds, but not marked as static" in shown
