"""Networks, rows and liars, for tests of robust mixing."""

import numpy as np

import topologies
from consensus.engines import StackedNetwork
from consensus.robust import NNA, ClippedGossip, CSPlus

AGENTS, LIARS = 12, [1, 4, 7]
NETWORKS = {
    "metropolis": topologies.Static(topologies.erdos_renyi(AGENTS, 0.6, seed=1)),
    "equal weights": topologies.Static(topologies.erdos_renyi(AGENTS, 0.6, seed=1), weights=topologies.max_degree),
    "changing": topologies.RandomEdges(topologies.complete(AGENTS), 0.3, seed=1),
}
RULES = (CSPlus, NNA, ClippedGossip)


def rows(scale=1.0, seed=0):
    return scale * np.random.default_rng(seed).standard_normal((AGENTS, 5))


def mixed(solver, schedule, x, round=0):
    """``x`` after an exchange of the innermost solver."""
    network = StackedNetwork(schedule, x.dtype)
    while hasattr(solver, "around"):
        network, solver = solver.around(network), solver.solver
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # as in rounds
        return network.mix(round, x)[0]
