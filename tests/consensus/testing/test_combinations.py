"""Solvers on every schedule and with every model: equal bits on all engines, or refused on all in the same words."""

import functools

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.testing.threads import Threads
from tests.helpers import frameworks, pairs
from tests.helpers.combinations import SCHEDULES, outcome, simple
from tests.helpers.engine_cases import AGENTS, GRAPH, SIZES
from tests.helpers.every_solver import SOLVERS


@functools.cache
def problems():
    """All losses on networks in both precisions, and models of PyTorch and JAX."""
    made = [pairs.problem(loss, "L2", (3,), dtype=dtype) for loss in pairs.LOSSES for dtype in (np.float32, np.float64)]
    X, y = np.random.default_rng(0).standard_normal((60, frameworks.WIDTHS[0])), np.arange(60) % frameworks.WIDTHS[-1]
    shards = consensus.partition(X, y, AGENTS, "sizes", sizes=SIZES["unequal"])
    models = frameworks.torch_mlp(), frameworks.jax_mlp()
    return made + [consensus.Problem(model, consensus.CrossEntropy(), shards, consensus.L2(0.02)) for model in models]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOLVERS)
def test_engines_agree(name, forked):
    """A third of the schedules and of the models with each solver."""
    ran, turn = 0, slice(list(SOLVERS).index(name) % 3, None, 3)
    cases = [(simple(name), schedule) for schedule in SCHEDULES[turn]]
    cases += [(problem, topologies.Static(GRAPH)) for problem in problems()[turn]]
    for number, (problem, schedule) in enumerate(cases):
        alone = outcome(problem, schedule, SOLVERS[name], "stacked")
        ours = isinstance(problem.model, consensus.MLP | consensus.Linear)  # copies of a process cannot use JAX
        others = [Threads(3), *([Processes(2)] if ours and (number + list(SOLVERS).index(name) // 3) % 4 == 0 else [])]
        for engine in others:
            assert outcome(problem, schedule, SOLVERS[name], engine) == alone, (schedule, problem, engine)
        ran += isinstance(alone, list)
    assert ran or name in ("Push-DIGing", "attacked", "PowerGossip, tracking", "BEER, low rank")
