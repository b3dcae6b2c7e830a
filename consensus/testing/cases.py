"""The problems and networks that a solver is checked on, where none are given."""

from __future__ import annotations

import networkx as nx
import numpy as np

import consensus
import topologies
from consensus.problems import BaseProblem
from consensus.solvers import Solver
from consensus.solvers.needs import needs_of
from topologies.schedules import ScheduleLike

AGENTS, FEATURES = 7, 4


def default_problem(solver: Solver, seed: int = 0, agents: int = AGENTS) -> BaseProblem:
    """Least squares on unequal shards."""
    rng, sizes = np.random.default_rng(seed), np.resize([4, 14, 9, 8, 6, 12, 7], agents)
    X = rng.standard_normal((sizes.sum(), FEATURES))
    y = X @ rng.standard_normal(FEATURES) + 0.3 * rng.standard_normal(len(X))
    shards = consensus.partition(X, y, agents, "sizes", sizes=sizes.tolist())
    regularizer = None if needs_of(solver).regularizer == "none" else consensus.L2(0.1)
    return consensus.Problem(consensus.Linear(FEATURES), consensus.SquaredLoss(), shards, regularizer)


def default_network(solver: Solver, agents: int = AGENTS) -> ScheduleLike:
    """Return a static network with weights of the kind that the solver needs."""
    directed = {"column stochastic": topologies.push, "row stochastic": topologies.pull}.get(needs_of(solver).mixing)
    return (
        topologies.Static(directed_graph(agents), weights=directed)
        if directed
        else topologies.Static(topologies.erdos_renyi(agents, 0.5, seed=3))
    )


def directed_graph(agents: int) -> nx.DiGraph:
    """Return a strongly connected directed graph with unequal degrees."""
    circle = [(k, (k + 1) % agents) for k in range(agents)]
    return nx.DiGraph([*circle, (0, agents // 2), (agents - 2, 2 % (agents - 2))])
