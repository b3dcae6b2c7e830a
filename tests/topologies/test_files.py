"""Graphs in files: every format against networkx's own writers or by hand, and what leaves open what it means."""

import ast
import gzip
import json
import re
import warnings

import networkx as nx
import numpy as np
import pandas
import pytest
from scipy import io, sparse

import topologies

LINES = nx.Graph()
LINES.add_weighted_edges_from([("Oslo", "Wien", 2.5), ("Wien", "Roma", 1.0), ("Roma", "Bern", 4.0)])
NUMBERS = nx.relabel_nodes(LINES, {"Oslo": 10, "Wien": 2, "Roma": 1, "Bern": 40})


def save(graph, path):
    kind = path.suffixes[0]
    if kind in (".links", ".edges"):
        path.write_text(json.dumps(nx.node_link_data(graph, edges=kind[1:])))
    else:
        writers = {".gml": nx.write_gml, ".graphml": nx.write_graphml, ".edgelist": nx.write_edgelist}
        writers.get(kind, nx.write_weighted_edgelist)(graph, path)


KINDS = [".gml", ".gml.gz", ".graphml", ".graphml.gz", ".edgelist", ".edgelist.gz", ".txt", ".links.json", ".edges.json"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("graph", [LINES, NUMBERS], ids=["text", "numbers"])
def test_every_format_keeps_names_weights_and_order(tmp_path, kind, graph):
    save(graph, tmp_path / f"lines{kind}")
    found = topologies.read_graph(tmp_path / f"lines{kind}")
    assert list(found) == list(graph)
    assert type(found) is nx.Graph
    assert nx.utils.edges_equal(found.edges(data=True), graph.edges(data=True))


@pytest.mark.parametrize("kind", [".gml", ".graphml", ".links.json"])
def test_formats_that_say_directed_are_believed_unless_told_otherwise(tmp_path, kind):
    save(nx.DiGraph(LINES.edges), path := tmp_path / f"lines{kind}")
    assert set(topologies.read_graph(path).edges) == set(LINES.edges)
    assert topologies.read_graph(path).is_directed()
    assert nx.utils.edges_equal(topologies.read_graph(path, directed=False).edges, LINES.edges)
    with pytest.raises(ValueError, match=r"undirected graph, and this one is a DiGraph; pass graph.to_undirected\(\)"):
        topologies.Static(topologies.read_graph(path))


@pytest.mark.parametrize(("name", "text", "edges"), [
    ("a.csv", "source,target\nann,bob\nbob,cy\n", {("ann", "bob"), ("bob", "cy")}),
    ("b.csv", "x,y\n1,2\n2,3\n", {(1, 2), (2, 3)}),  # text above numbers
    ("c.csv", '"Ward, north";"Ward, south"\n"Ward, south";"#3"\n', {("Ward, north", "Ward, south"), ("Ward, south", "#3")}),
    ("d.txt", "% sym unweighted\n# SNAP\n07 8\n8\t9 # noon\n\n", {("07", "8"), ("8", "9")}),
    ("e.tsv", "ann lee\tbob\nbob\tcy\n", {("ann lee", "bob"), ("bob", "cy")}),
    ("f.edges", "1 2\n2 1\n2 3\n3 2\n", {(1, 2), (2, 3)}),  # each edge in both directions
    ("g.csv", "ann,bob\nbob,cy\n", {("ann", "bob"), ("bob", "cy")}),
])  # fmt: skip
def test_edge_lists(tmp_path, name, text, edges):
    (tmp_path / name).write_text(text)
    assert set(topologies.read_graph(tmp_path / name).edges) == edges


def test_the_third_column_is_an_attribute_by_its_name(tmp_path):
    (tmp_path / "a.csv").write_text("i;j;loss\n1;2;0.5\n2;3;1e-3\n")
    assert set(topologies.read_graph(tmp_path / "a.csv").edges(data="loss")) == {(1, 2, 0.5), (2, 3, 0.001)}


@pytest.mark.parametrize(("text", "settings", "edges"), [
    ("1 2\n2 1\n2 3\n", {"directed": True}, {(1, 2), (2, 1), (2, 3)}),
    ("1 2\n2 1\n2 3\n", {"directed": False}, {(1, 2), (2, 3)}),
    ("1 2 5\n2 1 6\n", {"directed": True}, {(1, 2), (2, 1)}),
    ("ward seat\na b\nb c\n", {"header": True}, {("a", "b"), ("b", "c")}),
    ("ward seat\na b\nb c\n", {"header": False}, {("ward", "seat"), ("a", "b"), ("b", "c")}),
    ("1;2;0,5\n", {"sep": ";"}, None),
    ("a,1;b,2\nb,2;c,3\n", {"sep": ";"}, {("a,1", "b,2"), ("b,2", "c,3")}),
])  # fmt: skip
def test_what_an_edge_list_leaves_open_is_asked_for(tmp_path, text, settings, edges):
    (path := tmp_path / "a.txt").write_text(text)
    with pytest.raises(ValueError, match=rf"a\.txt.*pass {next(iter(settings))}="):
        topologies.read_graph(path)
    if edges is None:
        with pytest.raises(ValueError, match=r"line 1, '1;2;0,5': the weight of an edge must be a finite number, got '0,5'"):
            topologies.read_graph(path, **settings)
    else:
        assert set(topologies.read_graph(path, **settings).edges) == edges


@pytest.mark.parametrize(("text", "directed", "edges"), [
    ("id,from,to\n0,5,6\n1,6,7\n", None, {(5, 6), (6, 7)}),
    ("km;source;target\n2;a;b\n3;c;b\n", True, {("a", "b"), ("c", "b")}),
    ("time person friend\n0 5 6\n1 6 7\n", None, {(5, 6), (6, 7)}),
    ("# t i j\n5 5 6\n6 6 7\n", None, {(5, 6), (6, 7)}),
    ("target\tsource\n1\t2\n3\t4\n", True, {(2, 1), (4, 3)}),
    ("target,source,weight\n1,2,9\n3,4,9\n", True, {(2, 1), (4, 3)}),
    ("% to from\n1 2\n2 4\n", True, {(2, 1), (4, 2)}),
])  # fmt: skip
def test_columns_in_another_order_are_an_error_whose_remedy_reads_them(tmp_path, monkeypatch, text, directed, edges):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=r"a\.csv names its columns .* take networkx") as error:
        topologies.read_graph("a.csv", directed)
    call = str(error.value).partition("; take ")[2].partition(", or topologies")[0]
    found = eval(call, {"networkx": nx, "pandas": pandas, "path": "a.csv"})
    assert set(found.edges) == edges
    assert found.is_directed() is bool(directed)


