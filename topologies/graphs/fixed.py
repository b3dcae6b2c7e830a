"""Graphs that are what their name and size say."""

import networkx as nx

from topologies import _checks
from topologies._checks import integer


def ring(agents: int) -> nx.Graph:
    """Cycle: agent i is joined to i - 1 and i + 1 modulo `agents`. Two agents share one edge, one agent has none.

    Examples
    --------
    >>> from topologies import ring
    >>> ring(4).edges
    EdgeView([(0, 1), (0, 3), (1, 2), (2, 3)])
    """
    agents = integer("agents", agents, 1)
    _checks.room(f"ring(agents={agents})", agents)
    # A cycle of one or two nodes would need a self-loop or a doubled edge, which a mixing matrix cannot tell apart.
    return nx.cycle_graph(agents) if agents > 2 else nx.path_graph(agents)


def path(agents: int) -> nx.Graph:
    """Line: agent i is joined to i + 1.

    Examples
    --------
    >>> from topologies import path
    >>> path(3).edges
    EdgeView([(0, 1), (1, 2)])
    """
    agents = integer("agents", agents, 1)
    _checks.room(f"path(agents={agents})", agents)
    return nx.path_graph(agents)


def star(agents: int) -> nx.Graph:
    """Agent 0 is joined to every other; there are `agents` nodes in all, the centre included.

    Examples
    --------
    >>> from topologies import star
    >>> star(4).edges
    EdgeView([(0, 1), (0, 2), (0, 3)])
    """
    agents = integer("agents", agents, 1)
    _checks.room(f"star(agents={agents})", agents)
    return nx.star_graph(agents - 1)


def complete(agents: int) -> nx.Graph:
    """Every agent is joined to every other.

    Examples
    --------
    >>> from topologies import complete
    >>> complete(5).number_of_edges()
    10
    """
    agents = integer("agents", agents, 1)
    _checks.room(f"complete(agents={agents})", agents**2 // 2, each=100)
    return nx.complete_graph(agents)


def grid(rows: int, columns: int) -> nx.Graph:
    """Rectangular lattice; the agent in row r and column c is ``r * columns + c``.

    Examples
    --------
    >>> from topologies import grid
    >>> sorted(grid(2, 3)[4])
    [1, 3, 5]
    """
    rows, columns = integer("rows", rows, 1), integer("columns", columns, 1)
    _checks.room(f"grid(rows={rows}, columns={columns})", rows * columns)
    lattice = nx.grid_2d_graph(rows, columns)
    return nx.convert_node_labels_to_integers(lattice)


def torus(rows: int, columns: int) -> nx.Graph:
    """Lattice that wraps around in both directions; the agent in row r and column c is ``r * columns + c``.

    Every agent has four neighbours when both sides are at least 3. On a side of 2 the edge around is the edge that is
    there already, and on a side of 1 it would be a self-loop, so neither is added.

    Examples
    --------
    >>> from topologies import torus
    >>> sorted(torus(3, 4)[0])
    [1, 3, 4, 8]
    """
    rows, columns = integer("rows", rows, 1), integer("columns", columns, 1)
    _checks.room(f"torus(rows={rows}, columns={columns})", rows * columns)
    lattice = nx.grid_2d_graph(rows, columns, periodic=True)
    return nx.convert_node_labels_to_integers(lattice)


def hypercube(dimension: int) -> nx.Graph:
    """Binary cube of ``2**dimension`` agents; two are joined when their numbers differ in one binary digit.

    Examples
    --------
    >>> from topologies import hypercube
    >>> sorted(hypercube(3)[5])
    [1, 4, 7]
    """
    dimension = integer("dimension", dimension, 0)
    _checks.room(f"hypercube(dimension={dimension})", 1 << min(dimension, 100))
    graph = nx.empty_graph(2**dimension)
    graph.add_edges_from((k, k ^ (1 << digit)) for k in graph for digit in range(dimension) if not k >> digit & 1)
    return graph
