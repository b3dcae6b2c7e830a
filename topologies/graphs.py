"""Undirected graphs by name and size: ``networkx.Graph`` objects with nodes 0, ..., agents - 1 in that order.

Random graphs are a function of their arguments and ``seed``. The first draw uses ``seed`` itself; with ``connected=True``,
draws that come out disconnected are repeated with seeds derived from it. A wrong argument raises ValueError with its name, its
value and what is allowed.
"""

import math

import networkx as nx
import numpy as np

from topologies import _checks
from topologies._checks import integer

DRAWS = 100


def _probability(value):
    return _checks.real("probability", value, "a number in [0, 1]", lambda number: 0 <= number <= 1)


def _draw(sample, seed, connected, call, remedy):
    """Return ``sample(seed)``; if `connected`, the first connected graph over a fixed sequence of seeds."""
    seed = integer("seed", seed, 0)
    if not _checks.flag("connected", connected):
        return sample(seed)
    for attempt in [seed, *np.random.SeedSequence(seed).generate_state(DRAWS - 1).tolist()]:
        graph = sample(attempt)
        if nx.is_connected(graph):
            return graph
    raise ValueError(f"{call} with seed={seed}: none of {DRAWS} draws is connected; {remedy}, or pass connected=False")


def ring(agents: int) -> nx.Graph:
    """Cycle: agent i is joined to i - 1 and i + 1 modulo `agents`. Two agents share one edge, one agent has none.

    Examples
    --------
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
    >>> sorted(hypercube(3)[5])
    [1, 4, 7]
    """
    dimension = integer("dimension", dimension, 0)
    _checks.room(f"hypercube(dimension={dimension})", 1 << min(dimension, 100))
    graph = nx.empty_graph(2**dimension)
    graph.add_edges_from((k, k ^ (1 << digit)) for k in graph for digit in range(dimension) if not k >> digit & 1)
    return graph


def erdos_renyi(agents: int, probability: float, seed: int = 0, connected: bool = True) -> nx.Graph:
    """Each of the agents (agents - 1) / 2 possible edges is there with `probability` in [0, 1], independently [1]_.

    Raises ValueError when 100 draws in a row are disconnected: pass a probability above log(agents) / agents, where
    most graphs are connected.

    References
    ----------
    .. [1] E. N. Gilbert, "Random graphs", Annals of Mathematical Statistics 30 (1959).

    Examples
    --------
    >>> graph = erdos_renyi(10, 0.25, seed=0)
    >>> nx.is_connected(graph), graph.number_of_nodes()
    (True, 10)
    """
    agents, probability = integer("agents", agents, 1), _probability(probability)
    _checks.room(
        f"erdos_renyi(agents={agents}, {probability})", agents + int(probability * 1e6) * agents**2 // (2 * 10**6), each=100
    )
    call = f"erdos_renyi(agents={agents}, probability={probability})"
    remedy = f"raise probability above log(agents) / agents = {math.log(agents) / agents:.2g}"
    return _draw(lambda seed: nx.fast_gnp_random_graph(agents, probability, seed), seed, connected, call, remedy)


def random_geometric(agents: int, radius: float, seed: int = 0, connected: bool = True) -> nx.Graph:
    """Agents at uniform points of the unit square, joined when at most `radius` > 0 apart [1]_.

    The points stay on the nodes as the attribute ``"pos"``. Raises ValueError when 100 draws in a row are
    disconnected: pass a radius above sqrt(log(agents) / (pi agents)).

    References
    ----------
    .. [1] P. Gupta and P. R. Kumar, "Critical power for asymptotic connectivity in wireless networks" (1999).

    Examples
    --------
    >>> graph = random_geometric(20, 0.4, seed=0)
    >>> len(graph.nodes[0]["pos"])
    2
    """
    agents = integer("agents", agents, 1)
    radius = _checks.real("radius", radius, "a finite number above 0", lambda number: 0 < number < math.inf)
    _checks.room(f"random_geometric(agents={agents}, {radius})", agents)
    call = f"random_geometric(agents={agents}, radius={radius})"
    enough = math.sqrt(math.log(agents) / (math.pi * agents))
    remedy = f"raise radius above sqrt(log(agents) / (pi agents)) = {enough:.2g}"
    return _draw(lambda seed: nx.random_geometric_graph(agents, radius, seed=seed), seed, connected, call, remedy)


