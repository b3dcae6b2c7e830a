"""Work on arrays (agents, ...) whose rows never meet: in chunks where they are large, into memory that rounds keep.

A new array of more than some pages costs more than what is computed for it: the system hands out and clears its pages one by
one. So what a round computes goes into arrays that an earlier round no longer needs.
"""

import functools
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp

from consensus import kernels
from consensus._arrays.parallel import for_chunks
from consensus._arrays.sparse import SparseRows

_LARGE = 1 << 17  # bytes: smaller arrays come from the C library's heap, which keeps its pages
_SIZES = 8  # of which free memory is kept
_COLUMNS = 4096  # of wide rows that are mixed at a time


class _Free(list[memoryview]):
    """Memory of one size that nobody has at present. It ends with the run: arrays that outlive that must not hold it."""


class _Kept(threading.local):
    """The memory of this thread's run that nobody has at present, by its size in bytes; None outside of runs."""

    free: dict[int, _Free] | None = None


_kept = _Kept()


@contextmanager
def kept_memory() -> Iterator[None]:
    """Inside, large arrays that :func:`empty` made in this thread are made of memory that earlier ones of them had."""
    before, _kept.free = _kept.free, {}
    try:
        yield
    finally:
        _kept.free = before


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an uninitialised array; its memory is reused once neither the array nor a view of it exists."""
    size = math.prod(shape) * dtype.itemsize
    if size < _LARGE or _kept.free is None:
        return np.empty(shape, dtype)
    if size not in _kept.free and len(_kept.free) >= _SIZES:
        del _kept.free[next(iter(_kept.free))]
    free = _kept.free.setdefault(size, _Free())
    memory = free.pop() if free else np.empty(size, np.uint8).data
    # The base of all views of it, as what it is itself made of is no array: so it lives as long as they do.
    flat = np.frombuffer(memory, dtype)
    weakref.finalize(flat, _give_back, weakref.ref(free), memory).atexit = False
    return flat.reshape(shape)


def _give_back(run: weakref.ref[_Free], memory: memoryview) -> None:
    free = run()
    if free is not None:
        free.append(memory)


def rowwise(function: Callable[..., np.ndarray], *arrays: np.ndarray, over: np.ndarray | None = None) -> np.ndarray:
    """Return ``function(*arrays)``, computed row by row, in the first array's dtype.

    The function takes the same rows of all arrays, by several threads at the same time, and returns a new array of their shape.
    ``over`` is an array that is not needed any more, maybe one of these: if they are large, the result is written over it.
    """
    first = arrays[0]
    if first.nbytes < _LARGE:
        small = function(*arrays)
        return small if small.dtype == first.dtype else small.astype(first.dtype)
    result = empty(first.shape, first.dtype) if over is None else over

    def chunk(rows: slice) -> None:
        result[rows] = function(*(array[rows] for array in arrays))

    for_chunks(chunk, len(first), (len(arrays) + 2) * first[0].nbytes)
    return result


def taken(array: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return ``array[i, places[i]]`` for every agent i, from ``array`` (agents, most, ...) and places (agents, count)."""
    if isinstance(array, SparseRows):  # which stand in for one
        return array.taken(places)
    agents, most = array.shape[:2]
    if not array.flags.c_contiguous:
        return np.asarray(array[np.arange(agents)[:, None], places])
    flat = array.reshape(agents * most, *array.shape[2:])
    rows: np.ndarray = np.take(flat, places + _firsts(agents, most), axis=0, mode="clip")
    return rows


@functools.lru_cache(maxsize=64)
def _firsts(agents: int, most: int) -> np.ndarray:
    return most * np.arange(agents)[:, None]


def combined(a: float, x: np.ndarray, b: float, y: np.ndarray, over: np.ndarray | None = None) -> np.ndarray:
    """Return ``a x + b y`` for arrays (agents, ...) of one shape and dtype: NumPy's bits, in one pass with compiled kernels.

    ``over`` is as for :func:`rowwise`: best one of these arrays.
    """
    if x.nbytes < _LARGE:
        return a * x + b * y
    result = empty(x.shape, x.dtype) if over is None else over
    numbers = [np.array(factor, x.dtype) for factor in (a, b)]

    def chunk(rows: slice) -> None:
        kernels.combined(x[rows], y[rows], *numbers, out=result[rows])

    touched = 3 * x[0].nbytes
    for_chunks(chunk, len(x), touched, streamed=touched)
    return result


def multiplication(matrix: sp.csr_array) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function ``rows -> matrix @ rows``, with equal bits: many rows use all cores, few are multiplied directly.

    SciPy takes some microseconds to find out how to multiply, longer than it then takes for a small network. Of wide rows some
    columns are mixed at a time, by all agents, so that what they send each other is read from memory once.
    """
    (agents, others), numbers = matrix.shape, matrix.dtype
    weights = matrix.data
    touched = (2 + len(weights) // max(1, agents)) * numbers.itemsize
    few = _LARGE // (max(1, agents) * numbers.itemsize)  # columns
    places = [part.astype(np.intp, copy=False) for part in (matrix.indices, matrix.indptr)]
    mixed = kernels.mixed.of(numbers)
    compiled = isinstance(mixed, np.ufunc)

    def multiply(rows: np.ndarray) -> np.ndarray:
        if rows.ndim != 2 or rows.dtype != numbers or len(rows) != others:
            return np.asarray(matrix @ rows)
        width = rows.shape[1]
        if width < few:
            if not compiled:
                return np.asarray(matrix @ rows)
            return mixed(np.ascontiguousarray(rows), weights, *places, np.empty((agents, width), numbers))
        rows, result = np.ascontiguousarray(rows), empty((agents, width), numbers)
        if width >= 2 * _COLUMNS and compiled:

            def columns(part: slice) -> None:
                part = slice(part.start * _COLUMNS, min(part.stop * _COLUMNS, width))
                mixed(rows[:, part], weights, *places, result[:, part])

            size = (agents + others) * _COLUMNS * numbers.itemsize
            for_chunks(columns, -(-width // _COLUMNS), size, streamed=size)  # the kernel keeps to few columns by itself
            return result

        def chunk(part: slice) -> None:
            # The offsets into indices and weights are the whole matrix's.
            mixed(rows, weights, places[0], places[1][part.start : part.stop + 1], result[part])

        for_chunks(chunk, agents, touched * width, streamed=touched * width)
        return result

    return multiply


def pooled(counts: np.ndarray, means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance (channels,) of all numbers, from those of groups (groups, channels) of so many numbers."""
    shares = counts / counts.sum()
    mean = shares @ means
    return mean, shares @ (variances + np.square(means - mean))
