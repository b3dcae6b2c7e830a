"""Graphs in files of other programs."""

from __future__ import annotations

import ast
import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree.ElementTree import ParseError

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks, _lines
from topologies._checks import listed

_PANDAS = {" ": r"r'\s+'"}  # how pandas calls what separates fields
Row: TypeAlias = tuple[int, str, list[Any]]  # number of the line, its text and its fields


def read_graph(
    path: str | os.PathLike[str], directed: bool | None = None, header: bool | None = None, sep: str | None = None
) -> nx.Graph:
    r"""Return the graph in a file: GML, GraphML, an edge list, Matrix Market or node-link JSON.

    The end of the file's name says which it is; ``.gz`` may follow:

    - ``.gml``, ``.graphml``: as networkx, igraph, Gephi and yEd write them. Names are the labels, if all nodes have different
      ones, else the ids.
    - ``.edgelist``, ``.edges``, ``.txt``, ``.csv``, ``.tsv``: a line for each edge with two names, or two names and a weight,
      or the attributes that networkx writes, separated by white space, commas, semicolons or tabs; after ``#``, or in lines
      that begin with ``%``, are comments.
    - ``.mtx``: a Matrix Market file, whose nonzero entries (i, j) are the edges from i to j between nodes 0, ..., A - 1.
    - ``.json``: the node-link format of networkx and D3, with edges under "links" or "edges".

    Names that all are whole numbers become numbers, other names remain text.

    Parameters
    ----------
    path : path
        File.
    directed : bool, optional
        Whether edges have a direction. By default as the file says; Matrix Market files are directed if the matrix is not
        symmetric, and edge lists undirected, unless some edges are listed in both directions and others in one.
    header : bool, optional
        Whether the first line of an edge list has the names of its columns. By default it has if they are known, such as
        ``source,target``, or text above numbers. The third name is that of the edge attribute, by default "weight".
    sep : str, optional
        What separates the fields of an edge list: a comma, a semicolon, a tab, or a blank for white space. By default the only
        one of the first three that gives the first line two fields or more, else white space.

    Returns
    -------
    networkx.Graph or networkx.DiGraph
        Graph with the attributes of nodes and edges in the file.

    Raises
    ------
    ValueError
        If the file is not of the format of its name, has parallel edges that differ, or leaves open what it means. The message
        names the file, and of edge lists the line.

    Examples
    --------
    >>> import pathlib, tempfile, topologies
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "lines.csv")
    >>> path.write_text("from,to,km\nOslo,Wien,1354\nWien,Roma,764\n") > 0
    True
    >>> graph = topologies.read_graph(path)
    >>> graph.edges(data="km")
    EdgeDataView([('Oslo', 'Wien', 1354), ('Wien', 'Roma', 764)])
    >>> folder.cleanup()
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the path of a file, got {path!r}")
    path = os.path.expanduser(os.fspath(path))
    for name, value in (("directed", directed), ("header", header)):
        if value is not None:
            _checks.flag(name, value)
    if not isinstance(sep, str | None):
        raise TypeError(f"sep must be None, or what stands between the fields of a line, such as ';'; got {sep!r}")
    kind = Path(path.removesuffix(".gz")).suffix.lower()
    if kind not in FORMATS:
        endings = ", ".join(FORMATS)
        raise ValueError(f"path must end in {endings}, or one of these and .gz, so that its format is known; got {path!r}")
    if (header, sep) != (None, None) and FORMATS[kind] is not _edge_list:
        raise ValueError(f"header and sep must be None for {path}: they are those of edge lists")
    try:
        graph = _edge_list(path, directed, header, sep) if FORMATS[kind] is _edge_list else FORMATS[kind](path)
    except FileNotFoundError:
        raise
    except (
        nx.NetworkXException,
        ParseError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        OSError,
        EOFError,
        zlib.error,
    ) as error:
        if str(error).startswith(path):
            raise
        raise ValueError(f"{path} cannot be read as {NAMES[kind]} ({type(error).__name__}: {error})") from error
    graph = _simple(path, graph)
    if directed is True:
        graph = graph.to_directed()
    elif directed is False and graph.is_directed():
        graph = _undirected(path, graph)
    if all(isinstance(node, str) for node in graph) and _lines.integers(list(graph)):
        graph = nx.relabel_nodes(graph, {node: int(node) for node in graph})
    return graph


def _text(path: str) -> str:
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8-sig") as file:
        found: str = file.read()
    return found


def _gml(path: str) -> nx.Graph:
    text = _text(path)
    try:
        return nx.parse_gml(text)
    except nx.NetworkXError as error:
        if "no 'label' attribute" not in str(error):
            raise
        return nx.parse_gml(text, label="id")


def _graphml(path: str) -> nx.Graph:
    graph = nx.read_graphml(path)
    names = [name for _, name in graph.nodes(data="label") if isinstance(name, str) and name]
    if len(names) < len(graph) or len(set(names)) < len(names):
        return graph
    for node in graph:
        graph.nodes[node]["id"] = node
    return nx.relabel_nodes(graph, dict(zip(graph, names, strict=True)))


def _json(path: str) -> nx.Graph:
    found = json.loads(_text(path))
    keys = [key for key in ("links", "edges") if isinstance(found, dict) and isinstance(found.get(key), list)]
    if len(keys) != 1 or not isinstance(found.get("nodes"), list):
        has = listed(found) if isinstance(found, dict) else f"a {type(found).__name__}"
        raise ValueError(f'{path} must have the keys "nodes" and either "links" or "edges", which are lists; it has {has}')
    graph = nx.node_link_graph(found, edges=keys[0])
    if len(graph) != len(found["nodes"]):
        known = [node.get("id") for node in found["nodes"]]
        foreign = [node for node in graph if node not in known]
        raise ValueError(
            f"{path} has edges of nodes that it does not list: {listed(foreign)}" if foreign else f"{path} lists a node twice"
        )
    return graph


def _matrix(path: str) -> nx.Graph:
    from scipy.io import mmread

    matrix = sparse.csr_array(mmread(path))
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{path} must hold a square matrix, got shape {matrix.shape}")
    matrix.eliminate_zeros()
    symmetric = (matrix != matrix.T).nnz == 0
    return nx.from_scipy_sparse_array(matrix, create_using=nx.Graph if symmetric else nx.DiGraph)


def _edge_list(path: str, directed: bool | None, header: bool | None, sep: str | None) -> nx.Graph:
    lines = _lines.Lines(path, 2, sep)
    rows: list[Row] = [(lines.number, lines.text, list(fields)) for fields in lines]
    if not rows:
        raise ValueError(f"{path} holds no edges")

    def fault(place: int, why: str) -> ValueError:
        number, text, _ = rows[place]
        return ValueError(f"{path}, line {number}, {_checks.shown(text)}: {why}")

    _check_no_matrix(lines, rows)
    for place, (_, text, fields) in enumerate(rows):
        if "{" in text:
            fields[:] = [*_attributes(text, partial(fault, place))]
        if sign := _lines.sign(fields[:2]):
            why = f"{sign!r} has neither letters nor digits, and is no name"
            raise fault(place, f"{why}. {_remedy(lines, sign, weighted=len(fields) > 3)}")
        if not 2 <= len(fields) <= 3:
            raise fault(
                place,
                f"an edge has two names, or two names and a weight; this line has {len(fields)} fields. "
                "Take two columns by networkx.from_pandas_edgelist(pandas.read_csv(path), source=..., target=...), or read "
                "contacts over time by topologies.Temporal.from_csv",
            )
        if not (fields[0] and fields[1]):
            raise fault(place, "a name is empty")
    ends = {name for place, (_, _, fields) in enumerate(rows) for name in fields[:2] if place or _lines.is_number(name)}
    as_int = _lines.whole(ends)
    for _, _, fields in rows:
        fields[:2] = [as_int.get(name, name) for name in fields[:2]]
    names = rows[0][2] if _has_header(rows, header, partial(fault, 0)) else None
    begin = 0 if names is None else 1
    _check_order(lines, names, len(rows[0][2]), bool(directed))
    _check_names(lines, [fields[:2] for _, _, fields in rows[begin:]], lambda place, why: fault(place + begin, why))
    attribute = names[2] if names and len(names) == 3 else "weight"
    edges: list[tuple[str, str, dict[str, Any]]] = []
    for place, (_, _, fields) in enumerate(rows[begin:], begin):
        i, j, *rest = fields
        edges.append((i, j, _value(attribute, rest, partial(fault, place))))
    seen: dict[tuple[str, str], int] = {}
    for place, (i, j, data) in enumerate(edges):
        before = seen.setdefault((i, j), place)
        if edges[before][2] != data:
            raise fault(place + begin, f"line {rows[before + begin][0]} has the same edge with other values")
    back = [(i, j) for i, j in seen if i != j and (j, i) in seen]
    unequal = [(i, j) for i, j in back if edges[seen[i, j]][2] != edges[seen[j, i]][2]]
    alike = len(back) in (0, sum(i != j for i, j in seen))
    if not directed and (unequal or (directed is None and not alike)):
        shown = listed(f"{i} - {j}" for i, j in unequal or back)
        which = "have other values in the other direction" if unequal else "are listed in both directions, but others in one"
        remedy = (
            "directed=True, or directed=False to join both directions" if directed is None and not unequal else "directed=True"
        )
        raise ValueError(f"{path}: the edges {shown} {which}; pass {remedy}")
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_edges_from(edges)
    return graph


def _check_no_matrix(lines: _lines.Lines, rows: list[Row]) -> None:
    """Raise an error if all lines together are a symmetric matrix without a diagonal, perhaps with names around it."""
    cells, sep = [fields for _, _, fields in rows], lines.sep or " "
    call = f"numpy.loadtxt(path, delimiter={None if sep == ' ' else sep!r})"
    if len(cells) > 1 and (not cells[0][0] or len(cells[0]) < len(cells[1])):
        cells, call = (
            [fields[1:] for fields in cells[1:]],
            f"pandas.read_csv(path, sep={_PANDAS.get(sep, repr(sep))}, index_col=0)",
        )
    size = len(cells)
    if size < 3 or any(len(fields) != size or not all(map(_lines.is_number, fields)) for fields in cells):
        return
    matrix = np.array(cells, float)
    if np.array_equal(matrix, matrix.T) and not np.diagonal(matrix).any():
        raise ValueError(f"{lines.path} holds a matrix and no list of edges; take topologies.Static({call})")


def _check_order(lines: _lines.Lines, header: list[str] | None, fields: int, directed: bool) -> None:
    """Raise an error if the names of columns say that the first two are not where edges begin and end, in this order."""
    names = header or lines.split(lines.above)
    known, ends = [_lines.plain(name) for name in names], _lines.FROM | _lines.TO
    if len(names) != fields:  # a comment about something else
        return
    backwards = directed and known[0] in _lines.TO and known[1] in _lines.FROM
    timed = fields == 3 and known[0] in _lines.TIMES - {"start", "begin"}
    if not (backwards or timed or (fields == 3 and known[2] in ends and not set(known[:2]) <= ends)):
        return
    how = "" if lines.sep == "," else f", sep={_PANDAS.get(lines.sep or ' ', repr(lines.sep))}"
    how += "" if header else f", comment={lines.above[0]!r}, names={names}"
    source, target = names[1::-1] if backwards else names[1:]
    create = ", create_using=networkx.DiGraph" if directed else ""
    raise ValueError(
        f"{lines.path} names its columns {', '.join(names)}, and the first two would be where edges begin and end; take "
        f"networkx.from_pandas_edgelist(pandas.read_csv(path{how}), {source!r}, {target!r}{create})"
        + (", or topologies.Temporal.from_csv if these are contacts over time" if timed else "")
    )


def _check_names(lines: _lines.Lines, pairs: list[list[str]], fault: Callable[[int, str], ValueError]) -> None:
    """Raise an error if what would be the ends of edges are pairs, positions or weights, or missing."""
    texts = {name for pair in pairs for name in pair if name.lower() in _lines.MISSING or not _lines.is_number(name)}
    missing = texts if len(texts) == 1 and min(texts).lower() in _lines.MISSING else set()
    for column in map(list, zip(*pairs, strict=True)):
        if gone := missing.intersection(column):
            raise fault(column.index(min(gone)), f"{min(gone)!r}, among numbers, is a missing name: drop the line")
        if found := _lines.no_name(column):
            place, why = found
            raise fault(place, f"{why}. {_remedy(lines, column[place])}; positions are no edges")


def _remedy(lines: _lines.Lines, name: str, weighted: bool = False) -> str:
    """Return how to read edges that have this name in the place of one of their ends."""
    sep = lines.sep or " "
    if name[:1] in ("(", "["):
        return "Take networkx.Graph(map(ast.literal_eval, open(path)))"
    if sep == " " and _lines.sign([name]):
        data = "[('weight', float)]" if weighted else "False"
        return f"Take networkx.parse_edgelist(open(path).read().replace({name!r}, ' ').splitlines(), data={data})"
    how = _PANDAS.get(sep, repr(sep))
    return f"Take both ends by networkx.from_pandas_edgelist(pandas.read_csv(path, sep={how}), source=..., target=...)"


def _attributes(text: str, fault: Callable[[str], ValueError]) -> Iterator[Any]:
    """Yield the fields of a line that networkx wrote: two names and a dictionary."""
    parts = text.split(None, 2)
    yield from parts[:2]
    try:
        data = ast.literal_eval(parts[2])
    except (ValueError, SyntaxError, IndexError):
        data = None
    if not isinstance(data, dict):
        raise fault("after two names there must be a dictionary of attributes, such as {'weight': 2.0}")
    yield data


def _value(attribute: str, rest: list[Any], fault: Callable[[str], ValueError]) -> dict[str, Any]:
    """Return the attributes of an edge from the field after its names, if there is one."""
    if not rest:
        return {}
    if isinstance(rest[0], dict):
        return rest[0]
    if not (_lines.is_number(rest[0]) and np.isfinite(float(rest[0]))):
        raise fault(f"the {attribute} of an edge must be a finite number, got {rest[0]!r}")
    return {attribute: int(rest[0]) if _lines.integers([rest[0]]) else float(rest[0])}


def _has_header(rows: list[Row], header: bool | None, fault: Callable[[str], ValueError]) -> bool:
    """Return whether the first line has the names of columns; raise an error if it may have."""
    first, others = rows[0][2], [fields for _, _, fields in rows[1:]]
    if header is not None or not others:
        return bool(header)
    if len(first) == 3 and not isinstance(first[2], dict) and not _lines.is_number(first[2]):
        return True
    ends = {name for fields in others for name in fields[:2]}
    if {_lines.plain(name) for name in first[:2]} <= _lines.FROM | _lines.TO and not set(first[:2]) & ends:
        return True
    if _lines.integers(list(ends)) and not any(_lines.is_number(name) for name in first[:2]):
        return True
    if not set(first[:2]) & ends and first[0] != first[1]:
        raise fault("its names occur in no other line, so that they may be those of columns; pass header=True or header=False")
    return False


def _simple(path: str, graph: nx.Graph) -> nx.Graph:
    """Return a graph without parallel edges; raise ValueError if they differ."""
    if not graph.is_multigraph():
        return graph
    simple = nx.DiGraph() if graph.is_directed() else nx.Graph()
    simple.graph.update(graph.graph)
    simple.add_nodes_from(graph.nodes(data=True))
    for i, j, data in graph.edges(data=True):
        data = {key: value for key, value in data.items() if key not in ("key", "id")}
        if simple.has_edge(i, j) and simple.edges[i, j] != data:
            raise ValueError(
                f"{path} has parallel edges with different attributes between {i} and {j}: join them in the file, or read it "
                "by networkx and pass networkx.Graph(graph)"
            )
        simple.add_edge(i, j, **data)
    return simple


def _undirected(path: str, graph: nx.Graph) -> nx.Graph:
    """Return a directed graph without directions; raise ValueError if both directions of an edge differ."""
    for i, j, data in graph.edges(data=True):
        back = graph.get_edge_data(j, i, data)
        if {**back, "id": 0} != {**data, "id": 0}:
            raise ValueError(
                f"directed=False needs edges whose two directions are alike; those of {i} and {j} in {path} differ"
            )
    return graph.to_undirected()


FORMATS: dict[str, Callable[..., nx.Graph]] = {
    ".gml": _gml,
    ".graphml": _graphml,
    ".edgelist": _edge_list,
    ".edges": _edge_list,
    ".txt": _edge_list,
    ".csv": _edge_list,
    ".tsv": _edge_list,
    ".mtx": _matrix,
    ".json": _json,
}
NAMES = {".gml": "GML", ".graphml": "GraphML", ".mtx": "Matrix Market", ".json": "node-link JSON"} | {
    kind: "an edge list" for kind, reader in FORMATS.items() if reader is _edge_list
}
