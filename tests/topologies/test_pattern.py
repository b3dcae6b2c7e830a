"""Adjacency patterns against networkx: which agent a node is, matrices as graphs, what is no graph."""

import networkx as nx
import numpy as np
import pytest
from networks import GRAPHS, same
from scipy import sparse

import topologies


@pytest.fixture(params=GRAPHS)
def graph(request):
    return GRAPHS[request.param]


def test_adjacency_is_that_of_networkx(graph):
    pattern = topologies.adjacency(graph)
    assert isinstance(pattern, sparse.csr_array)
    assert pattern.dtype == np.float64
    assert pattern.has_canonical_format
    assert np.array_equal(pattern.toarray(), nx.to_numpy_array(graph, nodelist=range(len(graph)), weight=None))


def test_adjacency_of_a_directed_graph_has_an_entry_from_source_to_target():
    pattern = topologies.adjacency(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]))
    assert pattern.toarray().tolist() == [[0, 1, 1], [0, 0, 1], [1, 0, 0]]


def test_adjacency_ignores_edge_weights():
    weighted = nx.Graph()
    weighted.add_weighted_edges_from([(0, 1, 0.0), (1, 2, 7.0)])
    assert same(topologies.adjacency(weighted), topologies.adjacency(topologies.path(3)))


def test_integer_labels_are_the_agents_whatever_the_order_they_were_added_in():
    ordered = topologies.erdos_renyi(12, 0.3, seed=2)
    shuffled = nx.Graph()
    shuffled.add_nodes_from(np.random.default_rng(0).permutation(12).tolist())
    shuffled.add_edges_from(ordered.edges)
    assert list(shuffled) != list(ordered)
    assert same(topologies.adjacency(shuffled), topologies.adjacency(ordered))
    assert same(topologies.metropolis(shuffled), topologies.metropolis(ordered))


def test_other_labels_are_numbered_in_the_order_of_iteration():
    graph = nx.Graph()
    graph.add_nodes_from(["hub", "b", "a"])
    graph.add_edges_from([("a", "hub"), ("hub", "b")])
    assert topologies.adjacency(graph).toarray().tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]


def test_integer_labels_with_a_gap_are_numbered_in_the_order_of_iteration():
    graph = nx.Graph([(7, 3), (3, 0)])
    assert topologies.adjacency(graph).toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize("convert", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_array, np.asarray])
def test_matrices_are_read_as_graphs(graph, convert):
    dense = nx.to_numpy_array(graph, nodelist=range(len(graph)))
    assert same(topologies.adjacency(convert(dense)), topologies.adjacency(graph))
    assert same(topologies.metropolis(convert(dense)), topologies.metropolis(graph))


def test_stored_zeros_and_repeated_entries_of_a_matrix_and_their_order_do_not_matter():
    rows, columns, data = [1, 0, 1, 1, 2, 2], [2, 1, 0, 2, 0, 1], [1.0, 2.0, 3.0, 1.0, 0.0, 1.0]
    messy = sparse.coo_array((data, (rows, columns)), shape=(3, 3))
    assert same(topologies.adjacency(messy), topologies.adjacency(topologies.path(3)))
    unsorted = sparse.csr_array(([1, 0, 1, 1, 1], [1, 0, 2, 0, 1], [0, 1, 4, 5]), shape=(3, 3))
    before = [part.copy() for part in (unsorted.data, unsorted.indices, unsorted.indptr)]
    assert same(topologies.metropolis(unsorted), topologies.metropolis(topologies.path(3)))
    for part, kept in zip((unsorted.data, unsorted.indices, unsorted.indptr), before):
        assert np.array_equal(part, kept)


def test_selfloops_are_refused_and_the_remedy_in_the_message_works():
    graph = topologies.ring(8)
    graph.add_edges_from([(k, k) for k in (1, 3, 5, 7)])
    message = r"self-loops at 1, 3, 5, \.\.\.; remove them with graph.remove_edges_from\(list\(networkx.selfloop_edges"
    with pytest.raises(ValueError, match=message):
        topologies.adjacency(graph)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    assert same(topologies.adjacency(graph), topologies.adjacency(topologies.ring(8)))


def test_a_selfloop_is_named_by_the_label_of_its_node():
    with pytest.raises(ValueError, match="self-loops at b;"):
        topologies.adjacency(nx.Graph([("a", "b"), ("b", "b")]))


@pytest.mark.parametrize(("convert", "remedy"), [(np.asarray, "numpy.fill_diagonal"), (sparse.csr_array, "graph.setdiag")])
def test_a_diagonal_entry_of_a_matrix_is_a_selfloop(convert, remedy):
    with pytest.raises(ValueError, match=f"self-loops at 1; remove them with {remedy}"):
        topologies.adjacency(convert(np.array([[0, 1], [1, 1]])))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            nx.MultiGraph([(0, 1), (0, 1), (1, 2)]),
            r"MultiGraph, with parallel edges \(0, 1\); pass networkx.Graph\(graph\)",
        ),
        (nx.MultiGraph([(0, 1), (1, 2)]), r"MultiGraph; pass networkx.Graph\(graph\)"),
        (
            nx.MultiDiGraph([(0, 1), (0, 1)]),
            r"MultiDiGraph, with parallel edges \(0, 1\); pass networkx.DiGraph\(graph\)",
        ),
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
def test_bad_graphs_are_refused(function, graph, message):
    with pytest.raises(ValueError, match=message):
        function(graph)


@pytest.mark.parametrize("graph", [[[0, 1], [1, 0]], {0: [1], 1: [0]}, None])
def test_things_that_are_no_graph_are_refused_by_type(graph):
    with pytest.raises(TypeError, match=f"must be a networkx.Graph or DiGraph.*got {type(graph).__name__}"):
        topologies.adjacency(graph)