@pytest.mark.parametrize("text", [
    "0,1,1\n1,0,1\n1,1,0\n",
    "0 1 0 1\n1 0 1 0\n0 1 0 1\n1 0 1 0\n",
    "0;2.5;0\n2.5;0;1\n0;1;0\n",
    ",a,b,c\na,0,1,0\nb,1,0,1\nc,0,1,0\n",
    "a b c\na 0 1 1\nb 1 0 1\nc 1 1 0\n",
    "\ta\tb\tc\na\t0\t1\t1\nb\t1\t0\t1\nc\t1\t1\t0\n",
])  # fmt: skip
def test_a_matrix_is_no_list_of_edges_and_the_remedy_reads_it(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=r"^a\.csv holds a matrix and no list of edges; take ") as error:
        topologies.read_graph("a.csv")
    known = {"topologies": topologies, "numpy": np, "pandas": pandas, "path": "a.csv"}
    found = eval(str(error.value).partition("; take ")[2], known)
    lines = [line.split(",") for line in text.replace(";", ",").replace(" ", ",").replace("\t", ",").split()]
    numbers = [line[-3:] for line in lines[1:]] if "a" in text else lines
    assert np.array_equal(topologies.adjacency(found.graph(0)).toarray() != 0, np.array(numbers, float) != 0)
    assert found.labels == (("a", "b", "c") if "a" in text else None)


