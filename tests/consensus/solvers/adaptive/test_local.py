"""The local problem: its minimiser, and tau while the local cost contradicts its model."""

import numpy as np
import pytest

import consensus
from consensus.solvers.adaptive import gauss_newton
from consensus.solvers.adaptive.curvature import Curvature
from consensus.solvers.adaptive.local import solve
from tests.helpers.problems import AGENTS, problem

RNG = np.random.default_rng(0)
ROOT = RNG.standard_normal((AGENTS, 5, 2))
M = Curvature(ROOT, np.square(ROOT).sum(axis=(1, 2)), np.zeros(AGENTS))
DENSE = ROOT @ ROOT.swapaxes(1, 2)
W, SLOPE = RNG.standard_normal((2, AGENTS, 5))
TAU, WHOLE = np.linspace(0.5, 1.0, AGENTS), np.ones(AGENTS)
both = pytest.mark.parametrize("regularizer", [consensus.L2(0.3), consensus.L1(0.3)], ids=str)


def weight(regularizer):
    return 0.3 if regularizer.quadratic else 0.0


@pytest.fixture
def errors(monkeypatch):
    """Replace the errors of local models by numbers (agents,), or a function of the rows and their steps; in two chunks."""

    def replace(error, rounding=0.0):
        found = error if callable(error) else lambda rows, d: np.broadcast_to(error, AGENTS)[rows]

        def each_local_model(problem, w, test):
            for rows in (slice(0, 2), slice(2, AGENTS)):
                test(rows, lambda d, rows=rows: found(rows, d), np.broadcast_to(rounding, AGENTS)[rows])

        monkeypatch.setattr(gauss_newton, "each_local_model", each_local_model)

    return replace


@both
def test_it_is_the_minimiser_for_the_tau_used(regularizer, errors):
    doubts = np.array([0, 1, 2, 3, 0, 9])

    def error(rows, d):
        assert d.shape == (rows.stop - rows.start, 5)
        large = doubts[rows] > 0
        doubts[rows] -= 1
        return np.where(large, 1e9, 0.0)

    errors(error)
    p = problem("logistic", regularizer)
    d, tau, tries = solve(p, W, SLOPE, M, TAU, weight(regularizer), WHOLE)
    doubled = np.array([0, 1, 2, 2, 0, 2])
    assert tries.tolist() == (1 + doubled).tolist()
    np.testing.assert_array_equal(tau, TAU * 2.0**doubled)
    at, damped = W + d, (tau + weight(regularizer))[:, None] * d
    residual = SLOPE + np.einsum("apq,aq->ap", DENSE, d) + damped
    if regularizer.quadratic:
        np.testing.assert_allclose(residual, 0, rtol=0, atol=1e-12)
    else:  # zero is in the subdifferential of the sum
        np.testing.assert_allclose(residual[at != 0], -0.3 * np.sign(at[at != 0]), rtol=0, atol=1e-8)
        assert (np.abs(residual[at == 0]) <= 0.3 + 1e-8).all()
    assert p.work.solves == 1
    assert p.work.iterations == AGENTS + doubled.sum()


@pytest.mark.parametrize("length", [WHOLE, 0.5 * WHOLE, np.linspace(0.1, 1, AGENTS)], ids=["whole", "half", "own"])
@both
def test_an_error_is_too_large_from_a_quarter_of_the_promised_decrease(regularizer, length, errors):
    def solved():
        return solve(problem("logistic", regularizer), W, SLOPE, M, TAU, weight(regularizer), length)

    errors(0.0)
    d = length[:, None] * solved()[0]
    promised = -(SLOPE * d).sum(axis=1) - np.einsum("ap,apq,aq->a", d, DENSE, d) / 2
    if regularizer.quadratic:
        promised -= 0.15 * np.square(d).sum(axis=1)  # r's slope is in G
    else:
        promised -= regularizer.value(W + d) - regularizer.value(W)
    assert (promised > 0).all()
    for part, rounding, doubted in ((0.2499, 0.0, False), (0.2501, 0.0, True), (0.3, 0.06, False)):
        errors(part * promised, rounding * promised)
        assert ((solved()[2] > 1) == doubted).all()


def test_an_error_that_is_no_number_is_too_large(errors):
    errors(np.nan)
    assert (solve(problem("logistic"), W, SLOPE, M, TAU, 0.0, WHOLE)[2] == 3).all()


@pytest.mark.parametrize("kind", ["linear squares", "functions"])
def test_costs_without_an_error_are_not_doubted(kind, errors):
    errors(np.inf)
    p = problem("squared")
    if kind == "functions":
        p = consensus.Problem.from_functions(p.value, p.gradient, agents=AGENTS, parameters=5)
    _, tau, tries = solve(p, W, SLOPE, M, TAU, 0.0, WHOLE)
    assert (tries == 1).all()
    np.testing.assert_array_equal(tau, TAU)
