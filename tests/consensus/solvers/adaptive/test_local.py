"""The local problem: its minimiser, and tau while the local cost does not bear the model out."""

import numpy as np
import pytest
from problems import AGENTS, problem

import consensus
from consensus.solvers.adaptive import gauss_newton
from consensus.solvers.adaptive.curvature import Curvature
from consensus.solvers.adaptive.local import solve

RNG = np.random.default_rng(0)
ROOT = RNG.standard_normal((AGENTS, 5, 2))
M = Curvature(ROOT, np.square(ROOT).sum(axis=(1, 2)), np.zeros(len(ROOT)))
DENSE = ROOT @ ROOT.swapaxes(1, 2)
W, SLOPE = RNG.standard_normal((2, AGENTS, 5))
TAU, WHOLE = np.linspace(0.5, 1.0, AGENTS), np.ones(AGENTS)


def doubts(times):
    """Errors of the local models: as many as an agent is given are far too large; two chunks of agents."""
    left = np.array(times)

    def each_local_model(problem, w, test):
        for rows in (slice(0, 2), slice(2, AGENTS)):

            def error(d, rows=rows):
                assert d.shape == (rows.stop - rows.start, 5)
                large = left[rows] > 0
                left[rows] -= 1
                return np.where(large, 1e9, 0.0)

            test(rows, error, np.zeros(rows.stop - rows.start))

    return each_local_model


def constant(error, rounding=0.0):
    """The same errors at every trial."""
    return lambda problem, w, test: test(slice(0, AGENTS), lambda d: error, rounding)


@pytest.mark.parametrize("regularizer", [consensus.L2(0.3), consensus.L1(0.3)], ids=str)
def test_it_is_the_minimiser_for_the_tau_used(regularizer, monkeypatch):
    monkeypatch.setattr(gauss_newton, "each_local_model", doubts([0, 1, 2, 3, 0, 9]))
    p, weight = problem("logistic", regularizer), 0.3 if regularizer.quadratic else 0.0
    d, tau, tries = solve(p, W, SLOPE, M, TAU, weight, WHOLE)
    doubled = np.array([0, 1, 2, 2, 0, 2])
    assert tries.tolist() == (1 + doubled).tolist()
    np.testing.assert_array_equal(tau, TAU * 2.0**doubled)
    for agent in range(AGENTS):
        H = DENSE[agent] + (tau[agent] + weight) * np.eye(5)
        residual = SLOPE[agent] + H @ d[agent]
        if regularizer.quadratic:
            np.testing.assert_allclose(residual, 0, rtol=0, atol=1e-12)
        else:  # zero is in the subdifferential of the sum
            at = W[agent] + d[agent]
            np.testing.assert_allclose(residual[at != 0], -0.3 * np.sign(at[at != 0]), rtol=0, atol=1e-8)
            assert (np.abs(residual[at == 0]) <= 0.3 + 1e-8).all()
    assert p.work.solves == 1
    assert p.work.iterations == AGENTS + doubled.sum()


@pytest.mark.parametrize("length", [WHOLE, 0.5 * WHOLE, np.linspace(0.1, 1, AGENTS)], ids=["whole", "half", "own"])
@pytest.mark.parametrize("regularizer", [consensus.L2(0.3), consensus.L1(0.3)], ids=str)
def test_an_error_is_too_large_from_a_quarter_of_the_promised_decrease(regularizer, length, monkeypatch):
    p, weight = problem("logistic", regularizer), 0.3 if regularizer.quadratic else 0.0
    monkeypatch.setattr(gauss_newton, "each_local_model", constant(np.zeros(AGENTS)))
    d = length[:, None] * solve(p, W, SLOPE, M, TAU, weight, length)[0]
    promised = -(SLOPE * d).sum(axis=1) - np.einsum("ap,apq,aq->a", d, DENSE, d) / 2
    if regularizer.quadratic:
        promised -= 0.15 * np.square(d).sum(axis=1)  # r's slope is in G
    else:
        promised -= regularizer.value(W + d) - regularizer.value(W)
    assert (promised > 0).all()
    for part, rounding, tries in ((0.2499, 0.0, 1), (0.2501, 0.0, 2), (0.3, 0.06, 1)):
        monkeypatch.setattr(gauss_newton, "each_local_model", constant(part * promised, rounding * promised))
        assert (solve(p, W, SLOPE, M, TAU, weight, length)[2] >= tries).all()
        assert tries > 1 or (solve(p, W, SLOPE, M, TAU, weight, length)[2] == 1).all()


def test_an_error_that_is_no_number_is_too_large(monkeypatch):
    monkeypatch.setattr(gauss_newton, "each_local_model", constant(np.full(AGENTS, np.nan)))
    assert (solve(problem("logistic"), W, SLOPE, M, TAU, 0.0, WHOLE)[2] == 3).all()


@pytest.mark.parametrize("kind", ["linear squares", "functions"])
def test_what_has_no_error_is_not_doubted(kind, monkeypatch):
    monkeypatch.setattr(gauss_newton, "each_local_model", constant(np.full(AGENTS, np.inf)))
    p = problem("squared")
    if kind == "functions":
        p = consensus.Problem.from_functions(p.value, p.gradient, agents=AGENTS, parameters=5)
    _, tau, tries = solve(p, W, SLOPE, M, TAU, 0.0, WHOLE)
    assert (tries == 1).all()
    np.testing.assert_array_equal(tau, TAU)


def test_far_from_its_model_a_local_cost_shortens_the_step():
    """The logistic loss, with much too little curvature known of it: the step to the model's minimum is absurd."""
    p = problem("logistic", consensus.L2(0.01))
    w = np.zeros((AGENTS, 5))
    slope = AGENTS * p.gradient(w)
    none = Curvature(1e-3 * np.tile(np.eye(5), (AGENTS, 1, 1)), WHOLE, WHOLE)
    d, tau, tries = solve(p, w, slope, none, 1e-3 * WHOLE, 0.01, WHOLE)
    assert (tries == 3).all()
    np.testing.assert_allclose(tau, 4e-3, rtol=1e-14)
    assert (np.vecdot(slope, d) < 0).all()
