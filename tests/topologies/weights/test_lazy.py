"""Lazy weights: the average with the identity, as a function that travels."""

import pickle
from functools import partial

import networkx as nx
import numpy as np
import pytest

import topologies

DIGRAPH = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (3, 0)])


def test_lazy_is_the_average_with_the_identity():
    graph = topologies.path(3)
    expected = (np.eye(3) + topologies.metropolis(graph).toarray()) / 2
    assert np.array_equal(topologies.lazy(topologies.metropolis)(graph).toarray(), expected)
    quarter = topologies.lazy(topologies.lazy(topologies.metropolis))(graph).toarray()
    np.testing.assert_allclose(quarter, (np.eye(3) + expected) / 2, rtol=0, atol=1e-16)


def test_lazy_weights_can_be_pickled_compared_and_named():
    rule = topologies.lazy(topologies.metropolis)
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert rule != topologies.lazy(topologies.max_degree)
    assert repr(topologies.Static(topologies.path(2), weights=rule)) == "Static(agents=2, edges=1, weights=lazy(metropolis))"
    deep = topologies.lazy(partial(topologies.laplacian, epsilon=0.25))
    assert np.array_equal(pickle.loads(pickle.dumps(deep))(topologies.path(2)).toarray(), [[0.875, 0.125], [0.125, 0.875]])


def test_lazy_needs_a_function():
    with pytest.raises(TypeError, match=r"weights must be a function .* got a csr_array; topologies\.from_matrix"):
        topologies.lazy(topologies.metropolis(topologies.path(3)))


def test_lazy_refuses_weights_off_the_edges():
    def backwards(graph):
        return topologies.push(graph).T

    with pytest.raises(ValueError, match="weights function backwards returned nonzeros off the edges"):
        topologies.lazy(backwards)(DIGRAPH)
