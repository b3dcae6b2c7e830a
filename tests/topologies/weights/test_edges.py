"""Weights of a graph's own edges: who reads them, and which are refused."""

import math

import networkx as nx
import numpy as np
import pytest

import topologies
from topologies.weights.edges import edge_weights


def weighted(*edges, kind=nx.Graph):
    graph = kind()
    graph.add_weighted_edges_from(edges)
    return graph


def test_weights_of_edges_follow_the_order_of_the_agents():
    graph = weighted((3, 1, 5.0), (1, 0, 2.0), (0, 2, 4.0))
    expected = np.zeros((4, 4))
    for i, j, value in graph.edges(data="weight"):
        expected[i, j] = expected[j, i] = value
    assert np.array_equal(edge_weights(graph, "weight").toarray(), expected)
    directed = weighted(("b", "a", 1.5), ("a", "c", 2.5), ("c", "b", 3.5), kind=nx.DiGraph)
    assert edge_weights(directed, "weight").toarray().tolist() == [[0, 1.5, 0], [0, 0, 2.5], [3.5, 0, 0]]
    assert edge_weights(nx.empty_graph(2), "weight").toarray().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("rule", [topologies.laplacian, topologies.sinkhorn])
@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (topologies.path(3), r"edge \(0, 1\) has no attribute 'weight'; every edge needs a weight"),
        (
            weighted((0, 1, 1.0), (1, 2, -2.0)),
            r"edge \(1, 2\) has weight -2\.0; weights of edges must be finite numbers above 0",
        ),
        (weighted((0, 1, 1.0), (1, 2, 0)), r"edge \(1, 2\) has weight 0;"),
        (weighted(("a", "b", 1.0), ("b", "c", math.nan)), r"edge \('b', 'c'\) has weight nan;"),
        (weighted((0, 1, 1.0), (1, 2, "heavy")), r"edge \(1, 2\) has weight 'heavy';"),
        (np.array([[0, 1, 0], [1, 0, -3], [0, -3, 0]]), r"edge \(1, 2\) has weight -3\.0;"),
    ],
)
def test_bad_weights_of_edges_are_refused_by_name(rule, graph, message):
    with pytest.raises(ValueError, match=message):
        rule(graph, weight="weight")


def test_the_other_weights_need_none_of_the_edges():
    graph = weighted((0, 1, -1.0), (1, 2, math.nan))
    for rule in (topologies.laplacian, topologies.max_degree, topologies.sinkhorn, topologies.push, topologies.pull):
        assert np.array_equal(rule(graph).toarray(), rule(topologies.path(3)).toarray())
