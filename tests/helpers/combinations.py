"""Every solver on every schedule, and what comes of it."""

import consensus
import topologies
from tests.helpers import engine_cases
from tests.helpers.engine_cases import AGENTS, GRAPH
from tests.helpers.engine_harness import columns
from tests.helpers.every_schedule import DIRECTED, UNDIRECTED

RULES = [topologies.max_degree, topologies.laplacian, topologies.lazy(topologies.metropolis), topologies.fastest]
SCHEDULES = [make(GRAPH, 1) for make in UNDIRECTED.values()] + [topologies.Static(GRAPH, rule) for rule in RULES]
SCHEDULES += [make(GRAPH, 2, rule) for make in DIRECTED.values() for rule in (topologies.push, topologies.pull)]
SCHEDULES += [topologies.LinkFailure(SCHEDULES[0], 0.3, seed=2), topologies.LinkFailure(SCHEDULES[-6], 0.3, 2, symmetric=False)]
SCHEDULES += [topologies.AgentFailure(SCHEDULES[0], [(2, 1, 3), (5, 0, 4)]), topologies.OnePeerExponential(AGENTS)]
SQUARED = engine_cases.problem("squared", consensus.L2(0.02))
LINEAR, CONVEX = engine_cases.problem("squared", consensus.L2(0.02), consensus.Linear(4)), ("AccGT", "OPAPC", "gossip of OPAPC")


def simple(name):
    """A problem for the solver of this ``name``."""
    return LINEAR if name in CONVEX else SQUARED


def outcome(problem, schedule, solver, engine):
    """All bits that a run gives, or how it was refused."""
    try:
        result = consensus.solve(problem, schedule, solver, rounds=3, engine=engine)
    except (TypeError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return [result.w.tobytes(), *(column.tobytes() for column in columns(result.history).values())]