@pytest.mark.parametrize(("text", "why", "edges"), [
    ("0 -> 1\n1 -> 2\n", "line 1, '0 -> 1': '->' has neither letters nor digits", {("0", "1"), ("1", "2")}),
    ("# of roads\na -- b 3\nb -- c 4\n", "line 2, 'a -- b 3': '--' has", {("a", "b"), ("b", "c")}),
    ("(0, 1)\n(0, 2)\n(1, 2)\n", r"line 1, '(0, 1)': '(0' is a part of a pair", {(0, 1), (0, 2), (1, 2)}),
    ("name,lat,lon\na,59.9,10.7\nb,41.9,12.5\n", "line 2, 'a,59.9,10.7': 59.9, in a column of numbers, is no name", None),
    ("0.1,0.7\n0.2,0.6\n0.1,0.6\n", "line 1, '0.1,0.7': 0.1, in", None),
    ("w,i,j\n0.5,1,2\n2,2,3\n", "names its columns w, i, j", None),
    ("0.5,1,2\n0.5,2,3\n", "line 1, '0.5,1,2': 0.5, in", None),
    ("0,1\n1,nan\n2,0\n", "line 2, '1,nan': 'nan', among numbers, is a missing name", None),
    ("a,b\nb,*\n*,a\n", "line 2, 'b,*': '*' has", None),
])  # fmt: skip
def test_signs_between_ends_pairs_and_positions_are_no_edges(tmp_path, monkeypatch, text, why, edges):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=f"^a.csv(, )?.*{re.escape(why)}") as error:
        topologies.read_graph("a.csv")
    if edges is not None:
        remedy = str(error.value).partition(". Take ")[2].removesuffix("; positions are no edges")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            found = eval(remedy, {"networkx": nx, "ast": ast, "path": "a.csv"})
        assert set(found.edges) == edges
        assert nx.get_edge_attributes(found, "weight") == ({("a", "b"): 3, ("b", "c"): 4} if "3" in text else {})


@pytest.mark.parametrize("text", [
    "source,target\n0,1.0\n1,2.0\n2,0.0\n",  # as pandas writes a column that once lacked a value
    "0.000000000000000000e+00 1.000000000000000000e+00\n1.0e+00 2.0e+00\n2.0e+00 0.0e+00\n",  # as numpy.savetxt does
    "0 1\n1 2\n2 0\n",
])  # fmt: skip
def test_whole_numbers_are_names_however_they_are_written(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    assert set(topologies.read_graph(tmp_path / "a.csv").edges) == {(0, 1), (1, 2), (0, 2)}


def test_names_that_look_like_numbers_among_others_stay_text(tmp_path):
    (tmp_path / "a.csv").write_text("1e3,ab\nab,2.0\n2.0,1e3\n")
    assert list(topologies.read_graph(tmp_path / "a.csv")) == ["1e3", "ab", "2.0"]
    (tmp_path / "a.csv").write_text("007,7\n7,1\n1,007\n")
    assert list(topologies.read_graph(tmp_path / "a.csv")) == ["007", "7", "1"]


def test_three_weighted_edges_are_no_matrix(tmp_path):
    (tmp_path / "a.csv").write_text("0 1 5\n1 2 3\n2 0 4\n")
    assert topologies.read_graph(tmp_path / "a.csv").size() == 3


@pytest.mark.parametrize("header", ["target,source", "start,goal,km", "u,v,w", "source,target,value", "i,j,v", "# of roads"])
def test_names_of_columns_in_order_are_read(tmp_path, header):
    width = header.count(",") + 1 if "," in header else 2
    (tmp_path / "a.csv").write_text(
        "\n".join([header, *(",".join(line) for line in (("1", "2", "9")[:width], ("2", "3", "8")[:width]))])
    )
    assert set(topologies.read_graph(tmp_path / "a.csv").edges) == {(1, 2), (2, 3)}


@pytest.mark.parametrize("dtype", [bool, int, float])
def test_matrix_market(tmp_path, dtype):
    matrix = nx.to_numpy_array(topologies.ring(5)).astype(dtype)
    io.mmwrite(tmp_path / "a.mtx", sparse.coo_array(matrix.astype(float)), field="pattern" if dtype is bool else None)
    found = topologies.read_graph(tmp_path / "a.mtx")
    assert not found.is_directed()
    assert np.array_equal(topologies.adjacency(found).toarray(), matrix)
    io.mmwrite(tmp_path / "b.mtx", sparse.coo_array(np.triu(matrix.astype(float))))
    assert set(topologies.read_graph(tmp_path / "b.mtx").edges) == {(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)}
    assert topologies.read_graph(tmp_path / "b.mtx").is_directed()
    assert np.array_equal(topologies.adjacency(topologies.read_graph(tmp_path / "b.mtx", directed=False)).toarray(), matrix)


def test_gml_without_labels_and_beyond_ascii(tmp_path):
    body = "node [ id 3 {} ] node [ id 5 {} ] edge [ source 3 target 5 ]"
    (tmp_path / "a.gml").write_text(f"graph [ {body.format('', '')} ]")
    assert set(topologies.read_graph(tmp_path / "a.gml").edges) == {(3, 5)}
    named = body.format('label "Zürich"', 'label "Genève"')
    (tmp_path / "b.gml").write_bytes(f"graph [ {named} ]".encode())
    assert set(topologies.read_graph(tmp_path / "b.gml").edges) == {("Zürich", "Genève")}


def test_labels_of_graphml_are_names_where_they_differ(tmp_path):
    graph = nx.Graph([("n0", "n1"), ("n1", "n2")])
    nx.set_node_attributes(graph, {"n0": "Wien", "n1": "Roma", "n2": "Oslo"}, "label")
    nx.write_graphml(graph, path := tmp_path / "a.graphml")
    assert topologies.Static(topologies.read_graph(path)).labels == ("Wien", "Roma", "Oslo")
    graph.nodes["n2"]["label"] = "Roma"
    nx.write_graphml(graph, path)
    assert list(topologies.read_graph(path)) == ["n0", "n1", "n2"]


def test_parallel_edges_that_are_alike_are_one(tmp_path):
    nx.write_graphml(nx.MultiGraph([("a", "b"), ("a", "b")]), tmp_path / "a.graphml")
    assert set(topologies.read_graph(tmp_path / "a.graphml").edges) == {("a", "b")}
    nx.write_graphml(nx.MultiGraph([("a", "b", {"w": 1}), ("a", "b", {"w": 2})]), tmp_path / "a.graphml")
    with pytest.raises(ValueError, match=r"a\.graphml has parallel edges with different attributes between a and b"):
        topologies.read_graph(tmp_path / "a.graphml")


@pytest.mark.parametrize(("name", "text", "why"), [
    ("a.gml", 'graph [ node [ id 1 label "a" ', "cannot be read as GML"),
    ("a.gml", 'graph [ node [ id 1 label "a" ] node [ id 2 label "a" ] ]', "node label 'a' is duplicated"),
    ("a.graphml", "<graphml>\n<graph>", "cannot be read as GraphML .*line 2"),
    ("a.json", '{"nodes": [}', "cannot be read as node-link JSON .*line 1 column"),
    ("a.json", '{"elements": []}', 'must have the keys "nodes" and either "links" or "edges".* it has elements'),
    ("a.json", '{"nodes": [{"id": 1}, {"id": 2}], "links": [{"source": 1, "target": 3}]}', "nodes that it does not list: 3"),
    ("a.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 1\n2 1\n", "cannot be read as Matrix Market .*Line 3"),
    ("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 1\n2 1 1\n", r"square matrix, got shape \(2, 3\)"),
    ("a.txt", "1 2\n\n1 2 3 4\n", "line 3, '1 2 3 4': an edge has two names.* this line has 4 fields.*Temporal.from_csv"),
    ("a.txt", "1 2 3\n# again\n1 2 4\n", "line 3, '1 2 4': line 1 has the same edge with other values"),
    ("a.csv", "a,b\nb,\n", "line 2, 'b,': a name is empty"),
    ("a.csv", 'a,b\nb,"c\n', "line 2, .*: its quotes are not closed"),
    ("a.csv", "# nothing\n", "holds no edges"),
])  # fmt: skip
def test_bad_files_are_named(tmp_path, name, text, why):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=rf"{name[0]}\{name[1:]}.*{why}"):
        topologies.read_graph(tmp_path / name)


