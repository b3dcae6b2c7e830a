"""Runs in float32 stay in float32, in local solves, too: a NumPy double turns an array into float64 in silence."""

import numpy as np
import pytest

import consensus
from consensus import solvers
from consensus.engines import Processes
from consensus.local import newton
from consensus.local.subproblem import Subproblem
from consensus.surrogates import PartialLinearization
from tests.helpers import engine_cases
from tests.helpers.engine_harness import assert_same
from tests.helpers.pairs import AGENTS, PAIRS, problem


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
@pytest.mark.parametrize(
    ("loss", "hidden"),
    [
        ("logistic", ()),
        *(pytest.param(loss, (3,), marks=pytest.mark.slow) for loss in ("Huber", "logistic", "cross-entropy")),
    ],
)
def test_engines_agree_where_some_agents_search_along_a_step(loss, hidden, forked):
    solver = solvers.NEXT(PartialLinearization(1e-3), 0.5)
    case = engine_cases.Case(problem(loss, "L2", hidden, 8), engine_cases.NETWORKS["random"], solver, engine_cases.OBSERVED)
    assert_same(case.run(engine=Processes(3)), case.run())
