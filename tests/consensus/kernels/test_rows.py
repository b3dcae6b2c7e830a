"""The compiled sums of rows have the bits of NumPy and SciPy, whatever is given."""

import numpy as np
import pytest
import scipy.sparse as sp

from consensus import kernels

pytestmark = pytest.mark.skipif(kernels.level() is None, reason="installed without a compiler, or CONSENSUS_FAST=0")
DTYPES = [np.float64, np.float32]


@pytest.mark.parametrize("dtype", DTYPES)
@np.errstate(invalid="ignore")  # infinities of both signs
def test_multiples_are_added_from_left_to_right(dtype):
    rng = np.random.default_rng(0)
    x, y, z = rng.standard_normal((3, 4, 67)).astype(dtype)
    x[0, :4], y[0, :4], z[0, :4] = [np.nan, np.inf, -0.0, 0.0], [1, np.inf, 0.0, -0.0], [2, 1, -0.0, 0.0]
    a, b, c = (np.array(factor, dtype) for factor in (0.3, -1.7, 2.9))
    two, down = a * x + b * y, x - a * (b * y + c * z)
    for turn in (lambda rows: rows, lambda rows: rows[:, ::-1], lambda rows: rows[::2, 3::5], lambda rows: rows[1]):
        given = [turn(rows) for rows in (x, y, z)]
        assert kernels.combined(*given[:2], a, b).tobytes() == turn(two).tobytes()
        assert kernels.descended(*given, a, b, c).tobytes() == turn(down).tobytes()
    whole = (kernels.combined, (a, b), two), (kernels.descended, (a, b, c), down)
    for kernel, factors, expected in whole:
        for place in range(len(factors)):
            for function in (kernel, kernel.__wrapped__):
                rows = [x.copy(), y.copy(), z.copy()][: len(factors)]
                assert function(*rows, *factors, out=rows[place]) is rows[place]
                assert rows[place].tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
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
        assert out[:, : block.shape[1]].tobytes() == (matrix @ block).tobytes()
        assert (out[:, block.shape[1] :] == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_have_the_bits_of_numpy_however_arrays_lie(dtype):
    rng = np.random.default_rng(2)
    x, u = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 40, 67), (3, 40)))
    row, out = np.broadcast_to(x[:, :1], x.shape), np.full((3, 40, 90), 7, dtype)
    for turn in (lambda a: a, lambda a: a[:, ::-1, ::-1], lambda a: a[::2, 5:, 3::5], lambda a: a.swapaxes(1, 2)[:, :40]):
        factors = turn(u[:, :, None].repeat(67, 2))[:, :, 0]
        for given in (turn(x), turn(row)):
            assert kernels.scaled_rows(factors, given).tobytes() == (factors[..., None] * given).tobytes()
            assert kernels.outer(factors, given[:, 1]).tobytes() == (factors[..., None] * given[:, 1:2]).tobytes()
    kernels.scaled_rows(u, x, out=out[:, :, 3:70])
    assert out[:, :, 3:70].tobytes() == (u[..., None] * x).tobytes()
    assert (out[:, :, [*range(3), *range(70, 90)]] == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
@np.errstate(all="raise")
def test_triangles_have_the_bits_of_numpy_whatever_is_below_them(dtype):
    x, y = np.random.default_rng(3).standard_normal((2, 3, 150, 150)).astype(dtype)
    huge = np.finfo(dtype).max
    for turn in (lambda a: a, lambda a: a[:, ::-1, ::-1], lambda a: a[::2, 10::2, 70:140], lambda a: a.swapaxes(1, 2)):
        below = np.broadcast_to(np.tri(turn(x).shape[1], k=-1, dtype=bool), turn(x).shape)
        taken = _taken(turn, x.shape)
        for kernel, function in ((kernels.upper_multiplied, np.multiply), (kernels.upper_added, np.add)):
            for chosen in (kernel, kernel.__wrapped__):
                factor, result = x.copy(), y.copy()
                turn(factor)[below] = turn(result)[below] = huge  # and huge times huge would raise
                place = turn(result)
                assert chosen(turn(factor), out=place) is place
                assert place[~below].tobytes() == function(turn(y), turn(x))[~below].tobytes()
                assert result[~taken].tobytes() == y[~taken].tobytes()
                assert chosen is kernel.__wrapped__ or (place[below] == huge).all()


def _taken(turn, shape):
    """Which numbers of an array are in its part."""
    taken = np.zeros(shape, bool)
    turn(taken)[...] = True
    return taken
