"""A solver's states, round by round, without an engine."""

import numpy as np

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork

AGENTS = 6
GRAPH = topologies.erdos_renyi(AGENTS, 0.5, seed=3)
SCHEDULES = {
    "static": topologies.Static(GRAPH),
    "random": topologies.RandomEdges(GRAPH, 0.5, seed=1),
    "periodic": topologies.Periodic([topologies.ring(AGENTS), topologies.star(AGENTS)]),
}
MLP = consensus.MLP([4, 5, 1])


def states(solver, problem, schedule, rounds, seed=0):
    """All states of a run, the start included."""
    w = np.random.default_rng(seed).standard_normal((problem.agents, problem.parameters)) * 0.3
    network = StackedNetwork(schedule, problem.dtype)
    state = solver.init(problem, w)
    yield state
    for _ in range(rounds):
        state = solver.step(problem, network, state)
        yield state
