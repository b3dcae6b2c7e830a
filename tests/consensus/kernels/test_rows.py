"""The compiled sums of rows have the bits of NumPy and SciPy, for all kinds of arguments."""

import numpy as np
import pytest
import scipy.sparse as sp

from consensus import kernels
from tests.helpers.every_kernel import bits, compiled, every_dtype

pytestmark = compiled


@every_dtype
@np.errstate(invalid="ignore")  # infinities of both signs
def test_multiples_are_added_from_left_to_right(dtype):
    x, y, z = np.random.default_rng(0).standard_normal((3, 4, 67)).astype(dtype)
    x[0, :4], y[0, :4], z[0, :4] = [np.nan, np.inf, -0.0, 0.0], [1, np.inf, 0.0, -0.0], [2, 1, -0.0, 0.0]
    a, b, c = (np.array(factor, dtype) for factor in (0.3, -1.7, 2.9))
    cases = (kernels.combined, (a, b), a * x + b * y), (kernels.descended, (a, b, c), x - a * (b * y + c * z))
    for kernel, factors, expected in cases:
        arrays = (x, y, z)[: len(factors)]
        for turn in (lambda rows: rows, lambda rows: rows[:, ::-1], lambda rows: rows[::2, 3::5], lambda rows: rows[1]):
            assert bits(kernel(*map(turn, arrays), *factors)) == bits(turn(expected))
        for place in range(len(factors)):
            for function in (kernel, kernel.__wrapped__):
                rows = [array.copy() for array in arrays]
                assert function(*rows, *factors, out=rows[place]) is rows[place]
                assert bits(rows[place]) == bits(expected)


@every_dtype
@pytest.mark.parametrize("width", [1, 5, 20, 2500])
def test_rows_are_mixed_as_by_scipy(width, dtype):
    rng = np.random.default_rng(1)
    dense = rng.standard_normal((6, 9)) * (rng.random((6, 9)) < 0.5) * (np.arange(6) != 2)[:, None]  # one row has no entries
    matrix = sp.csr_array(dense.astype(dtype))
    x = rng.standard_normal((9, 2 * width)).astype(dtype)
    x[3, :1] = np.nan
    places = [part.astype(np.intp) for part in (matrix.indices, matrix.indptr)]
    for block in (x, x[:, width:], x[::-1, :width]):
        out = np.full((6, 2 * block.shape[1]), 7, dtype)
        kernels.mixed(block, matrix.data, *places, out=out[:, : block.shape[1]])
        assert bits(out[:, : block.shape[1]]) == bits(matrix @ block)
        assert (out[:, block.shape[1] :] == 7).all()


@every_dtype
def test_products_have_the_bits_of_numpy_whatever_the_layout(dtype):
    rng = np.random.default_rng(2)
    x, u = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 40, 67), (3, 40)))
    row, out = np.broadcast_to(x[:, :1], x.shape), np.full((3, 40, 90), 7, dtype)
    for turn in (lambda a: a, lambda a: a[:, ::-1, ::-1], lambda a: a[::2, 5:, 3::5], lambda a: a.swapaxes(1, 2)[:, :40]):
        factors = turn(u[:, :, None].repeat(67, 2))[:, :, 0]
        for given in (turn(x), turn(row)):
            assert bits(kernels.scaled_rows(factors, given)) == bits(factors[..., None] * given)
            assert bits(kernels.outer(factors, given[:, 1])) == bits(factors[..., None] * given[:, 1:2])
    kernels.scaled_rows(u, x, out=out[:, :, 3:70])
    assert bits(out[:, :, 3:70]) == bits(u[..., None] * x)
    assert (out[:, :, [*range(3), *range(70, 90)]] == 7).all()


@every_dtype
@np.errstate(all="raise")
def test_triangles_have_the_bits_of_numpy_whatever_is_below_them(dtype):
    x, y = np.random.default_rng(3).standard_normal((2, 3, 150, 150)).astype(dtype)
    huge = np.finfo(dtype).max
    for turn in (lambda a: a, lambda a: a[:, ::-1, ::-1], lambda a: a[::2, 10::2, 70:140], lambda a: a.swapaxes(1, 2)):
        below = np.broadcast_to(np.tri(turn(x).shape[1], k=-1, dtype=bool), turn(x).shape)
        outside = np.ones(x.shape, bool)
        turn(outside)[...] = False
        for kernel, function in ((kernels.upper_multiplied, np.multiply), (kernels.upper_added, np.add)):
            for chosen in (kernel, kernel.__wrapped__):
                factor, result = x.copy(), y.copy()
                turn(factor)[below] = turn(result)[below] = huge  # and huge times huge would raise
                place = turn(result)
                assert chosen(turn(factor), out=place) is place
                assert bits(place[~below]) == bits(function(turn(y), turn(x))[~below])
                assert bits(result[outside]) == bits(y[outside])
                assert chosen is kernel.__wrapped__ or (place[below] == huge).all()
