"""BLAS and LAPACK in place and without Python's lock.

NumPy copies the matrices, and SciPy's own calls hold the lock.

Symmetric matrices are row by row, (n, n) or a stack of them, and only their upper triangles count.
"""

import ctypes
import functools
from collections.abc import Callable, Iterator

import numpy as np
from scipy import LowLevelCallable
from scipy.linalg import cython_blas, cython_lapack

BLOCK = 128  # rows of a triangle at a time: little wasted work, and they stay in cache


@functools.cache
def _routine(name: str, dtype: np.dtype) -> Callable[..., None]:
    """Look up a routine of SciPy's BLAS or LAPACK: it takes addresses, as in Fortran, and does not hold Python's lock."""
    name = {"f": "s", "d": "d"}[np.dtype(dtype).char] + name
    found = LowLevelCallable.from_cython(cython_lapack if name[1:] in ("potrf", "potri") else cython_blas, name)
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    return ctypes.CFUNCTYPE(None)(pointer(found.function, found.signature.encode()))


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.__array_interface__["data"][0])  # without the objects that array.ctypes makes


def _addresses(stack: np.ndarray) -> list[ctypes.c_void_p]:
    """Addresses of the agents' arrays: cheaper than one view for each."""
    first, step = stack.__array_interface__["data"][0], stack.strides[0]
    return [ctypes.c_void_p(first + agent * step) for agent in range(len(stack))]


@functools.cache
def _whole(number: int) -> object:
    return ctypes.byref(ctypes.c_int64(number))  # little-endian: right for BLAS of 32 and of 64 bits


@functools.cache
def _real(number: float, dtype: np.dtype) -> object:
    return ctypes.byref({"f": ctypes.c_float, "d": ctypes.c_double}[dtype.char](number))


def blocks(n: int, step: int = BLOCK) -> Iterator[tuple[slice, slice]]:
    """Rows and columns that cover the upper triangle of a matrix (n, n), ``step`` rows at a time."""
    for first in range(0, n, step):
        yield slice(first, min(first + step, n)), slice(first, n)


def squares(rows: np.ndarray, out: np.ndarray | None = None, step: int | None = None) -> np.ndarray:
    """``R_i R_i'`` for a stack R (agents, n, k), added to ``out`` if that is given.

    What a new one has below its diagonal is anything; finite within the :func:`blocks` of a ``step``, if there is one.
    """
    agents, n, k = rows.shape
    if n <= BLOCK or type(rows) is not np.ndarray:  # many matrices in one call
        product: np.ndarray = rows @ rows.swapaxes(1, 2)
        return product if out is None else np.add(out, product, out)
    one, beta = _real(1, rows.dtype), _real(0 if out is None else 1, rows.dtype)
    if out is None:
        out = np.empty((agents, n, n), rows.dtype)
        if step is not None:
            for block, _ in blocks(n, step):
                out[:, block, block] = 0
    item, syrk, order = rows.itemsize, _routine("syrk", rows.dtype), _whole(n)
    if rows.strides[1] == item and rows.strides[2] >= n * item:  # the transposes of what is stored row by row
        how, leading = b"N", _whole(rows.strides[2] // item)
    else:
        rows = np.ascontiguousarray(rows)
        how, leading = b"T", _whole(max(k, 1))
    for matrix, square in zip(_addresses(rows), _addresses(out), strict=True):
        syrk(b"L", how, order, _whole(k), one, matrix, leading, beta, square, order)
    return out


def cholesky(matrix: np.ndarray) -> bool:
    """Put the factor U with ``U' U = M`` in M's upper triangle; False if M is not definite."""
    if not len(matrix):
        return True  # LAPACK refuses a leading dimension of zero
    size, info = _whole(len(matrix)), ctypes.c_int64(0)
    _routine("potrf", matrix.dtype)(b"L", size, _address(matrix), size, ctypes.byref(info))
    return info.value == 0


def solve(factor: np.ndarray, right: np.ndarray) -> None:
    """Put ``M^-1 b`` in the place of b (n,), given the factor of M that :func:`cholesky` has left."""
    if not len(factor):
        return
    size, one, trsv = _whole(len(factor)), _whole(1), _routine("trsv", factor.dtype)
    triangle, solution = _address(factor), _address(right)
    for how in (b"N", b"T"):
        trsv(b"L", how, b"N", size, triangle, size, solution, one)


def inverse(factor: np.ndarray) -> np.ndarray:
    """``M^-1``, a new array, whole, given the factor of M that :func:`cholesky` has left."""
    upper, size, info = factor.copy(), _whole(len(factor)), ctypes.c_int64(0)
    _routine("potri", factor.dtype)(b"L", size, _address(upper), size, ctypes.byref(info))
    whole: np.ndarray = np.triu(upper) + np.triu(upper, 1).T
    return whole
