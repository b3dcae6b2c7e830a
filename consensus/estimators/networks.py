"""The network of an estimator."""

import math
from collections.abc import Callable

import networkx as nx

import topologies
from consensus import _arguments, _checks
from topologies.schedules import ScheduleLike


def _erdos_renyi(agents: int, seed: int) -> nx.Graph:
    """Return a random graph of twice the least density at which large graphs are connected."""
    return topologies.erdos_renyi(agents, min(1.0, 2 * math.log(agents) / agents), seed=seed)


NAMES: dict[str, Callable[[int, int], nx.Graph]] = {
    "erdos_renyi": _erdos_renyi,
    "ring": lambda agents, seed: topologies.ring(agents),
    "path": lambda agents, seed: topologies.path(agents),
    "star": lambda agents, seed: topologies.star(agents),
    "complete": lambda agents, seed: topologies.complete(agents),
}


def size(network: str | nx.Graph | ScheduleLike, agents: int) -> int:
    """Return the number of agents: ``agents`` for a name, otherwise that of the graph or schedule."""
    if isinstance(network, str):
        _checks.choice("network", network, NAMES)
        return agents
    return _arguments.schedule(network).agents


def schedule(network: str | nx.Graph | ScheduleLike, agents: int, seed: int) -> ScheduleLike:
    """Return the schedule of a name, a graph or a schedule."""
    return _arguments.schedule(NAMES[network](agents, seed) if isinstance(network, str) else network)
