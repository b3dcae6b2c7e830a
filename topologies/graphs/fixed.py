"""Deterministic graphs."""

import networkx as nx

from topologies import _checks
from topologies._checks import integer


def _agents(name: str, agents: int) -> int:
    agents = integer("agents", agents, 1)
    _checks.memory(f"{name}(agents={agents})", agents)
    return agents


def ring(agents: int) -> nx.Graph:
    """Return a cycle: agent i is adjacent to i - 1 and i + 1 modulo `agents`.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.

    Returns
    -------
    networkx.Graph
        Cycle; two agents share one edge, one agent has none.

    Examples
    --------
    >>> from topologies import ring
    >>> ring(4).edges
    EdgeView([(0, 1), (0, 3), (1, 2), (2, 3)])
    """
    agents = _agents("ring", agents)
    # A cycle of one or two nodes would have a self-loop or a parallel edge.
    return nx.cycle_graph(agents) if agents > 2 else nx.path_graph(agents)


def path(agents: int) -> nx.Graph:
    """Return a path: agent i is adjacent to i + 1.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.

    Returns
    -------
    networkx.Graph
        Path with `agents` - 1 edges.

    Examples
    --------
    >>> from topologies import path
    >>> path(3).edges
    EdgeView([(0, 1), (1, 2)])
    """
    return nx.path_graph(_agents("path", agents))


def star(agents: int) -> nx.Graph:
    """Return a star: agent 0 is adjacent to all others.

    Parameters
    ----------
    agents : int
        Number of agents, the centre included, at least 1.

    Returns
    -------
    networkx.Graph
        Star with `agents` - 1 edges.

    Examples
    --------
    >>> from topologies import star
    >>> star(4).edges
    EdgeView([(0, 1), (0, 2), (0, 3)])
    """
    return nx.star_graph(_agents("star", agents) - 1)


def complete(agents: int) -> nx.Graph:
    """Return a complete graph: all pairs of agents are adjacent.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.

    Returns
    -------
    networkx.Graph
        Complete graph.

    Examples
    --------
    >>> from topologies import complete
    >>> complete(5).number_of_edges()
    10
    """
    agents = integer("agents", agents, 1)
    _checks.memory(f"complete(agents={agents})", agents**2 // 2, each=100)
    return nx.complete_graph(agents)


def grid(rows: int, columns: int) -> nx.Graph:
    """Return a rectangular lattice; the agent in row r and column c is ``r * columns + c``.

    Parameters
    ----------
    rows, columns : int
        Sides of the lattice, at least 1.

    Returns
    -------
    networkx.Graph
        Lattice; agents inside it have four neighbours.

    Examples
    --------
    >>> from topologies import grid
    >>> sorted(grid(2, 3)[4])
    [1, 3, 5]
    """
    return _lattice("grid", rows, columns, periodic=False)


def torus(rows: int, columns: int) -> nx.Graph:
    """Return a lattice that wraps around in both directions; the agent in row r and column c is ``r * columns + c``.

    Parameters
    ----------
    rows, columns : int
        Sides of the lattice, at least 1.

    Returns
    -------
    networkx.Graph
        Torus; all agents have four neighbours if both sides are at least 3. Sides of 1 and 2 add no self-loop and
        no parallel edge.

    Examples
    --------
    >>> from topologies import torus
    >>> sorted(torus(3, 4)[0])
    [1, 3, 4, 8]
    """
    return _lattice("torus", rows, columns, periodic=True)


def _lattice(name: str, rows: int, columns: int, periodic: bool) -> nx.Graph:
    rows, columns = integer("rows", rows, 1), integer("columns", columns, 1)
    _checks.memory(f"{name}(rows={rows}, columns={columns})", rows * columns)
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns, periodic))


def hypercube(dimension: int) -> nx.Graph:
    """Return a binary cube: two agents are adjacent if their numbers differ in one binary digit.

    Parameters
    ----------
    dimension : int
        Number of binary digits, at least 0.

    Returns
    -------
    networkx.Graph
        Hypercube of ``2**dimension`` agents.

    Examples
    --------
    >>> from topologies import hypercube
    >>> sorted(hypercube(3)[5])
    [1, 4, 7]
    """
    dimension = integer("dimension", dimension, 0)
    _checks.memory(f"hypercube(dimension={dimension})", 1 << min(dimension, 100))
    graph = nx.empty_graph(2**dimension)
    graph.add_edges_from((k, k ^ (1 << digit)) for k in graph for digit in range(dimension) if not k >> digit & 1)
    return graph
