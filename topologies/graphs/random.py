"""Graphs that are drawn: functions of their arguments and ``seed``.

The first draw uses ``seed`` itself; with ``connected=True``, draws that come out disconnected are repeated with seeds derived
from it.
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


def erdos_renyi(agents: int, probability: float, seed: int = 0, connected: bool = True) -> nx.Graph:
    """Each of the agents (agents - 1) / 2 possible edges is there with `probability` in [0, 1], independently [1]_.

    Raises ValueError when 100 draws in a row are disconnected: pass a probability above log(agents) / agents, where
    most graphs are connected.

    References
    ----------
    .. [1] E. N. Gilbert, "Random graphs", Annals of Mathematical Statistics 30 (1959).

    Examples
    --------
    >>> import networkx as nx
    >>> from topologies import erdos_renyi
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
    >>> from topologies import random_geometric
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
    >>> from topologies import random_regular
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
    >>> from topologies import small_world
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
    >>> from topologies import barabasi_albert
    >>> barabasi_albert(10, 2, seed=0).number_of_edges()
    16
    """
    agents, edges, seed = integer("agents", agents, 2), integer("edges", edges, 1), integer("seed", seed, 0)
    if edges >= agents:
        raise ValueError(f"edges must be below agents={agents}, got {edges}")
    _checks.room(f"barabasi_albert(agents={agents}, {edges})", agents * edges, each=100)
    return nx.barabasi_albert_graph(agents, edges, seed=seed)
