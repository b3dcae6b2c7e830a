"""Curvature products against explicit Jacobians and differences of gradients; the factor against the Nystrom formula."""

import numpy as np
import pytest
from problems import problem

import consensus
from consensus.solvers.adaptive import curvature

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
    monkeypatch.setattr(curvature, "_FORMED", formed)
    p = made(loss, kind)
    w, basis = stack(p), np.random.default_rng(1).standard_normal((p.parameters, 6))
    found = curvature.gauss_newton_products(p, w, basis)
    expected = explicit(p, w) @ basis
    assert np.abs(expected).max() > 1e-2
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_a_block_of_agents_has_the_same_bits(loss):
    p = made(loss)
    w, basis = stack(p), curvature.directions(p.parameters, 5, 3, p.dtype)
    whole = curvature.gauss_newton_products(p, w, basis)
    for rows in (slice(0, 2), slice(2, 5), slice(5, 6)):
        np.testing.assert_array_equal(curvature.gauss_newton_products(p.restrict(rows), w[rows], basis), whole[rows])


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_for_the_squared_loss_of_a_linear_model_they_are_differences_of_gradients(reduction):
    p = problem("squared", None, consensus.Linear(4), "sizes", reduction=reduction)
    w, basis = stack(p), curvature.directions(5, 3, 0, p.dtype)
    found = curvature.gauss_newton_products(p, w, basis)
    for k in range(3):  # the gradient is affine: a long step loses nothing to curvature, and little to rounding
        difference = (p.gradient(w + 10 * basis[:, k]) - p.gradient(w - 10 * basis[:, k])) / 20
        np.testing.assert_allclose(found[:, :, k], difference, rtol=0, atol=1e-14 * np.abs(difference).max() * 10)


def test_for_a_model_that_fits_its_data_they_are_differences_of_gradients():
    """Where residuals vanish the Hessian of the squared loss is its Gauss-Newton part."""
    p = made("squared")
    w = np.tile(stack(p)[:1], (p.agents, 1))
    p.shards.targets[:] = p.model.predict(w, p.shards.features)
    basis, h = curvature.directions(p.parameters, 4, 0, p.dtype), 1e-5
    found = curvature.gauss_newton_products(p, w, basis)
    for k in range(4):
        difference = (p.gradient(w + h * basis[:, k]) - p.gradient(w - h * basis[:, k])) / (2 * h)
        np.testing.assert_allclose(found[:, :, k], difference, rtol=0, atol=1e-9)


def test_directions_are_orthonormal_and_drawn_from_their_seed():
    basis = curvature.directions(30, 7, 4, np.dtype(float))
    np.testing.assert_allclose(basis.T @ basis, np.eye(7), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(curvature.directions(30, 7, 4, np.dtype(float)), basis)
    assert np.abs(basis.T @ curvature.directions(30, 7, 5, np.dtype(float))).max() < 0.9
    assert curvature.directions(30, 7, 4, np.dtype(np.float32)).dtype == np.float32


# The factor ---------------------------------------------------------------------------------------------------------


def semidefinite(size, rank, agents=3, seed=0):
    """H (agents, size, size) of the given rank, its eigenvalues between 1 and 10."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((agents, size, rank)))[0]
    return (Q * np.linspace(1, 10, rank)) @ Q.swapaxes(1, 2)


def nystrom(H, basis):
    """By the pseudoinverse."""
    image = H @ basis
    return image @ np.linalg.pinv(basis.swapaxes(-1, -2) @ image, rcond=1e-9, hermitian=True) @ image.swapaxes(1, 2)


def shift(H, basis):
    """How much the factor may be below the formula."""
    return 1e-7 * np.trace(basis.swapaxes(-1, -2) @ H @ basis, axis1=-2, axis2=-1).max()


@pytest.mark.parametrize("size", [1, 4, 9])
def test_the_factor_is_exact_where_directions_span_everything(size):
    H, basis = semidefinite(size, size), curvature.directions(size, size, 0, np.dtype(float))
    V = curvature.factor(basis, H @ basis)
    np.testing.assert_allclose(V @ V.swapaxes(1, 2), H, rtol=0, atol=1.001 * shift(H, basis))


@pytest.mark.parametrize(("size", "rank", "count"), [(12, 12, 4), (12, 8, 5), (12, 3, 5), (40, 5, 5), (7, 7, 1)])
def test_the_factor_is_nystroms_below_the_curvature_and_near_the_formula(size, rank, count):
    H, basis = semidefinite(size, rank), curvature.directions(size, count, 1, np.dtype(float))
    V = curvature.factor(basis, H @ basis)
    found, expected = V @ V.swapaxes(1, 2), nystrom(H, basis)
    assert V.shape == (3, size, count)
    assert np.linalg.eigvalsh(H - found).min() > -1e-7
    core = np.linalg.eigvalsh(basis.T @ H @ basis)
    least = core[core > 1e-9].min()
    np.testing.assert_allclose(found, expected, rtol=0, atol=10 * shift(H, basis) / least)
    if rank <= count:  # nothing of H is left out
        np.testing.assert_allclose(found, H, rtol=0, atol=10 * shift(H, basis) / least)


def test_directions_of_each_agents_own():
    H = semidefinite(6, 6)
    basis = np.random.default_rng(3).standard_normal((3, 6, 2))  # secant steps are not orthonormal
    V = curvature.factor(basis, H @ basis)
    np.testing.assert_allclose(V @ V.swapaxes(1, 2), nystrom(H, basis), rtol=0, atol=1e-5)
    np.testing.assert_allclose(V @ (V.swapaxes(1, 2) @ basis), H @ basis, rtol=0, atol=1e-5)  # the secant condition
    alone = [curvature.factor(basis[k : k + 1], (H @ basis)[k : k + 1])[0] for k in range(3)]
    np.testing.assert_array_equal(V, alone)


def test_directions_without_products_add_nothing():
    H, basis = semidefinite(6, 6), curvature.directions(6, 4, 0, np.dtype(float)).copy()
    basis[:, 2:] = 0
    V = curvature.factor(basis, H @ basis)
    np.testing.assert_allclose(V @ V.swapaxes(1, 2), nystrom(H, basis[:, :2]), rtol=0, atol=1e-5)
    assert not curvature.factor(basis, np.zeros((3, 6, 4))).any()


def test_an_indefinite_estimate_gives_a_factor_all_the_same():
    """Of its positive part along the directions, so that local problems stay convex."""
    rng = np.random.default_rng(5)
    H = semidefinite(6, 6)[:1]
    H -= 4 * np.outer(*2 * [rng.standard_normal(6)])
    assert np.linalg.eigvalsh(H).min() < -1
    basis = np.eye(6)
    V = curvature.factor(basis, H @ basis)
    values, vectors = np.linalg.eigh(H[0])
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(V[0] @ V[0].T, positive, rtol=0, atol=1e-5)


def test_scale_does_not_matter():
    H, basis = semidefinite(9, 9), curvature.directions(9, 4, 0, np.dtype(float))
    V = curvature.factor(basis, H @ basis)
    for scale in (2.0**-40, 2.0**40):
        np.testing.assert_allclose(curvature.factor(basis, scale * H @ basis), np.sqrt(scale) * V, rtol=1e-12, atol=0)
