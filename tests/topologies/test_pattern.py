"""Adjacency patterns against networkx: the agent of each node, matrices as graphs, what is no graph."""

import networkx as nx
import numpy as np
import pytest
from networks import GRAPHS, same
from scipy import sparse

import topologies


@pytest.mark.parametrize("name", GRAPHS)
def test_adjacency_is_that_of_networkx_also_of_a_matrix(name):
    graph = GRAPHS[name]
    pattern, dense = topologies.adjacency(graph), nx.to_numpy_array(graph, nodelist=range(len(graph)), weight=None)
    assert isinstance(pattern, sparse.csr_array)
    assert pattern.dtype == np.float64
    assert pattern.has_canonical_format
    assert np.array_equal(pattern.toarray(), dense)
    for convert in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_array, np.asarray):
        assert same(topologies.adjacency(convert(dense)), pattern)


def test_adjacency_ignores_edge_weights():
    weighted = nx.Graph()
    weighted.add_weighted_edges_from([(0, 1, 0.0), (1, 2, 7.0)])
    assert same(topologies.adjacency(weighted), topologies.adjacency(topologies.path(3)))


def test_integer_nodes_are_the_agents_whatever_their_order():
    ordered, shuffled = topologies.erdos_renyi(12, 0.3, seed=2), nx.Graph()
    shuffled.add_nodes_from(np.random.default_rng(0).permutation(12).tolist())
    shuffled.add_edges_from(ordered.edges)
    assert same(topologies.adjacency(shuffled), topologies.adjacency(ordered))
    assert same(topologies.metropolis(shuffled), topologies.metropolis(ordered))


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]), [[0, 1, 1], [0, 0, 1], [1, 0, 0]]),  # from row to column
        (nx.Graph([("hub", "b"), ("a", "hub")]), [[0, 1, 1], [1, 0, 0], [1, 0, 0]]),
        (nx.Graph([(7, 3), (3, 0)]), [[0, 1, 0], [1, 0, 1], [0, 1, 0]]),  # integers with a gap
        (nx.Graph([(True, False), (False, 2)]), [[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
    ],
)
def test_other_nodes_are_numbered_in_the_order_of_the_graph(graph, expected):
    assert topologies.adjacency(graph).toarray().tolist() == expected


def test_stored_zeros_repeated_entries_and_their_order_do_not_matter():
    rows, columns, data = [1, 0, 1, 1, 2, 2], [2, 1, 0, 2, 0, 1], [1.0, 2.0, 3.0, 1.0, 0.0, 1.0]
    messy = sparse.coo_array((data, (rows, columns)), shape=(3, 3))
    assert same(topologies.adjacency(messy), topologies.adjacency(topologies.path(3)))
    unsorted = sparse.csr_array(([1, 0, 1, 1, 1], [1, 0, 2, 0, 1], [0, 1, 4, 5]), shape=(3, 3))
    before = [part.copy() for part in (unsorted.data, unsorted.indices, unsorted.indptr)]
    assert same(topologies.metropolis(unsorted), topologies.metropolis(topologies.path(3)))
    for part, kept in zip((unsorted.data, unsorted.indices, unsorted.indptr), before):
        assert np.array_equal(part, kept)


def test_self_loops_are_rejected_and_the_remedy_in_the_message_works():
    graph = topologies.ring(8)
    graph.add_edges_from([(k, k) for k in (1, 3, 5, 7)])
    message = r"self-loops at 1, 3, 5, \.\.\.; remove them with graph.remove_edges_from\(list\(networkx.selfloop_edges"
    with pytest.raises(ValueError, match=message):
        topologies.adjacency(graph)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    assert same(topologies.adjacency(graph), topologies.adjacency(topologies.ring(8)))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.Graph([("a", "b"), ("b", "b")]), "self-loops at b;"),
        (np.array([[0, 1], [1, 1]]), "self-loops at 1; remove them with numpy.fill_diagonal"),
        (sparse.csr_array([[0, 1], [1, 1]]), "self-loops at 1; remove them with graph.setdiag"),
        (nx.MultiGraph([(0, 1), (0, 1), (1, 2)]), r"MultiGraph, with parallel edges \(0, 1\); pass networkx.Graph\(graph\)"),
        (nx.MultiGraph([(0, 1), (1, 2)]), r"MultiGraph; pass networkx.Graph\(graph\)"),
        (nx.MultiDiGraph([(0, 1), (0, 1)]), r"MultiDiGraph, with parallel edges \(0, 1\); pass networkx.DiGraph\(graph\)"),
        (nx.Graph(), "graph is empty; it needs at least one agent"),
        (nx.DiGraph(), "graph is empty"),
        (np.zeros((0, 0)), "graph is empty"),
        (np.zeros((2, 3)), r"must be square, got shape \(2, 3\)"),
        (np.zeros(3), r"must be square, got shape \(3,\)"),
        (sparse.csr_array((3, 2)), r"must be square, got shape \(3, 2\)"),
        (np.array([[0, np.nan], [np.nan, 0]]), "entries that are not finite"),
    ],
)
@pytest.mark.parametrize("function", [topologies.adjacency, topologies.metropolis])
def test_bad_graphs_are_rejected(function, graph, message):
    with pytest.raises(ValueError, match=message):
        function(graph)


@pytest.mark.parametrize("graph", [[[0, 1], [1, 0]], {0: [1], 1: [0]}, None])
def test_what_is_no_graph_is_rejected_by_its_type(graph):
    with pytest.raises(TypeError, match=f"must be a networkx.Graph or DiGraph.*got {type(graph).__name__}"):
        topologies.adjacency(graph)
