"""Products and factors in place, against NumPy and SciPy."""

import numpy as np
import pytest
import scipy.linalg

from consensus.kernels import blas as _blas


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("n", "k"), [(1, 3), (64, 1), (65, 1), (128, 2), (129, 4), (300, 7), (150, 0)])
def test_squares_are_products_with_the_transpose(n, k, transposed, dtype):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2, k, n)).swapaxes(1, 2) if transposed else rng.standard_normal((2, n, k))
    rows, tolerance = rows.astype(dtype), 10 * np.finfo(dtype).eps
    product = np.triu(rows.astype(float) @ rows.astype(float).swapaxes(1, 2))
    np.testing.assert_allclose(np.triu(_blas.squares(rows)), product, rtol=tolerance, atol=tolerance)
    total = np.ones_like(product, dtype)
    assert _blas.squares(rows, out=total) is total
    np.testing.assert_allclose(np.triu(total), np.triu(product + 1), rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 5, 150])
def test_a_factor_needs_the_upper_triangle_only(n, dtype):
    rng = np.random.default_rng(0)
    rows, right = rng.standard_normal((n, n)), rng.standard_normal(n).astype(dtype)
    matrix = (rows @ rows.T + np.eye(n)).astype(dtype)
    factor, solution = np.where(np.triu(np.ones((n, n))), matrix, np.nan).astype(dtype), right.copy()
    assert _blas.cholesky(factor)
    upper = np.triu(factor.astype(float))
    scale = n * np.finfo(dtype).eps * np.linalg.norm(matrix)
    np.testing.assert_allclose(upper.T @ upper, matrix, rtol=0, atol=scale)
    _blas.solve(factor, solution)
    expected = scipy.linalg.solve_triangular(upper, scipy.linalg.solve_triangular(upper, right, trans="T"))
    np.testing.assert_allclose(solution, expected, rtol=0, atol=np.linalg.cond(matrix) * n * np.finfo(dtype).eps)


def test_a_matrix_that_is_not_definite_has_no_factor():
    assert not _blas.cholesky(np.diag([1.0, -1.0, 1.0]))


def test_an_empty_matrix_is_its_own_factor(capfd):
    assert _blas.cholesky(np.empty((0, 0)))
    _blas.solve(np.empty((0, 0)), np.empty(0))
    assert capfd.readouterr() == ("", "")
