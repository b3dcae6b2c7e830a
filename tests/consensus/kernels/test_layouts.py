"""Kernels on arrays of every layout and of wrong sizes, between pages that nobody may touch: what strays ends the process."""

import ctypes
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers.every_kernel import KERNELS, arguments, bits, compiled, every_dtype

PAGE = mmap.PAGESIZE


def guarded(size, at_end):
    """Writable bytes, the last or the first ones before a page that cannot be read or written."""
    room = -(-size // PAGE) * PAGE
    memory = np.frombuffer(mmap.mmap(-1, room + 2 * PAGE), np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for page in (0, room + PAGE):
        assert protect(ctypes.c_void_p(memory.ctypes.data + page), ctypes.c_size_t(PAGE), 0) == 0
    begin = PAGE + (room - size if at_end else 0)
    return memory[begin : begin + size]


def placed(array, steps, at_end, shift=0):
    """A copy of ``array`` with the given strides, in numbers; nothing of its memory lies beyond its outermost numbers."""
    reach = [(length - 1) * step for length, step in zip(array.shape, steps, strict=True)]
    low, high = (sum(part for part in reach if (part > 0) == up) for up in (False, True))
    size = array.dtype.itemsize
    memory = guarded((high - low + 1) * size + shift, at_end)
    memory[:] = 7
    copy = np.ndarray(array.shape, array.dtype, memory[shift * (not at_end) :], -low * size, [step * size for step in steps])
    copy[...] = array
    return copy


def steps(shape, order, factor=1):
    """Strides in numbers: rows (C) or columns (F) one after the other, times a factor."""
    axes = range(len(shape))[:: -1 if order == "C" else 1]
    found, step = [0] * len(shape), factor
    for axis in axes:
        found[axis], step = step, step * max(1, shape[axis])
    return found


LAYOUTS = {
    "C": lambda a, end: placed(a, steps(a.shape, "C"), end),
    "Fortran": lambda a, end: placed(a, steps(a.shape, "F"), end),
    "strided": lambda a, end: placed(a, steps(a.shape, "C", 3), end),
    "rows apart": lambda a, end: placed(a, [2 * step for step in steps(a.shape, "C")][:-1] + [1] * (a.ndim > 0), end),
    "reversed": lambda a, end: placed(a, steps(a.shape, "C", -1), end),
    "unaligned": lambda a, end: placed(a, steps(a.shape, "C"), end, shift=1),
    "byte-swapped": lambda a, end: placed(a.astype(a.dtype.newbyteorder()), steps(a.shape, "C"), end),
}


def broadcast(array, axis, end):
    """An array whose numbers along the axis are the same: there is one of them in memory."""
    return placed(array, [0 if k == axis % array.ndim else s for k, s in enumerate(steps(array.shape, "C"))], end)


def close(name, one, other, dtype):
    compared, tolerance = np.triu if name.startswith("upper") else np.asarray, 1e-9 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(compared(one), compared(other), rtol=tolerance, atol=tolerance)


def filled(name, dtype):
    """Arguments, and an array like the result with numbers in it, as kernels that multiply want some."""
    given, like = arguments(name, dtype)
    return given, like if name.startswith("upper") else np.zeros_like(like)


def same(name, one, other):
    compared = np.triu if name.startswith("upper") else np.asarray
    return bits(compared(one)) == bits(compared(other))


def result(name, given, out):
    assert KERNELS[name](*given, out=out) is out
    return np.array(out, out.dtype.newbyteorder("="))


def check_layouts(name, dtype):
    given, like = filled(name, dtype)
    expected = result(name, given, like.copy())
    for layout, lay in LAYOUTS.items():
        for end in (True, False):
            for place in range(len(given)):
                changed = [lay(a, end) if k == place else a for k, a in enumerate(given)]
                changed[place].flags.writeable = False
                assert same(name, result(name, changed, like.copy()), expected), (layout, place)
            assert same(name, result(name, given, lay(like, end)), expected), (layout, "out")
            assert same(name, result(name, [lay(a, end) for a in given], lay(like, end)), expected), layout
    for axis in (-1, 0):
        for place, array in enumerate(given):
            if array.ndim and array.dtype == dtype:
                flat = [np.repeat(a.take([0], axis), a.shape[axis], axis) if k == place else a for k, a in enumerate(given)]
                changed = [broadcast(a, axis, True) if k == place else a for k, a in enumerate(flat)]
                assert same(name, result(name, changed, like.copy()), result(name, flat, like.copy())), (axis, place)


def check_sizes(name, dtype):
    """Arrays that are too short or too long in one axis are refused, or mean what they mean to NumPy."""
    given, like = filled(name, dtype)
    for place in range(len(given) + 1):
        array = [*given, like][place]
        for axis in range(array.ndim):
            for count in {0, 1, array.shape[axis] - 1, array.shape[axis] + 1, array.shape[axis] + 9} - {array.shape[axis]}:
                other = np.resize(np.moveaxis(array, axis, 0), (count, *np.moveaxis(array, axis, 0).shape[1:]))
                changed = [LAYOUTS["C"](np.moveaxis(other, 0, axis), True) if k == place else a for k, a in enumerate(given)]
                out = LAYOUTS["C"](np.moveaxis(other, 0, axis) if place == len(given) else like, True)
                before = out.copy()
                try:
                    KERNELS[name](*changed, out=out)
                except ValueError:
                    assert bits(out) == bits(before)
                    continue
                KERNELS[name].__wrapped__(*changed, before)
                close(name, out, before, dtype)


def main():
    for name in KERNELS:
        for dtype in (np.dtype(np.float64), np.dtype(np.float32)):
            print(name, dtype, flush=True)
            check_layouts(name, dtype)
            check_sizes(name, dtype)
    for entry in (-1, 7, 1 << 40):  # rows of x that there are not
        given, like = filled("mixed", np.float64)
        given[2] = np.where(np.arange(given[2].size) == 3, entry, given[2])
        with pytest.raises(ValueError, match="indices must be rows of x; got"):
            KERNELS["mixed"](*given, out=like)
    for begins in ([-1, *[5] * 7], [0, 9, 4, *[9] * 5], [*[0] * 7, 10_000]):
        given, like = filled("mixed", np.float64)
        given[3] = np.array(begins)
        with pytest.raises(ValueError, match="begins must ascend within the"):
            KERNELS["mixed"](*given, out=like)


@pytest.mark.slow
@compiled
@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")
def test_kernels_read_and_write_their_arrays_alone():
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-X", "faulthandler", __file__]
    run = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-200:] + run.stderr[-3000:]


@every_dtype
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_a_result_may_lie_over_an_argument(name, plain, dtype):
    function = KERNELS[name].__wrapped__ if plain else KERNELS[name]
    given, like = filled(name, dtype)
    expected = like.copy()
    function(*given, expected) if plain else function(*given, out=expected)
    for place, array in enumerate(given):
        if array.dtype != dtype or array.ndim == 0:
            continue
        for shift in (0, 1, 17):
            for first in (True, False):
                memory = np.zeros(like.size + array.size + shift, dtype)
                begin, other = (0, shift) if first else (shift, 0)
                out = memory[begin : begin + like.size].reshape(like.shape)
                over = memory[other : other + array.size].reshape(array.shape)
                if name.startswith("upper"):  # the result is an argument: of both there is one value
                    out[...] = like
                    wanted, changed = out.copy(), over.copy()
                    function(changed, wanted) if plain else function(changed, out=wanted)
                else:
                    over[...], wanted = array, expected
                changed = [over if k == place else a for k, a in enumerate(given)]
                function(*changed, out) if plain else function(*changed, out=out)
                close(name, out, wanted, dtype)


@every_dtype
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_what_cannot_hold_the_result_is_refused(name, plain, dtype):
    function = KERNELS[name].__wrapped__ if plain else KERNELS[name]
    given, like = filled(name, dtype)
    fixed, whole = like.copy(), like.astype(int)
    fixed.flags.writeable = False
    for out, error in ((fixed, ValueError), (whole, TypeError)):
        before = out.copy()
        with pytest.raises(error):
            function(*given, out) if plain else function(*given, out=out)
        assert bits(out) == bits(before)


@every_dtype
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", ["linear_logistic", "linear_huber", "linear_logistic_value", "linear_huber_value"])
def test_sizes_of_linear_models_that_do_not_fit(name, plain, dtype):
    function = KERNELS[name].__wrapped__ if plain else KERNELS[name]
    (w, x, d, c, settings), _ = arguments(name, dtype)
    rest = [None] if plain else []
    for columns in (0, 1, 28, 31, 33):
        with pytest.raises(ValueError, match=f"one more for the bias; got {columns} for 29"):
            function(np.resize(w, (5, columns)), x, d, c, settings, *rest)
    for changed in ((w, x, d[:, :1], c, settings), (w, x, d, c[:, :-1], settings), (w, x, d, c, settings[:1])):
        with pytest.raises(ValueError, match=r"samples|core dimension"):
            function(*changed, *rest)
    settings = np.stack([settings * (1 + agent) for agent in range(5)])  # of each agent its own
    expected = [function(w[k], x[k], d[k], c[k], settings[k], *rest) for k in range(5)]
    np.testing.assert_allclose(function(w, x, d, c, settings, *rest), expected, rtol=1e-12 if dtype == np.float64 else 1e-4)


@compiled
@every_dtype
def test_a_kernel_of_several_dtypes_is_refused_or_numpys(dtype):
    for name, kernel in KERNELS.items():
        given, like = filled(name, dtype)
        for place in range(1, len(given)):
            changed = [a.astype(np.int32) if k == place else a for k, a in enumerate(given)]
            expected = kernel.__wrapped__(*changed, like.copy())
            try:
                found = kernel(*changed, out=like.copy())
            except TypeError:
                continue
            close(name, found, expected, dtype)


@compiled
@every_dtype
def test_exponentials_of_either_sign(dtype):
    most = np.log(np.finfo(dtype).max)
    x = np.linspace(-1.2 * most, 0.9999 * most, 10_001).astype(dtype)
    expected = np.exp(x.astype(np.longdouble)).astype(dtype)
    for given, wanted in ((x, expected), (x[::-1], expected[::-1]), (x[::7], expected[::7])):
        found = KERNELS["exp"](given)
        assert (abs(found - wanted) <= 4 * np.spacing(wanted)).all()
    assert bits(KERNELS["exp"](x[:3000])) == bits(KERNELS["exp"](x)[:3000])


if __name__ == "__main__":
    main()
