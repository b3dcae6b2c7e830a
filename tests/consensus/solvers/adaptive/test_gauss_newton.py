"""Curvature products and models of the local costs, against explicit Jacobians and differences."""

import numpy as np
import pytest

import consensus
from consensus.solvers.adaptive import gauss_newton
from consensus.solvers.adaptive.curvature import directions
from tests.helpers.problems import problem

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
