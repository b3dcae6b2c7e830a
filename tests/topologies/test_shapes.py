"""Schedules, weights and patterns have the shapes that the annotations of their protocols state."""

import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from jaxtyping import TypeCheckError
from scipy import sparse
from shapes import checked

import topologies
from topologies.schedules.protocols import ScheduleLike, UnionSchedule
from topologies.weights.base import Weights

GRAPH = topologies.erdos_renyi(6, 0.6, seed=0)
RULES = {name: getattr(topologies, name) for name in topologies.weights.__all__ if name not in ("from_matrix", "lazy")}
RULES |= {"from_matrix": topologies.from_matrix(topologies.metropolis(GRAPH)), "lazy": topologies.lazy(topologies.metropolis)}
STATIC = topologies.Static(GRAPH)
SCHEDULES = [
    STATIC,
    topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 0)]), weights=topologies.push),
    topologies.Periodic([topologies.ring(5), topologies.path(5)]),
    topologies.Sequence(lambda round: topologies.path(2 + round % 1), agents=2),
    topologies.RandomEdges(GRAPH, 0.5),
    topologies.LinkFailure(STATIC, 0.5),
    topologies.AgentFailure(STATIC, [(0, 0, None)]),
    topologies.Matchings(7),
    topologies.OnePeerExponential(6),
    topologies.Mobile(6, 0.5, 0.1),
    topologies.Temporal([0, 1], [("a", "b"), ("b", "c")], window=1),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
def test_schedules(schedule):
    weights = checked(ScheduleLike.weights, schedule.weights)
    assert all(weights(schedule.key(round)).shape == (schedule.agents,) * 2 for round in range(3))
    assert checked(UnionSchedule.union, schedule.union)().nnz >= 0


@pytest.mark.parametrize("name", RULES)
def test_weights(name):
    assert checked(Weights.__call__, RULES[name])(GRAPH).shape == (6, 6)


@pytest.mark.parametrize(
    "graph", [GRAPH, nx.to_numpy_array(GRAPH), nx.to_scipy_sparse_array(GRAPH)], ids=lambda x: type(x).__name__
)
def test_adjacency(graph):
    assert checked(topologies.adjacency, topologies.adjacency)(graph).shape == (6, 6)


@pytest.mark.parametrize(
    "wrong", [np.eye(3), sparse.csr_array((2, 3)), sparse.csr_array(np.eye(2, dtype=complex))], ids=["dense", "rows", "complex"]
)
def test_other_shapes_and_types_are_found(wrong):
    with pytest.raises(TypeCheckError):
        checked(ScheduleLike.weights, lambda key: wrong)(0)


def test_the_packages_need_neither_jaxtyping_nor_beartype():
    block = "import sys; sys.modules.update(jaxtyping=None, beartype=None); "
    use = "import topologies; topologies.conditions(topologies.LinkFailure(topologies.Static(topologies.ring(4)), 0.1))"
    subprocess.run([sys.executable, "-c", block + use], check=True)
