"""Push and pull weights against hand-computed matrices."""

import networkx as nx
import numpy as np

import topologies

DIGRAPH = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (3, 0)])


def test_push_and_pull_by_hand():
    third = 1 / 3
    # Column j holds 1 / (1 + out-degree of j), out-degrees 2, 1, 2, 1; an edge from j to i is the entry (i, j).
    expected = [[third, 0, third, 0.5], [third, 0.5, 0, 0], [third, 0.5, third, 0], [0, 0, third, 0.5]]
    assert topologies.push(DIGRAPH).toarray().tolist() == expected
    # Row i holds 1 / (1 + in-degree of i), in-degrees 2, 1, 2, 1.
    expected = [[third, 0, third, third], [0.5, 0.5, 0, 0], [third, third, third, 0], [0, 0, 0.5, 0.5]]
    assert topologies.pull(DIGRAPH).toarray().tolist() == expected


def test_push_and_pull_send_undirected_edges_both_ways():
    graph = topologies.star(4)
    expected = [[0.25, 0.5, 0.5, 0.5], [0.25, 0.5, 0, 0], [0.25, 0, 0.5, 0], [0.25, 0, 0, 0.5]]
    assert topologies.push(graph).toarray().tolist() == expected
    assert np.array_equal(topologies.pull(graph).toarray(), topologies.push(graph).toarray().T)
