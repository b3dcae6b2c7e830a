"""Memory that rounds keep is nobody else's; rows are worked as NumPy and SciPy would work them, to the bit."""

import weakref

import numpy as np
import pytest
import scipy.sparse as sp

from consensus._arrays.rows import combined, empty, kept_memory, multiplication, rowwise, taken

SHAPE = (1000, 50)  # large enough to be kept
DTYPE = np.dtype(float)


def place(array):
    return array.__array_interface__["data"][0]


def test_memory_comes_back_when_no_view_of_it_is_left():
    with kept_memory():
        array = empty(SHAPE, DTYPE)
        array[...] = 1
        first, views = place(array), [array[3:5, 2:], array.reshape(-1), array.T[::2]]
        del array
        while views:
            other = empty(SHAPE, DTYPE)
            other[...] = 2
            assert place(other) != first
            assert all((view == 1).all() for view in views)
            views.pop()
        assert place(empty(SHAPE[::-1], DTYPE)) == first


def test_what_outlives_its_run_holds_no_memory_of_others():
    """As the iterates of a result do."""
    with kept_memory():
        arrays = [empty(SHAPE, DTYPE) for _ in range(3)]
        ends = [weakref.ref(array.base.base.obj) for array in arrays]
        del arrays[2]
        assert ends[2]() is not None  # for the next one
    assert [end() is None for end in ends] == [False, False, True]
    del arrays[1]
    assert [end() is None for end in ends] == [False, True, True]


def test_outside_of_runs_nothing_is_kept():
    with kept_memory():
        kept = empty(SHAPE, DTYPE)
        kept[...] = 3
    others = [empty(SHAPE, DTYPE) for _ in range(3)]
    assert all(other.flags.owndata for other in others)
    assert (kept == 3).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("agents", "width"), [(7, 40), (3000, 40), (7, 20000)])
def test_rows_are_those_of_numpy_and_scipy(agents, width, dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((agents, width)).astype(dtype) for _ in range(2))
    matrix = sp.csr_array(sp.random_array((agents, agents), density=5 / agents, rng=rng, dtype=dtype))
    step = np.float64(0.1)  # as a user's rule may give
    with kept_memory():
        for block in (x, x[:, :1], x[:, 0], x[::-1], np.asfortranarray(x)):
            assert multiplication(matrix)(block).tobytes() == (matrix @ block).tobytes()
        expected = (x - step * y).astype(dtype).tobytes()
        assert rowwise(lambda x, y: x - step * y, x, y).tobytes() == expected
        found, wanted = combined(3, x, -0.1, y), (3 * x - 0.1 * y).astype(dtype)
        assert (found.dtype, found.tobytes()) == (dtype, wanted.tobytes())
        for function, bits in (
            (lambda x, y: rowwise(lambda x, y: x - step * y, x, y, over=x), expected),
            (lambda x, y: combined(3, x, -0.1, y, over=x), wanted.tobytes()),
        ):
            own = x.copy()
            result = function(own, y)
            assert result is own or agents * width < 1 << 14  # small ones are new
            assert (result.dtype, result.tobytes()) == (dtype, bits)

    for count in (2, 40):
        places = rng.integers(0, width, (agents, count))
        for array in (x, x[:, ::-1]):
            np.testing.assert_array_equal(taken(array[:, :, None], places)[:, :, 0], np.take_along_axis(array, places, axis=1))
