"""Schedules, weights and patterns have the shapes that the annotations of their protocols state."""

import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from jaxtyping import TypeCheckError
from scipy import sparse

import topologies
from tests.helpers.every_schedule import GRAPH, column_stochastic, symmetric
from tests.helpers.shapes import checked
from topologies.schedules.protocols import ScheduleLike, UnionSchedule
from topologies.weights.base import Weights

RULES = {name: getattr(topologies, name) for name in topologies.weights.__all__ if name not in ("from_matrix", "lazy")}
RULES |= {"from_matrix": topologies.from_matrix(topologies.metropolis(GRAPH)), "lazy": topologies.lazy(topologies.metropolis)}
SCHEDULES = symmetric() | column_stochastic()


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    schedule = SCHEDULES[name]
    weights = checked(ScheduleLike.weights, schedule.weights)
    assert all(weights(schedule.key(round)).shape == (schedule.agents,) * 2 for round in range(3))
    assert checked(UnionSchedule.union, schedule.union)().nnz >= 0


@pytest.mark.parametrize("name", RULES)
def test_weights(name):
    assert checked(Weights.__call__, RULES[name])(GRAPH).shape == (12, 12)


@pytest.mark.parametrize("convert", [nx.Graph, nx.to_numpy_array, nx.to_scipy_sparse_array])
def test_adjacency(convert):
    assert checked(topologies.adjacency, topologies.adjacency)(convert(GRAPH)).shape == (12, 12)


@pytest.mark.parametrize("wrong", [np.eye(3), sparse.csr_array((2, 3)), sparse.csr_array(np.eye(2, dtype=complex))])
def test_other_shapes_and_types_are_found(wrong):
    with pytest.raises(TypeCheckError):
        checked(ScheduleLike.weights, lambda key: wrong)(0)


@pytest.mark.slow
def test_the_packages_need_neither_jaxtyping_nor_beartype():
    block = "import sys; sys.modules.update(jaxtyping=None, beartype=None); "
    use = "import topologies; topologies.conditions(topologies.LinkFailure(topologies.Static(topologies.ring(4)), 0.1))"
    subprocess.run([sys.executable, "-c", block + use], check=True)