def random_regular(agents: int, degree: int, seed: int = 0, connected: bool = True) -> nx.Graph:
    """Random graph in which every agent has `degree` neighbours [1]_; ``agents * degree`` must be even.

    Raises ValueError when 100 draws in a row are disconnected: a degree of 3 or more is almost always connected.

    References
    ----------
    .. [1] A. Steger and N. Wormald, "Generating random regular graphs quickly" (1999).

    Examples
    --------
    >>> set(dict(random_regular(10, 3, seed=0).degree).values())
    {3}
    """
    agents, degree = integer("agents", agents, 1), integer("degree", degree, 0)
    if degree >= agents or agents * degree % 2:
        raise ValueError(f"degree must be below agents, and agents * degree even; got degree={degree}, agents={agents}")

    _checks.room(f"random_regular(agents={agents}, {degree})", agents * (1 + degree // 2))

    def sample(seed):
        # networkx adds these nodes in the order of the random edges; start from all of them in order.
        graph = nx.empty_graph(agents)
        graph.add_edges_from(nx.random_regular_graph(degree, agents, seed=seed).edges)
        return graph

    call = f"random_regular(agents={agents}, degree={degree})"
    return _draw(sample, seed, connected, call, "raise degree to 3 or more")


def small_world(agents: int, neighbours: int, probability: float, seed: int = 0, connected: bool = True) -> nx.Graph:
    """Ring in which each agent knows its nearest `neighbours`, each edge rewired with `probability` [1]_.

    `neighbours`, half of them on each side, is even, at least 2 and below `agents`; `probability` lies in [0, 1].
    Raises ValueError when 100 draws in a row are disconnected: pass more neighbours.

    References
    ----------
    .. [1] D. J. Watts and S. H. Strogatz, "Collective dynamics of 'small-world' networks", Nature 393 (1998).

    Examples
    --------
    >>> small_world(12, 4, 0.2, seed=0).number_of_edges()
    24
    """
    agents, neighbours = integer("agents", agents, 1), integer("neighbours", neighbours, 2)
    if neighbours % 2 or neighbours >= agents:
        raise ValueError(f"neighbours must be even and below agents={agents}, got {neighbours}")
    probability = _probability(probability)
    _checks.room(f"small_world(agents={agents}, {neighbours}, {probability})", agents * neighbours // 2)

    def sample(seed):
        return nx.watts_strogatz_graph(agents, neighbours, probability, seed)

    call = f"small_world(agents={agents}, neighbours={neighbours}, probability={probability})"
    return _draw(sample, seed, connected, call, "raise neighbours")


def barabasi_albert(agents: int, edges: int, seed: int = 0) -> nx.Graph:
    """Preferential attachment [1]_: each new agent brings `edges` edges to well-connected ones; always connected.

    `edges` is at least 1 and below `agents`; the graph has ``edges * (agents - edges)`` edges.

    References
    ----------
    .. [1] A.-L. Barabasi and R. Albert, "Emergence of scaling in random networks", Science 286 (1999).

    Examples
    --------
    >>> barabasi_albert(10, 2, seed=0).number_of_edges()
    16
    """
    agents, edges, seed = integer("agents", agents, 2), integer("edges", edges, 1), integer("seed", seed, 0)
    if edges >= agents:
        raise ValueError(f"edges must be below agents={agents}, got {edges}")
    _checks.room(f"barabasi_albert(agents={agents}, {edges})", agents * edges, each=100)
    return nx.barabasi_albert_graph(agents, edges, seed=seed)