def test_paths_and_broken_archives(tmp_path):
    with pytest.raises(FileNotFoundError):
        topologies.read_graph(tmp_path / "none.gml")
    with pytest.raises(ValueError, match=r"path must end in \.gml, \.graphml.*; got '.*a\.dot'"):
        topologies.read_graph(tmp_path / "a.dot")
    with pytest.raises(TypeError, match="path must be the path of a file, got 3"):
        topologies.read_graph(3)
    for name in ("a.json.gz", "a.txt.gz", "a.gml.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"1 2\n" * 999)[:30])
        with pytest.raises(ValueError, match=rf"{name} cannot be read"):
            topologies.read_graph(tmp_path / name)
    with pytest.raises(ValueError, match="header and sep must be None"):
        topologies.read_graph(tmp_path / "a.gml", header=True)


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.csv").write_text("1,2\n2,3\n")
    assert topologies.read_graph("~/a.csv").size() == 2
    (tmp_path / "b.csv").write_text("0,1,2\n5,2,3\n")
    assert topologies.Temporal.from_csv("~/b.csv", 5).rounds == 2
    (tmp_path / "c.csv").write_text("time,agent,x,y\n0,a,0,0\n0,b,1,0\n")
    assert topologies.Mobile.from_positions("~/c.csv", 1).graph(0).size() == 1
