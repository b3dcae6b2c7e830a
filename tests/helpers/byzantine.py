"""Networks, rows and Byzantine agents, for tests of robust mixing."""

import numpy as np

import topologies
from consensus.engines import StackedNetwork
from consensus.robust import NNA, ClippedGossip, CSPlus

AGENTS, BYZANTINE = 12, [1, 4, 7]
NETWORKS = {
    "metropolis": topologies.Static(topologies.erdos_renyi(AGENTS, 0.6, seed=1)),
    "equal weights": topologies.Static(topologies.erdos_renyi(AGENTS, 0.6, seed=1), weights=topologies.max_degree),
    "changing": topologies.RandomEdges(topologies.complete(AGENTS), 0.3, seed=1),
}
RULES = (CSPlus, NNA, ClippedGossip)


def aggregated(rule, row, x, b, own=0):
    """What the papers' definitions make of rows ``x`` with weights ``row``, of which ``x[own]`` is the agent's."""
    d = np.array([np.linalg.norm(x[own] - other) for other in x])
    near = np.argsort(d, kind="stable")
    total = row[near].cumsum()
    if rule is NNA:  # what is left of the weights when b is taken from the farthest
        left = np.minimum(row[near], np.maximum(0, 1 - b - (total - row[near])))
        return left @ x[near] / left.sum()
    within = near[total <= 1 - (2 if rule is CSPlus else 1) * b + 1e-9]
    if rule is CSPlus:
        level = max((d[j] for j in within), default=0.0)
    else:
        level = np.sqrt(sum(row[j] * d[j] ** 2 for j in within) / b)
    shares = [w * (1 if e <= level else level / e) for w, e in zip(row, d)]
    return x[own] + sum(share * (other - x[own]) for share, other in zip(shares, x))


def rows(scale=1.0, seed=0):
    return scale * np.random.default_rng(seed).standard_normal((AGENTS, 5))


def mixed(solver, schedule, x, round=0):
    """``x`` after an exchange of the innermost solver."""
    network = StackedNetwork(schedule, x.dtype)
    while hasattr(solver, "around"):
        network, solver = solver.around(network), solver.solver
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # as in rounds
        return network.mix(round, x)[0]
