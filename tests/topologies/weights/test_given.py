"""Matrices of one's own: used as they are, or refused by name."""

import math
import pickle

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies

DIGRAPH = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (3, 0)])
MINE = [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]]


@pytest.mark.parametrize("convert", [list, np.array, sparse.csr_array, sparse.coo_array, sparse.csc_matrix])
def test_a_given_matrix_is_used_as_it_is(convert):
    rule = topologies.from_matrix(convert(MINE))
    schedule = topologies.Static(topologies.path(3), weights=rule)
    assert schedule.weights(0).toarray().tolist() == MINE
    assert topologies.schedule_from_matrix(convert(MINE)).weights(0).toarray().tolist() == MINE
    assert pickle.loads(pickle.dumps(rule))(None).toarray().tolist() == MINE


def test_changing_a_given_matrix_changes_nothing():
    matrix = sparse.csr_array(MINE)
    rule = topologies.from_matrix(matrix)
    matrix.data[:] = 0
    rule(None).data[:] = 0
    assert rule(None).toarray().tolist() == MINE


def test_a_given_matrix_may_be_stochastic_in_rows_or_columns_or_both():
    for matrix in (topologies.push(DIGRAPH), topologies.pull(DIGRAPH), topologies.metropolis(topologies.ring(5))):
        schedule = topologies.schedule_from_matrix(matrix)
        assert np.array_equal(schedule.weights(0).toarray(), matrix.toarray())


def test_the_graph_of_a_matrix_runs_against_its_entries():
    graph = topologies.schedule_from_matrix(topologies.push(DIGRAPH)).graph(0)
    assert graph.is_directed()
    assert set(graph.edges) == set(DIGRAPH.edges)
    ring = topologies.schedule_from_matrix(topologies.metropolis(topologies.ring(5))).graph(0)
    assert not ring.is_directed()
    assert set(ring.edges) == set(topologies.ring(5).edges)


def test_a_given_matrix_must_fit_its_graph():
    with pytest.raises(ValueError, match=r"weights function from_matrix returned nonzeros off the edges.*\(0, 1\)"):
        topologies.Static(nx.Graph([(0, 2), (1, 2)]), weights=topologies.from_matrix(MINE))
    with pytest.raises(ValueError, match=r"from_matrix must return a scipy sparse matrix of shape \(4, 4\).* \(3, 3\)"):
        topologies.Static(topologies.path(4), weights=topologies.from_matrix(MINE))


@pytest.mark.parametrize("function", [topologies.from_matrix, topologies.schedule_from_matrix])
@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.5]], r"must be square with at least one row, got shape \(1, 2\)"),
        (np.zeros((0, 0)), "must be square with at least one row"),
        ([[1.0, 0.0], [0.5, math.nan]], r"not finite: nan at \(1, 1\)"),
        ([[math.inf, 0.0], [0.5, 0.5]], r"not finite: inf at \(0, 0\)"),
        ([[1.25, -0.25], [-0.5, 1.5]], r"negative weights, the least -0.5 at \(1, 0\)"),
        ([[0.0, 1.0], [1.0, 0.0]], r"zeros on the diagonal, at rows 0, 1: these agents ignore their own values"),
        (np.roll(np.eye(5), 1, axis=1), r"zeros on the diagonal, at rows 0, 1, 2, \.\.\."),
        ([[0.5, 0.25], [0.25, 0.5]], r"row 0 sums to 0\.75 and column 0 to 0\.75"),
        ([[0.5, 0.5, 0], [0, 0.9, 0], [0, 0, 1.25]], r"row 2 sums to 1\.25 and column 0 to 0\.5"),
        ([[1.0, 0.0], [1e-6, 1.0]], r"row 1 sums to 1\.000001 and column 0 to 1\.000001"),
    ],
)
def test_bad_matrices_are_refused(function, matrix, message):
    with pytest.raises(ValueError, match=message):
        function(matrix)
