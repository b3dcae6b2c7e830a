"""Random graphs, functions of their arguments and a seed, and graphs of points; errors of disconnected ones name a remedy."""

from __future__ import annotations

import math
from collections.abc import Callable

import networkx as nx
import numpy as np

from topologies import _checks
from topologies._checks import integer
from topologies.positions import Points, close, points, positive, tolerant

DRAWS = 100


def _probability(value: float) -> float:
    return _checks.real("probability", value, "a number in [0, 1]", lambda number: 0 <= number <= 1)


def _draw(sample: Callable[[int], nx.Graph], seed: int, connected: bool, call: str, remedy: str) -> nx.Graph:
    """Return ``sample(seed)`` or, with `connected`, the first connected graph over a fixed sequence of seeds."""
    seed = integer("seed", seed, 0)
    if not _checks.flag("connected", connected):
        return sample(seed)
    for attempt in [seed, *np.random.SeedSequence(seed).generate_state(DRAWS - 1).tolist()]:
        graph = sample(attempt)
        if nx.is_connected(graph):
            return graph
    raise ValueError(f"{call} with seed={seed}: none of {DRAWS} draws is connected; {remedy}, or pass connected=False")


def erdos_renyi(agents: int, probability: float, seed: int = 0, connected: bool = True) -> nx.Graph:
    """Return an Erdos-Renyi graph: each possible edge is present with the same probability, independently [1]_.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.
    probability : float
        Probability of each edge, in [0, 1].
    seed, connected : int, bool
        Seed of the first draw, and whether to draw until the graph is connected, at most 100 times.

    Returns
    -------
    networkx.Graph
        Random graph.

    References
    ----------
    .. [1] E. N. Gilbert, "Random graphs" (1959).

    Examples
    --------
    >>> from topologies import erdos_renyi
    >>> erdos_renyi(10, 0.25, seed=0).number_of_nodes()
    10
    """
    agents, probability = integer("agents", agents, 1), _probability(probability)
    call = f"erdos_renyi(agents={agents}, probability={probability})"
    _checks.memory(call, agents + int(probability * 1e6) * agents**2 // (2 * 10**6), each=100)
    remedy = f"raise probability above log(agents) / agents = {math.log(agents) / agents:.2g}"
    return _draw(lambda seed: nx.fast_gnp_random_graph(agents, probability, seed), seed, connected, call, remedy)


def random_geometric(agents: int, radius: float, seed: int = 0, connected: bool = True) -> nx.Graph:
    """Return a random geometric graph: agents at uniform points of the unit square are adjacent if they are close [1]_.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.
    radius : float
        Largest distance between adjacent agents, above 0.
    seed, connected : int, bool
        Seed of the first draw, and whether to draw until the graph is connected, at most 100 times.

    Returns
    -------
    networkx.Graph
        Random graph with the points as node attribute ``"pos"``.

    References
    ----------
    .. [1] P. Gupta and P. R. Kumar, "Critical power for asymptotic connectivity in wireless networks" (1999).

    Examples
    --------
    >>> from topologies import random_geometric
    >>> len(random_geometric(20, 0.4, seed=0).nodes[0]["pos"])
    2
    """
    agents = integer("agents", agents, 1)
    radius = positive("radius", radius)
    call = f"random_geometric(agents={agents}, radius={radius})"
    _checks.memory(call, agents)
    remedy = f"raise radius above sqrt(log(agents) / (pi agents)) = {math.sqrt(math.log(agents) / (math.pi * agents)):.2g}"
    return _draw(lambda seed: nx.random_geometric_graph(agents, radius, seed=seed), seed, connected, call, remedy)


def geometric(positions: Points, radius: float) -> nx.Graph:
    """Return the geometric graph of given positions: agents are adjacent if they are close.

    Parameters
    ----------
    positions : array_like of shape (agents, 2), dictionary or pandas DataFrame
        Position of each agent, also with one or three coordinates. A dictionary has the names of agents as keys, a DataFrame
        has them as index and the columns x and y.
    radius : float
        Largest distance of adjacent agents, above 0, in the unit of positions; rounding errors do not count.

    Returns
    -------
    networkx.Graph
        Graph with the positions as node attribute ``"pos"``; it need not be connected.

    Raises
    ------
    ValueError
        If a position is masked, not finite or in degrees.

    Examples
    --------
    >>> from topologies import geometric
    >>> geometric({"ann": (0, 0), "bob": (0.3, 0.4), "cy": (3, 0)}, radius=0.5).edges
    EdgeView([('ann', 'bob')])
    """
    names, found = points(positions)
    radius = tolerant(positive("radius", radius), found)
    named = range(len(found)) if names is None else names
    graph = nx.Graph()
    graph.add_nodes_from((name, {"pos": tuple(place)}) for name, place in zip(named, found.tolist(), strict=True))
    graph.add_edges_from((named[i], named[j]) for i, j in sorted(map(sorted, close(found, radius).tolist())))
    return graph


def random_regular(agents: int, degree: int, seed: int = 0, connected: bool = True) -> nx.Graph:
    """Return a random regular graph: all agents have the same number of neighbours [1]_.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.
    degree : int
        Number of neighbours, below `agents`; ``agents * degree`` must be even.
    seed, connected : int, bool
        Seed of the first draw, and whether to draw until the graph is connected, at most 100 times.

    Returns
    -------
    networkx.Graph
        Random graph; with a degree of 3 or more it is almost always connected.

    References
    ----------
    .. [1] A. Steger and N. Wormald, "Generating random regular graphs quickly" (1999).

    Examples
    --------
    >>> from topologies import random_regular
    >>> set(dict(random_regular(10, 3, seed=0).degree).values())
    {3}
    """
    agents, degree = integer("agents", agents, 1), integer("degree", degree, 0)
    if degree >= agents or agents * degree % 2:
        raise ValueError(f"degree must be below agents, and agents * degree even; got degree={degree}, agents={agents}")
    call = f"random_regular(agents={agents}, degree={degree})"
    _checks.memory(call, agents * (1 + degree // 2))

    def sample(seed: int) -> nx.Graph:
        # networkx adds nodes in the order of the random edges: compose with all nodes in ascending order.
        return nx.compose(nx.empty_graph(agents), nx.random_regular_graph(degree, agents, seed=seed))

    return _draw(sample, seed, connected, call, "raise degree to 3 or more")


def small_world(agents: int, neighbours: int, probability: float, seed: int = 0, connected: bool = True) -> nx.Graph:
    """Return a Watts-Strogatz graph: a ring lattice in which edges are rewired at random [1]_.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.
    neighbours : int
        Number of neighbours in the lattice, half of them on each side: even, at least 2 and below `agents`.
    probability : float
        Probability that an edge is rewired, in [0, 1].
    seed, connected : int, bool
        Seed of the first draw, and whether to draw until the graph is connected, at most 100 times.

    Returns
    -------
    networkx.Graph
        Random graph.

    References
    ----------
    .. [1] D. J. Watts and S. H. Strogatz, "Collective dynamics of 'small-world' networks", Nature 393 (1998).

    Examples
    --------
    >>> from topologies import small_world
    >>> small_world(12, 4, 0.2, seed=0).number_of_edges()
    24
    """
    agents, neighbours = integer("agents", agents, 1), integer("neighbours", neighbours, 2)
    if neighbours % 2 or neighbours >= agents:
        raise ValueError(f"neighbours must be even and below agents={agents}, got {neighbours}")
    probability = _probability(probability)
    call = f"small_world(agents={agents}, neighbours={neighbours}, probability={probability})"
    _checks.memory(call, agents * neighbours // 2)
    return _draw(
        lambda seed: nx.watts_strogatz_graph(agents, neighbours, probability, seed), seed, connected, call, "raise neighbours"
    )


def barabasi_albert(agents: int, edges: int, seed: int = 0) -> nx.Graph:
    """Return a Barabasi-Albert graph, which grows by preferential attachment and is connected [1]_.

    Parameters
    ----------
    agents : int
        Number of agents, at least 2.
    edges : int
        Number of edges that each new agent adds, at least 1 and below `agents`.
    seed : int
        Seed, at least 0.

    Returns
    -------
    networkx.Graph
        Random graph with ``edges * (agents - edges)`` edges.

    References
    ----------
    .. [1] A.-L. Barabasi and R. Albert, "Emergence of scaling in random networks", Science (1999).

    Examples
    --------
    >>> from topologies import barabasi_albert
    >>> barabasi_albert(10, 2, seed=0).number_of_edges()
    16
    """
    agents, edges, seed = integer("agents", agents, 2), integer("edges", edges, 1), integer("seed", seed, 0)
    if edges >= agents:
        raise ValueError(f"edges must be below agents={agents}, got {edges}")
    _checks.memory(f"barabasi_albert(agents={agents}, {edges})", agents * edges, each=100)
    return nx.barabasi_albert_graph(agents, edges, seed=seed)
