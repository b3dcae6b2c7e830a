"""How steps of AdaptiveNEXT are judged, and the curvature products and local models that they come from."""

import numpy as np
import pytest

import consensus
from consensus.solvers.adaptive import gauss_newton, judging
from consensus.solvers.adaptive.curvature import Curvature, directions
from consensus.solvers.adaptive.judging import Step, judge, limited
from tests.helpers.problems import AGENTS, problem

P = 5


def by_statement(r, last, w, slope, M, weight, settled, agent):
    """Return whether an agent's step is refused, its factor, and whether its change of the slope counts."""
    old, new, x, M = last.w[agent], w[agent], last.trial[agent], M[agent]
    s, c = new - old, new - x
    rise = 0.0 if r.quadratic else float(r.value(new) - r.value(old))
    actual = s @ (last.slope[agent] + slope[agent]) / 2 + rise
    promised = s @ last.slope[agent] + s @ (M + weight * np.eye(P)) @ s / 2 + rise
    agreed = c @ (M + last.tau[agent] * np.eye(P)) @ c <= last.fall[agent]
    ratio = actual / promised if promised < 0 else -1.0
    factor = 0.5 if ratio > 0.75 else 1.0
    if (agreed or settled[agent]) and ratio < 0.25:
        factor = 4.0 if ratio < 0 else 2.0
    refused = promised < 0 and actual > 0 and last.refused[agent] < 4
    change = slope[agent] - last.slope[agent] - weight * s
    counts = not refused and s @ change > max(0, 0.2 * s @ M @ s) and change @ change < np.trace(M) * (s @ change)
    return refused, agreed, factor, counts


@pytest.mark.parametrize("regularizer", [consensus.L2(0.3), consensus.L1(0.3), None], ids=["L2", "L1", "none"])
def test_verdicts_are_those_of_the_docstring(regularizer):
    """200 draws, with steps short and long, and agents near and far from each other."""
    p, rng, seen = problem("logistic", regularizer), np.random.default_rng(0), []
    weight = 0.3 if isinstance(regularizer, consensus.L2) else 0.0
    for _ in range(200):
        V = rng.standard_normal((AGENTS, P, 4)) / 2
        M = V @ V.swapaxes(1, 2)
        trace = np.trace(M, axis1=1, axis2=2)
        w, s, old = rng.standard_normal((3, AGENTS, P))
        s = rng.choice([0.1, 0.5], (AGENTS, 1)) * (s - old)
        near = w + s + rng.choice([0.01, 2.0], (AGENTS, 1)) * rng.standard_normal((AGENTS, P))
        tau, fall = rng.uniform(0.1, 1, (2, AGENTS))
        last = Step(w, old, near, fall, tau, rng.integers(0, 6, AGENTS).astype(float), np.ones(AGENTS))
        settled = rng.random(AGENTS) < 0.5
        slope = old + rng.uniform(-1, 3, (AGENTS, 1)) * np.einsum("apq,aq->ap", M, s) + 0.1 * rng.standard_normal((AGENTS, P))
        found = judge(p, last, w + s, slope, Curvature(V, trace, 0 * trace), trace, weight, settled)
        expected = [by_statement(p.regularizer, last, w + s, slope, M, weight, settled, agent) for agent in range(AGENTS)]
        assert list(zip(found.refused, found.agree, found.factor, found.counts, strict=True)) == expected
        seen += expected
        norm = np.linalg.norm(s, axis=1)[:, None]
        np.testing.assert_allclose(found.step[:, :, 0], s / norm, rtol=1e-12)
        np.testing.assert_allclose(found.change[:, :, 0], (slope - old - weight * s) / norm, rtol=1e-12, atol=1e-12)
    refused, agreed, factor, counts = map(np.array, zip(*seen, strict=True))
    for told in (refused, agreed, counts):
        assert 30 < told.sum() < len(seen) - 30
    assert set(factor.tolist()) == {0.5, 1.0, 2.0, 4.0}


