"""What the tests of AdaptiveNEXT's averages share: networks, data to mix, and the best combinations in dense arithmetic."""

from typing import NamedTuple

import networkx as nx
import numpy as np

import topologies

AGENTS = 6
CIRCLE = nx.DiGraph([(k, (k + 1) % AGENTS) for k in range(AGENTS)] + [(0, 3), (5, 2)])  # masses become unequal
PUSH = topologies.Static(CIRCLE, weights=topologies.push)
BASE = topologies.erdos_renyi(AGENTS, 0.5, seed=3)
OWN = {  # where every agent has a combination of its own
    "random": topologies.RandomEdges(BASE, 0.5, seed=1),
    "periodic": topologies.Periodic([topologies.ring(AGENTS), topologies.star(AGENTS)]),
    "directed": PUSH,
    "directed, failing": topologies.LinkFailure(PUSH, 0.3, seed=2, symmetric=False),
}
COMMON = {  # where agents get to know their graph
    "ring": topologies.Static(topologies.ring(8)),
    "random graph": topologies.Static(topologies.erdos_renyi(10, 0.4, seed=5)),
    "torus": topologies.Static(topologies.torus(3, 4)),
    "path": topologies.Static(topologies.path(7)),
}


class Rows(NamedTuple):
    """A block of numbers."""

    rows: np.ndarray


def rows(agents, seed=0, dtype=float):
    """Something to average, four columns, and something to sum, three."""
    rng = np.random.default_rng(seed)
    averaged, summed = 10 * rng.standard_normal((agents, 4)), rng.standard_normal((agents, 3))
    return Rows(averaged.astype(dtype)), Rows(summed.astype(dtype))


def mass_and_data(agents, seed=0, dtype=float):
    """Masses of one, and both blocks side by side."""
    averaged, summed = rows(agents, seed, dtype)
    return np.ones((agents, 1), dtype), np.concatenate([averaged.rows, summed.rows], axis=1)


def products(schedule, count, first=0):
    """C_k ... C_1 for k = 0 ... count, dense."""
    chain = [np.eye(schedule.agents)]
    for k in range(first, first + count):
        chain.append(schedule.weights(schedule.key(k)) @ chain[-1])
    return np.array(chain)


def own_fit(schedule, count, first=0):
    """Every agent's best combination of what it held: rows that should all be 1/A, and by how much they miss it."""
    A = schedule.agents
    chain = products(schedule, count, first)
    seen = chain / (chain @ np.ones(A))[:, :, None]  # an agent's row: how much of each agent's start is in its z_k
    combined = np.empty((A, A))
    for agent in range(A):
        steps = np.diff(seen[:, agent], axis=0).T
        b = np.linalg.lstsq(steps, 1 / A - seen[-1, agent], rcond=1e-9)[0]
        combined[agent] = seen[-1, agent] + steps @ b
    return combined, np.linalg.norm(combined - 1 / A, axis=1) / np.sqrt(1 - 1 / A)
