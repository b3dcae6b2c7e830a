"""Curvature products and models of the local costs, against explicit Jacobians and differences."""

import numpy as np
import pytest
from problems import problem

import consensus
from consensus.solvers.adaptive import gauss_newton
from consensus.solvers.adaptive.curvature import directions

LOSSES = ["squared", "logistic", "huber", "classes"]


def made(loss, kind="mlp", scheme="sizes"):
    outputs = 3 if loss == "classes" else 1
    models = {
        "linear": consensus.Linear(4, outputs=outputs),
        "mlp": consensus.MLP([4, 3, outputs]),
        "deep": consensus.MLP([4, 3, 2, outputs], activation="softplus"),
    }
    return problem(loss, consensus.L2(0.1), models[kind], scheme)


def stack(p, seed=0):
    return 0.7 * np.random.default_rng(seed).standard_normal((p.agents, p.parameters))


def explicit(p, w):
    """J_i' S_i J_i of every agent, sample by sample."""
    X, found = p.shards.features, []
    jacobians = p.model.jacobian(w, X).reshape(*X.shape[:2], p.model.outputs, p.parameters)
    S = p.loss.curvature(p.model.predict(w, X), p.shards.targets)
    if p.loss.separable:
        S = S[..., None] * np.eye(p.model.outputs)
    for agent in range(p.agents):
        samples = zip(p.weights[agent], S[agent], jacobians[agent], strict=True)
        found.append(sum(c * J.T @ s @ J for c, s, J in samples))
    return np.array(found)


@pytest.mark.parametrize("formed", [1 << 22, 0], ids=["formed", "unformed"])
@pytest.mark.parametrize("kind", ["linear", "mlp", "deep"])
@pytest.mark.parametrize("loss", LOSSES)
def test_products_are_those_of_the_explicit_jacobian(loss, kind, formed, monkeypatch):
    monkeypatch.setattr(gauss_newton, "_FORMED", formed)
    p = made(loss, kind)
    w, basis = stack(p), np.random.default_rng(1).standard_normal((p.parameters, 6))
    found = gauss_newton.products(p, w, basis)
    expected = explicit(p, w) @ basis
    assert np.abs(expected).max() > 1e-2
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_a_block_of_agents_has_the_same_bits(loss):
    p = made(loss)
    w, basis = stack(p), directions(p.parameters, 5, 3)
    whole = gauss_newton.products(p, w, basis)
    for rows in (slice(0, 2), slice(2, 5), slice(5, 6)):
        np.testing.assert_array_equal(gauss_newton.products(p.restrict(rows), w[rows], basis), whole[rows])


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_for_the_squared_loss_of_a_linear_model_they_are_differences_of_gradients(reduction):
    p = problem("squared", None, consensus.Linear(4), "sizes", reduction=reduction)
    w, basis = stack(p), directions(5, 3, 0)
    found = gauss_newton.products(p, w, basis)
    for k in range(3):  # the gradient is affine: a long step loses nothing to curvature, and little to rounding
        difference = (p.gradient(w + 10 * basis[:, k]) - p.gradient(w - 10 * basis[:, k])) / 20
        np.testing.assert_allclose(found[:, :, k], difference, rtol=0, atol=1e-14 * np.abs(difference).max() * 10)


def test_for_a_model_that_fits_its_data_they_are_differences_of_gradients():
    """Where residuals vanish the Hessian of the squared loss is its Gauss-Newton part."""
    p = made("squared")
    w = np.tile(stack(p)[:1], (p.agents, 1))
    p.shards.targets[:] = p.model.predict(w, p.shards.features)
    basis, h = directions(p.parameters, 4, 0), 1e-5
    found = gauss_newton.products(p, w, basis)
    for k in range(4):
        difference = (p.gradient(w + h * basis[:, k]) - p.gradient(w - h * basis[:, k])) / (2 * h)
        np.testing.assert_allclose(found[:, :, k], difference, rtol=0, atol=1e-9)


# The local models


@pytest.mark.parametrize("loss", LOSSES)
def test_errors_of_local_models_are_those_of_the_quadratic_around_w(loss):
    p = made(loss)
    w, d = stack(p), 0.3 * stack(p, seed=1)
    found = np.full(p.agents, np.nan)

    def test(rows, error, rounding):
        found[rows] = error(d[rows])
        assert (rounding <= 1e-13 * p.agents).all()

    gauss_newton.each_local_model(p, w, test)
    true = p.value(w + d) - p.value(w)
    modelled = np.vecdot(p.gradient(w), d) + np.einsum("ap,apq,aq->a", d, explicit(p, w), d) / 2
    expected = p.agents * np.abs(true - modelled)
    assert expected.max() > 1e-2
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_only_the_squared_loss_of_a_linear_model_is_its_own_model():
    exact = {(loss, kind) for loss in LOSSES for kind in ("linear", "mlp") if gauss_newton.exact(made(loss, kind))}
    assert exact == {("squared", "linear")}