def test_no_step_says_nothing():
    w, one = np.ones((1, 1)), np.ones(1)
    last = Step(w, w, w, one, one, 0 * one, one)
    found = judge(problem("squared"), last, w, w, Curvature(np.ones((1, 1, 1)), one, one), one, 0.0, one > 0)
    assert (found.refused, found.counts) == (False, False)
    assert np.isfinite([found.step, found.change]).all()


def test_tau_has_limits_in_units_of_the_curvature():
    found = limited(np.array([11.0, 1e-9, 2.0, 1.0]), np.array([10.0, 10.0, 10.0, 1e-3]))
    np.testing.assert_allclose(found, [10.0, 1e-6, 2.0, 1e-3], rtol=1e-12)
    assert judging.FIRST <= judging._MOST


# Curvature products and models of the local costs, against explicit Jacobians and differences.


LOSSES = ["squared", "logistic", "huber", "classes"]


def made(loss, kind="mlp"):
    outputs = 3 if loss == "classes" else 1
    models = {
        "linear": consensus.Linear(4, outputs=outputs),
        "mlp": consensus.MLP([4, 3, outputs]),
        "deep": consensus.MLP([4, 3, 2, outputs], activation="softplus"),
    }
    return problem(loss, consensus.L2(0.1), models[kind], "sizes")


def stack(p, seed=0):
    return 0.7 * np.random.default_rng(seed).standard_normal((p.agents, p.parameters))


def explicit(p, w):
    """Return J_i' S_i J_i of every agent."""
    X = p.shards.features
    J = p.model.jacobian(w, X).reshape(*X.shape[:2], p.model.outputs, p.parameters)
    S = p.loss.curvature(p.model.predict(w, X), p.shards.targets)
    S = S[..., None] * np.eye(p.model.outputs) if p.loss.separable else S
    return np.einsum("an,anop,anol,anlq->apq", p.weights, J, S, J, optimize=True)


@pytest.mark.parametrize("formed", [1 << 22, 0], ids=["formed", "unformed"])
@pytest.mark.parametrize("kind", ["linear", "mlp", "deep"])
@pytest.mark.parametrize("loss", LOSSES)
def test_products_are_those_of_the_explicit_jacobian_whatever_the_block(loss, kind, formed, monkeypatch):
    monkeypatch.setattr(gauss_newton, "_FORMED", formed)
    p = made(loss, kind)
    w, basis = stack(p), directions(p.parameters, min(6, p.parameters), 3)
    found, expected = gauss_newton.products(p, w, basis), explicit(p, w) @ basis
    assert np.abs(expected).max() > 1e-2
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
    for rows in (slice(0, 2), slice(2, 5), slice(5, 6)):
        np.testing.assert_array_equal(gauss_newton.products(p.restrict(rows), w[rows], basis), found[rows])


@pytest.mark.parametrize("loss", LOSSES)
def test_errors_of_local_models_are_those_of_the_quadratic_around_w(loss):
    p = made(loss)
    w, d = stack(p), 0.3 * stack(p, seed=1)
    found = np.full(p.agents, np.nan)

    def test(rows, error, rounding):
        found[rows] = error(d[rows])
        assert (rounding <= 1e-13 * p.agents).all()

    gauss_newton.each_local_model(p, w, test)
    modelled = np.vecdot(p.gradient(w), d) + np.einsum("ap,apq,aq->a", d, explicit(p, w), d) / 2
    expected = p.agents * np.abs(p.value(w + d) - p.value(w) - modelled)
    assert expected.max() > 1e-2
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_only_the_squared_loss_of_a_linear_model_is_its_own_model():
    exact = {(loss, kind) for loss in LOSSES for kind in ("linear", "mlp") if gauss_newton.exact(made(loss, kind))}
    assert exact == {("squared", "linear")}
