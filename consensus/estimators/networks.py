"""The network of an estimator."""

import math
from collections.abc import Callable
from typing import Any

import networkx as nx

import topologies
from consensus import _arguments, _checks
from topologies.schedules import ScheduleLike


def _erdos_renyi(agents, seed):
    """Of twice the least density at which large graphs are connected."""
    return topologies.erdos_renyi(agents, min(1.0, 2 * math.log(agents) / agents), seed=seed)


NAMES: dict[str, Callable[[int, int], nx.Graph]] = {
    "erdos_renyi": _erdos_renyi,
    "ring": lambda agents, seed: topologies.ring(agents),
    "path": lambda agents, seed: topologies.path(agents),
    "star": lambda agents, seed: topologies.star(agents),
    "complete": lambda agents, seed: topologies.complete(agents),
}


def size(network: Any, agents: int) -> int:
    """How many agents there are: as many as are asked for, or as a graph or schedule has."""
    if isinstance(network, str):
        _checks.choice("network", network, NAMES)
        return agents
    return _arguments.schedule(network).agents


def schedule(network: Any, agents: int, seed: int) -> ScheduleLike:
    """The schedule of a name, a graph or a schedule itself."""
    return _arguments.schedule(NAMES[network](agents, seed) if isinstance(network, str) else network)
