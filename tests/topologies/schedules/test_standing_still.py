"""Whether a schedule stands still: one property, the same for solvers, conditions and checks."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies
from consensus.engines.stacked import StackedNetwork

RING = topologies.Static(topologies.ring(6))
ARCS = topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]), weights=topologies.push)
MEETINGS = [(0, 1), (1, 2)]
ONE_EDGE = nx.empty_graph(3)
ONE_EDGE.add_edge(0, 2)


class Turning(topologies.Static):
    """A class of a user's own, derived from one that stands still."""

    def key(self, round):
        return round % 2

    def weights(self, key):
        return topologies.metropolis(topologies.ring(6)) if key == 0 else sparse.eye_array(self.agents, format="csr")


class TurningPeriodic(topologies.Periodic):
    """One whose turns are equal, but not what it makes of them."""

    key, weights = Turning.key, Turning.weights


class Named(topologies.Static):
    """Another with nothing but a name."""


class Own:
    """A schedule that says nothing about itself."""

    agents = 6

    def key(self, round):
        return 0

    def weights(self, key):
        return RING.weights(0)


class OwnStatic(Own):
    static = True


STILL = {
    "static": RING,
    "derived": Named(topologies.ring(6)),
    "matrix": topologies.schedule_from_matrix(RING.weights(0)),
    "one turn": topologies.Periodic([topologies.ring(6)]),
    "equal turns": topologies.Periodic([topologies.ring(6), topologies.ring(6)]),
    "no failures": topologies.LinkFailure(RING, 0),
    "no failures, one way": topologies.LinkFailure(ARCS, 0.0, symmetric=False),
    "no outages": topologies.AgentFailure(RING, []),
    "away in turns": topologies.AgentFailure(RING, [(2, 0, 5), (2, 5, None)]),
    "away for good": topologies.AgentFailure(RING, [(2, 0, None)]),
    "nested": topologies.AgentFailure(topologies.LinkFailure(topologies.Periodic([topologies.ring(6)] * 3), 0.0), []),
    "sure edges": topologies.RandomEdges(topologies.ring(6), 1),
    "one pair": topologies.Matchings(2),
    "one edge": topologies.Matchings(3, graph=ONE_EDGE),
    "exponential, two": topologies.OnePeerExponential(2),
    "wide radius": topologies.Mobile(5, radius=1.5, speed=0.1),
    "one window": topologies.Temporal([0, 1], MEETINGS, window=10),
    "equal windows": topologies.Temporal([0, 1, 10, 11], MEETINGS * 2, window=10),
    "own, said": OwnStatic(),
}
CHANGING = {
    "turning turns": TurningPeriodic([topologies.ring(6)]),
    "turning": Turning(topologies.ring(6)),
    "periodic": topologies.Periodic([topologies.ring(6), topologies.star(6)]),
    "failures": topologies.LinkFailure(RING, 0.01),
    "failures of none, over turns": topologies.LinkFailure(topologies.Periodic([topologies.ring(6), topologies.star(6)]), 0),
    "late outage": topologies.AgentFailure(RING, [(0, 1000, 1001)]),
    "outage over": topologies.AgentFailure(RING, [(0, 0, 1)]),
    "random": topologies.RandomEdges(topologies.ring(6), 0.999),
    "matchings": topologies.Matchings(3),
    "exponential": topologies.OnePeerExponential(3),
    "mobile": topologies.Mobile(5, radius=0.5, speed=0.1),
    "windows": topologies.Temporal([0, 11], MEETINGS, window=10),
    "an empty window": topologies.Temporal([0, 1, 20, 21], MEETINGS * 2, window=10),
    "windows that end": topologies.Temporal([0, 1], MEETINGS, window=10, cyclic=False),
    "sequence": topologies.Sequence(lambda round: topologies.ring(6), agents=6),
    "own": Own(),
}


@pytest.mark.parametrize("name", [*STILL, *CHANGING])
def test_everyone_reads_the_same_property(name):
    schedule, still = (STILL | CHANGING)[name], name in STILL
    assert topologies.conditions(schedule, rounds=5).static is still
    assert StackedNetwork(schedule, np.float64).static is still
    assert topologies.check(schedule, object()).conditions.static is still
    assert getattr(schedule, "static", False) is still


@pytest.mark.parametrize("name", STILL)
def test_a_static_schedule_has_one_key_and_one_matrix(name):
    schedule = STILL[name]
    keys = [schedule.key(n) for n in (0, 1, 2, 7, 1000)]
    assert len(set(keys)) == 1
    assert topologies.conditions(schedule).period == 1
    if hasattr(schedule, "graph"):
        assert all(set(a.edges) == set(b.edges) for a, b in pairwise(schedule.graph(n) for n in (0, 1, 7)))
        assert len({schedule.weights(schedule.key(n)).toarray().tobytes() for n in (0, 1, 7)}) == 1


def test_rounds_that_look_alike_are_told_from_a_schedule_that_stands_still():
    assert "static             no     the same in these rounds, but not marked as static" in str(
        topologies.conditions(CHANGING["late outage"])
    )
