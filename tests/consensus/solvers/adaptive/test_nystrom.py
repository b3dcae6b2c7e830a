"""The factor of a curvature, against the Nystrom formula."""

import numpy as np
import pytest

from consensus.solvers.adaptive.nystrom import factor
from consensus.solvers.adaptive.sketch import directions


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
    H, basis = semidefinite(size, size), directions(size, size, 0, np.dtype(float))
    V = factor(basis, H @ basis)
    np.testing.assert_allclose(V @ V.swapaxes(1, 2), H, rtol=0, atol=1.001 * shift(H, basis))


@pytest.mark.parametrize(("size", "rank", "count"), [(12, 12, 4), (12, 8, 5), (12, 3, 5), (40, 5, 5), (7, 7, 1)])
def test_the_factor_is_nystroms_below_the_curvature_and_near_the_formula(size, rank, count):
    H, basis = semidefinite(size, rank), directions(size, count, 1, np.dtype(float))
    V = factor(basis, H @ basis)
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
    V = factor(basis, H @ basis)
    np.testing.assert_allclose(V @ V.swapaxes(1, 2), nystrom(H, basis), rtol=0, atol=1e-5)
    np.testing.assert_allclose(V @ (V.swapaxes(1, 2) @ basis), H @ basis, rtol=0, atol=1e-5)  # the secant condition
    alone = [factor(basis[k : k + 1], (H @ basis)[k : k + 1])[0] for k in range(3)]
    np.testing.assert_array_equal(V, alone)


def test_directions_without_products_add_nothing():
    H, basis = semidefinite(6, 6), directions(6, 4, 0, np.dtype(float)).copy()
    basis[:, 2:] = 0
    V = factor(basis, H @ basis)
    np.testing.assert_allclose(V @ V.swapaxes(1, 2), nystrom(H, basis[:, :2]), rtol=0, atol=1e-5)
    assert not factor(basis, np.zeros((3, 6, 4))).any()


def test_an_indefinite_estimate_gives_a_factor_all_the_same():
    """Of its positive part along the directions, so that local problems stay convex."""
    rng = np.random.default_rng(5)
    H = semidefinite(6, 6)[:1]
    H -= 4 * np.outer(*2 * [rng.standard_normal(6)])
    assert np.linalg.eigvalsh(H).min() < -1
    basis = np.eye(6)
    V = factor(basis, H @ basis)
    values, vectors = np.linalg.eigh(H[0])
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(V[0] @ V[0].T, positive, rtol=0, atol=1e-5)


def test_scale_does_not_matter():
    H, basis = semidefinite(9, 9), directions(9, 4, 0, np.dtype(float))
    V = factor(basis, H @ basis)
    for scale in (2.0**-40, 2.0**40):
        np.testing.assert_allclose(factor(basis, scale * H @ basis), np.sqrt(scale) * V, rtol=1e-12, atol=0)


@pytest.mark.parametrize("size", [5, 12])
def test_factors_have_the_same_bits_beside_others_that_are_not_definite(size):
    """Which then go their own way; that must not change how anybody's numbers lie in memory, as BLAS rounds by that."""
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((4, size, 20))
    curvature = semidefinite(size, size, agents=4)
    curvature[2] *= -1
    products = curvature @ basis
    together = factor(basis, products)
    for agent in range(4):
        assert together[agent].tobytes() == factor(basis[agent : agent + 1], products[agent : agent + 1]).tobytes()
