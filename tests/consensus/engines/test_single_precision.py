"""Runs in float32 stay in float32, in all that solvers keep: a NumPy double turns an array into float64 in silence."""

import dataclasses
import itertools

import engine_cases
import networkx as nx
import numpy as np
import pytest
from engine_harness import assert_same
from every_solver import SOLVERS

import consensus
import topologies
from consensus import solvers
from consensus.engines import Processes
from consensus.local import newton
from consensus.local.subproblem import Subproblem
from consensus.surrogates import PartialLinearization

AGENTS, SIZES = engine_cases.AGENTS, engine_cases.SIZES["unequal"]
LOSSES = {
    "squared": consensus.SquaredLoss(),
    "logistic": consensus.LogisticLoss(),
    "cross-entropy": consensus.CrossEntropy(),
    "Huber": consensus.Huber(0.5),
}
REGULARIZERS = {
    "L2": consensus.L2(0.02),
    "L1": consensus.L1(0.01),
    "elastic net": consensus.ElasticNet(0.01, 0.02),
    "groups": consensus.GroupL1(0.01, [[0, 1], [2, 3]]),
    "box": consensus.Box(-1, 1),
    "nonnegative": consensus.NonNegative(),
    "ball": consensus.L2Ball(2.0),
    "logarithms": consensus.LogSum(0.01, 1.0),
    "SCAD": consensus.SCAD(0.01),
}
PAIRS = list(itertools.product(LOSSES, REGULARIZERS))
DIRECTED = nx.DiGraph([(k, (k + 1) % AGENTS) for k in range(AGENTS)] + [(0, 3), (5, 2), (6, 1)])
NETWORKS = {"Push-DIGing": topologies.Static(DIRECTED, weights=topologies.push), "liars": topologies.complete(AGENTS)}
# In double by design: what AdaptiveNEXT judges its steps and averages by, and all that is made of exact sums over a tree.
DOUBLE = {"state.local", "state.pace.apart"} | {f"state.step.{name}" for name in ("fall", "tau", "refused", "tries")}
DOUBLE |= {f"state.{name}" for name in ("sent", "total", "gradient", "direction", "pairs.steps", "pairs.changes")}
DOUBLE |= {f"state.plan.{name}" for name in ("steps", "step_units", "units")}
DOUBLE |= {f"state.known.{name}" for name in ("total", "scalars", "promised", "directions", "products", "noise")}


def problem(loss, regularizer, hidden=(), scale=1):
    rng = np.random.default_rng(0)
    X = (scale * rng.standard_normal((sum(SIZES), 4))).astype(np.float32)
    y = X @ [1.0, -2.0, 0.5, 3.0] / scale + 0.1 * rng.standard_normal(len(X))
    targets = {"logistic": y > 0.2, "cross-entropy": np.digitize(y, [-2, 2])}.get(loss, y)
    shards = consensus.partition(X, targets.astype(float), AGENTS, "sizes", sizes=SIZES)
    outputs = 3 if loss == "cross-entropy" else 1
    model = consensus.MLP([4, *hidden, outputs]) if hidden else consensus.Linear(4, outputs)
    return consensus.Problem(model, LOSSES[loss], shards, REGULARIZERS[regularizer])


def arrays(value, name="state"):
    """The arrays of a state, by where they are in it."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from arrays(getattr(value, field.name), f"{name}.{field.name}")
    elif hasattr(value, "_fields"):
        for field in value._fields:
            yield from arrays(getattr(value, field), f"{name}.{field}")
    elif isinstance(value, tuple | list):
        for number, part in enumerate(value):
            yield from arrays(part, f"{name}[{number}]")


def test_every_solver_is_tried():
    exported = {name for name in solvers.__all__ if isinstance(getattr(solvers, name), type)}
    wanted = {name for name in exported if issubclass(getattr(solvers, name), solvers.Solver)} - {"Solver"}
    assert wanted == {type(solver).__name__ for solver in SOLVERS.values()} & wanted


@pytest.mark.parametrize("name", SOLVERS)
def test_states_stay_in_single_precision(name, monkeypatch):
    """Every solver on some of the losses and regularizers that it takes; all pairs have their turn."""
    solver, found, ran = SOLVERS[name], {}, 0
    step = type(solver).step

    def watched(self, problem, network, state):
        state = step(self, problem, network, state)
        found.update((where, array.dtype) for where, array in arrays(state) if array.dtype.kind == "f")
        return state

    monkeypatch.setattr(type(solver), "step", watched)
    place = list(SOLVERS).index(name)
    network = NETWORKS.get(name, engine_cases.NETWORKS["static"])
    turn = [*PAIRS[place % 5 :: 5], ("logistic", "L2"), ("Huber", "L2"), ("squared", "L1")]
    for number, (loss, regularizer) in enumerate(turn):
        p = problem(loss, regularizer, hidden=(3,) * (number % 2))
        try:
            result = consensus.solve(p, network, solver, rounds=3)
        except (TypeError, ValueError):  # a solver that needs another cost, regularizer or network
            continue
        ran += 1
        assert result.w.dtype == np.float32
    assert ran
    assert found
    doubled = DOUBLE if solver.needs.tree or name == "adaptive" else set()
    assert {where: dtype for where, dtype in found.items() if dtype != np.float32 and where not in doubled} == {}


@pytest.mark.filterwarnings("ignore::consensus.errors.UnfinishedWarning")
@pytest.mark.parametrize(("loss", "regularizer"), PAIRS)
def test_local_solves_stay_in_single_precision_where_steps_are_searched(loss, regularizer, monkeypatch):
    """With so small a tau Newton's whole step is too long for some agents: a search along it begins."""
    p, searched, seen = problem(loss, regularizer, (3,), scale=2), [], set()
    least = newton._least

    def watched(method):
        def call(sub, x, *arrays):
            result = method(sub, x, *arrays)
            seen.add((sub.w.dtype, *(array.dtype for array in (x, *arrays, result))))
            return result

        return call

    for name in ("value", "terms", "gradient"):
        monkeypatch.setattr(Subproblem, name, watched(getattr(Subproblem, name)))
    monkeypatch.setattr(newton, "_least", lambda *arguments: searched.append(1) or least(*arguments))
    w = np.random.default_rng(1).standard_normal((AGENTS, p.parameters)).astype(np.float32)
    gradient = p.gradient(w)
    consensus.local.Exact().solve(PartialLinearization(0.1).at(p, w, gradient), 6 * gradient, p.regularizer)
    assert searched or loss == "squared" or regularizer in ("ball", "box", "nonnegative")
    assert [dtypes for dtypes in seen if len(set(dtypes)) > 1] == []


@pytest.mark.filterwarnings("ignore::consensus.errors.UnfinishedWarning")
@pytest.mark.parametrize(("loss", "hidden"), [("logistic", ()), ("logistic", (3,)), ("Huber", (3,)), ("cross-entropy", (3,))])
def test_engines_agree_where_some_agents_search_along_a_step(loss, hidden, forked):
    solver = solvers.NEXT(PartialLinearization(1e-3), 0.5)
    case = engine_cases.Case(problem(loss, "L2", hidden, 8), engine_cases.NETWORKS["random"], solver, engine_cases.OBSERVED)
    assert_same(case.run(engine=Processes(3)), case.run())
