"""Adjacency patterns against networkx: the agent of each node, matrices as graphs, what is no graph."""

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import topologies
from tests.helpers.networks import GRAPHS, same
from tests.helpers.refusals import refusals


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


@pytest.mark.parametrize(("graph", "expected"), [
    (nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]), [[0, 1, 1], [0, 0, 1], [1, 0, 0]]),  # from row to column
    (nx.Graph([("hub", "b"), ("a", "hub")]), [[0, 1, 1], [1, 0, 0], [1, 0, 0]]),
    (nx.Graph([(7, 3), (3, 0)]), [[0, 1, 0], [1, 0, 1], [0, 1, 0]]),  # integers with a gap
    (nx.Graph([(True, False), (False, 2)]), [[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
])  # fmt: skip
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


@pytest.mark.parametrize(("graph", "message"), [
    (nx.Graph([("a", "b"), ("b", "b")]), "self-loops at b;"),
    (np.array([[0, 1], [1, 1]]), "self-loops at 1; remove them with numpy.fill_diagonal"),
    (sparse.csr_array([[0, 1], [1, 1]]), "self-loops at 1; remove them with graph.setdiag"),
    (nx.MultiGraph([(0, 1), (0, 1), (1, 2)]), r"MultiGraph, with parallel edges \(0, 1\); pass networkx.Graph\(graph\)"),
    (nx.MultiGraph([(0, 1), (1, 2)]), r"MultiGraph; pass networkx.Graph\(graph\)"),
    (nx.MultiDiGraph([(0, 1), (0, 1)]), r"MultiDiGraph, with parallel edges \(0, 1\); pass networkx.DiGraph\(graph\)"),
    (nx.Graph(), "graph is empty; it needs at least one agent"),
    (nx.DiGraph(), "graph is empty"),
    (np.zeros((0, 0)), "graph is empty"),
    (np.zeros((2, 3)), r"must be square, got shape \(2, 3\); of edges, networkx.Graph\(graph.T.tolist\(\)\)"),
    (np.zeros((3, 2)), r"must be square, got shape \(3, 2\); of edges, networkx.Graph\(graph.tolist\(\)\)"),
    (nx.Graph([(1, "2"), (2, "3")]), r"nodes of the graph must differ .* '2' and 2: networkx.relabel_nodes\(graph, str\)"),
    (np.zeros(3), r"must be square, got shape \(3,\)"),
    (sparse.csr_array((3, 2)), r"must be square, got shape \(3, 2\)"),
    (np.array([[0, np.nan], [np.nan, 0]]), "entries that are not finite"),
])  # fmt: skip
@pytest.mark.parametrize("function", [topologies.adjacency, topologies.metropolis])
def test_bad_graphs_are_rejected(function, graph, message):
    with pytest.raises(ValueError, match=message):
        function(graph)


@pytest.mark.parametrize("graph", [[[0, 1], [1, 0]], {0: [1], 1: [0]}, None])
def test_what_is_no_graph_is_rejected_by_its_type(graph):
    with pytest.raises(TypeError, match=f"must be a networkx.Graph or DiGraph.*got {type(graph).__name__}"):
        topologies.adjacency(graph)


LINES = pd.DataFrame(  # columns in another order than rows: a - b, b - c, a -> d
    [[1, 0, 0, 1], [0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], index=list("abcd"), columns=["b", "c", "a", "d"]
)


@pytest.mark.parametrize(
    "names",
    [("a", "b", "c", "d"), (10, 20, 40, 80), (10, "20", 40, "80"), (3.5, 2.5, 1.5, 0.5)],
)
def test_a_table_is_a_graph_of_its_names_whatever_the_order_of_its_columns(names):
    new = dict(zip("abcd", names, strict=True))
    frame = LINES.rename(index=new, columns={old: str(name) for old, name in new.items()})
    digraph = nx.DiGraph()
    digraph.add_nodes_from(names)
    digraph.add_edges_from([(new[i], new[j]) for i, j in ("ab", "ba", "bc", "cb", "ad")])
    network = topologies.Static(frame, weights=topologies.push)
    assert network == topologies.Static(digraph, weights=topologies.push)
    assert [label for _, label in network.graph(0).nodes(data="label")] == list(names)


def test_tables_without_names_are_arrays():
    matrix = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    for frame in (pd.DataFrame(matrix), pd.DataFrame(matrix.astype(bool)), pd.DataFrame(matrix.astype(float))):
        assert same(topologies.adjacency(frame), topologies.adjacency(matrix))
        assert topologies.RandomEdges(frame, 0.5) == topologies.RandomEdges(matrix, 0.5)
        assert topologies.Periodic([frame, matrix]).static
        assert topologies.Matchings(3, 0, frame) == topologies.Matchings(3, 0, matrix)


def test_weights_of_tables_are_read_by_the_rules_that_read_weights():
    frame = pd.DataFrame([[2, 0, 0], [0, 0.5, 2], [0.5, 0, 0]], index=list("xyz"), columns=list("yzx"))  # x - y weighs 2
    expected = topologies.laplacian(np.array([[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]]), weight="weight")
    assert same(topologies.laplacian(frame, weight="weight"), expected)


@pytest.mark.parametrize("scale", [7, 0.5, -1])
@pytest.mark.parametrize("kind", [np.array, sparse.csr_array, sparse.coo_matrix, pd.DataFrame, nx.from_numpy_array])
@pytest.mark.parametrize("rule", [topologies.metropolis, topologies.push, topologies.max_degree])
def test_rules_that_ignore_weights_warn_whatever_holds_them(kind, rule, scale):
    dense = nx.to_numpy_array(topologies.ring(5))
    with pytest.warns(UserWarning, match=r"ignored by this rule.*topologies\.sinkhorn\(graph, weight='weight'\)"):
        weighted = topologies.Static(kind(scale * dense), weights=rule)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert topologies.Static(kind(dense), weights=rule) == weighted  # ones are no weights
        topologies.Static(kind(abs(scale) * dense), weights=lambda graph: topologies.sinkhorn(graph, weight="weight"))


MASKED = np.ma.masked_equal([[0, 1, -9], [1, 0, 1], [-9, 1, 0]], -9)


@pytest.mark.parametrize(
    "function", [topologies.adjacency, topologies.Static, lambda graph: topologies.RandomEdges(graph, 0.5)]
)
def test_masked_entries_are_named(function):
    with pytest.raises(
        ValueError, match=r"adjacency matrix has 2 masked entries, at \[0, 2\], \[2, 0\]: pass graph.filled\(0\)"
    ):
        function(MASKED)
    function(MASKED.filled(0))
    function(np.ma.masked_equal(MASKED.filled(0), 5))  # nothing is masked


MIXING = pd.DataFrame([[0.5, 0.5, 0], [0.75, 0, 0.25], [0, 0.25, 0.75]], index=[3, 2, 1], columns=[2, 3, 1])


def test_a_table_of_mixing_weights_keeps_its_names():
    frame = MIXING.rename(index={3: "c", 2: "b", 1: "a"}, columns={3: "c", 2: "b", 1: "a"})
    network = topologies.schedule_from_matrix(frame)
    assert [label for _, label in network.graph(0).nodes(data="label")] == ["c", "b", "a"]
    assert network.weights(0).toarray().tolist() == [[0.5, 0.5, 0], [0, 0.75, 0.25], [0.25, 0, 0.75]]
    ascending = topologies.schedule_from_matrix(MIXING)  # 1, 2, 3, as in a graph
    assert ascending.weights(0).toarray().tolist() == [[0.75, 0, 0.25], [0.25, 0.75, 0], [0, 0.5, 0.5]]
    with pytest.raises(TypeError, match=r"pass matrix.to_numpy\(\) .* or topologies.schedule_from_matrix\(matrix\)"):
        topologies.from_matrix(MIXING)


def test_remedies_of_tables_work():
    loops = LINES.replace(0, 1).mask(LINES.index.astype(str).to_numpy()[:, None] == LINES.columns.astype(str).to_numpy(), 0)
    assert same(topologies.adjacency(loops), topologies.adjacency(topologies.complete(4)))
    assert topologies.adjacency(LINES.reset_index().set_index("index")).nnz == 5
    assert topologies.adjacency(LINES.replace(0, np.nan).fillna(0)).nnz == 5
    assert topologies.Static(nx.from_pandas_adjacency(LINES)).graph(0).size() == 3
    one_way = sparse.csr_array(np.triu(np.ones((4, 4)), 1))
    with pytest.raises(ValueError, match=r"pass \(graph \+ graph.T\) != 0 if edges are mutual"):
        topologies.metropolis(one_way)
    assert same(topologies.metropolis((one_way + one_way.T) != 0), topologies.metropolis(topologies.complete(4)))
    with pytest.raises(ValueError, match=r"all of whose edges go both ways; pass graph.to_undirected\(\)"):
        topologies.Static(nx.path_graph(4).to_directed())


def test_other_graphs_have_remedies_that_make_them_graphs():
    lists, edges = {0: [1], 1: [0, 2], 2: [1]}, [(0, 1), (1, 2)]
    path = topologies.adjacency(nx.path_graph(3))
    for given in (lists, edges, path.toarray().tolist()):
        with pytest.raises(TypeError, match=r"; take networkx.Graph\(graph\) of edges or of lists .*, numpy.array\(graph\) of"):
            topologies.adjacency(given)
    arcs = np.array(edges)
    mixed = nx.relabel_nodes(nx.Graph([(0, "1"), (1, "2")]), str)
    for given in (nx.Graph(lists), nx.Graph(edges), np.array(path.toarray().tolist()), nx.Graph(arcs.tolist()), mixed):
        assert same(topologies.adjacency(given), path)


test_refusals = refusals(
    (lambda: topologies.schedule_from_matrix(np.ma.masked_equal([[0.5, 0.5], [0.5, 0.25]], 0.25)), ValueError,
     r"matrix has 1 masked entries, at \[1, 1\]"),
    (lambda: topologies.adjacency(LINES.drop("d")), ValueError, r"same names; only its columns have d: pass graph.reindex"),
    (lambda: topologies.adjacency(LINES.drop(columns="c")), ValueError,
     r"same names; only its rows have c: pass graph.reindex"),
    (lambda: topologies.adjacency(LINES.reset_index(drop=True)), ValueError,
     r"its rows have none, .*set_axis\(graph.columns\).*index_col=0"),
    (lambda: topologies.adjacency(LINES.reset_index()), ValueError, r"its rows have none: pass graph.set_index\('index'\)"),
    (lambda: topologies.adjacency(LINES.set_axis(list("bcab"), axis=1)), ValueError,
     "columns of graph must have different names; b occur"),
    (lambda: topologies.adjacency(LINES.replace(0, np.nan)), ValueError,
     r"cells that are empty or not finite, at \(a, a\), .*pass graph.fillna\(0\)"),
    (lambda: topologies.adjacency(LINES.astype(object).replace(0, "no")), TypeError, "graph must have cells that are numbers"),
    (lambda: topologies.adjacency(LINES.replace(0, 1)), ValueError,
     r"graph has self-loops at a, b, c, ...; remove them with graph.mask"),
    (lambda: topologies.metropolis(LINES), ValueError, r"networkx.from_pandas_adjacency\(graph\)"),
    (lambda: topologies.Static(np.full((2, 2), 0.5)), ValueError, r"topologies.schedule_from_matrix\(graph\)"),
)  # fmt: skip
