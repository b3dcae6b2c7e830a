"""Every solver on every schedule and with every model: equal bits on all engines, or refused on all in the same words."""

import functools

import engine_cases
import frameworks
import numpy as np
import pairs
import pytest
from engine_cases import AGENTS, GRAPH
from engine_harness import columns
from every_schedule import DIRECTED, UNDIRECTED
from every_solver import SOLVERS

import consensus
import topologies
from consensus.engines import Processes
from consensus.testing.threads import Threads

RULES = [topologies.max_degree, topologies.laplacian, topologies.lazy(topologies.metropolis), topologies.fastest]
SCHEDULES = [make(GRAPH, 1) for make in UNDIRECTED.values()] + [topologies.Static(GRAPH, rule) for rule in RULES]
SCHEDULES += [make(GRAPH, 2, rule) for make in DIRECTED.values() for rule in (topologies.push, topologies.pull)]
SCHEDULES += [topologies.LinkFailure(SCHEDULES[0], 0.3, seed=2), topologies.LinkFailure(SCHEDULES[-6], 0.3, 2, symmetric=False)]
SCHEDULES += [topologies.AgentFailure(SCHEDULES[0], [(2, 1, 3), (5, 0, 4)]), topologies.OnePeerExponential(AGENTS)]
SQUARED = engine_cases.problem("squared", consensus.L2(0.02))
LINEAR, CONVEX = engine_cases.problem("squared", consensus.L2(0.02), consensus.Linear(4)), ("AccGT", "OPAPC", "gossip of OPAPC")


@functools.cache
def problems():
    """All losses on networks in both precisions, and models of PyTorch and JAX."""
    made = [pairs.problem(loss, "L2", (3,), dtype=dtype) for loss in pairs.LOSSES for dtype in (np.float32, np.float64)]
    X, y = np.random.default_rng(0).standard_normal((60, frameworks.WIDTHS[0])), np.arange(60) % frameworks.WIDTHS[-1]
    shards = consensus.partition(X, y, AGENTS, "sizes", sizes=engine_cases.SIZES["unequal"])
    models = frameworks.torch_mlp(), frameworks.jax_mlp()
    return made + [consensus.Problem(model, consensus.CrossEntropy(), shards, consensus.L2(0.02)) for model in models]


def outcome(problem, schedule, solver, engine):
    """All bits that a run gives, or how it was refused."""
    try:
        result = consensus.solve(problem, schedule, solver, rounds=3, engine=engine)
    except (TypeError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return [result.w.tobytes(), *(column.tobytes() for column in columns(result.history).values())]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOLVERS)
def test_engines_agree(name, forked):
    simple = LINEAR if name in CONVEX else SQUARED
    cases = [(simple, schedule) for schedule in SCHEDULES] + [(problem, topologies.Static(GRAPH)) for problem in problems()]
    ran = 0
    for number, (problem, schedule) in enumerate(cases):
        alone = outcome(problem, schedule, SOLVERS[name], "stacked")
        ours = isinstance(problem.model, consensus.MLP | consensus.Linear)  # copies of a process cannot use JAX
        others = [Threads(3), *([Processes(2)] if ours and (number + list(SOLVERS).index(name)) % 12 == 0 else [])]
        for engine in others:
            assert outcome(problem, schedule, SOLVERS[name], engine) == alone, (schedule, problem, engine)
        ran += isinstance(alone, list)
    assert ran or name in ("Push-DIGing", "attacked", "PowerGossip, tracking", "BEER, low rank")
