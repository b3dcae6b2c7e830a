"""Sparse features: the rows of a block of agents in compressed form, with the products that a linear model takes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike


def canonical(matrix: Any) -> sp.csr_array:  # noqa: ANN401  # of any format of SciPy's
    """Return a sparse matrix as a CSR array of sorted indices without duplicates or stored zeros; itself if it is one."""
    found = sp.csr_array(matrix)
    if not found.has_canonical_format or (found.data == 0).any():
        found = found.copy()
        found.sum_duplicates()
        found.eliminate_zeros()
    return found


def scaled(matrix: sp.csr_array, scale: np.ndarray) -> sp.csr_array:
    """Return the matrix with its columns divided by ``scale``, to the bit as scikit-learn's ``StandardScaler`` divides them."""
    return _csr(matrix.data * (1 / scale[matrix.indices]), matrix.indices, matrix.indptr, matrix.shape)


class SparseRows:
    """Samples (agents, most, features) whose rows are sparse, in the place of an array of that shape; padding is empty rows.

    Agents and samples are selected, and the rows and their views ``x.swapaxes(1, 2)`` and ``x[:, None]`` are multiplied by
    dense arrays, ``x @ W`` and ``np.matmul(x, W, out=out)``, as an array would be: that is what sums over the samples of a
    linear model take. Nothing is ever made dense.

    Parameters
    ----------
    matrix : scipy.sparse.csr_array (agents * most, features)
        The rows of all agents, one agent after another.
    most : int
        Rows of an agent, with padding.
    """

    def __init__(self, matrix: sp.csr_array, most: int, turned: bool = False, several: bool = False) -> None:
        self.matrix, self.most, self._turned, self._several = matrix, most, turned, several

    @classmethod
    def filled(cls, parts: Sequence[sp.csr_array], most: int) -> SparseRows:
        """Return the rows of some agents, each filled up to ``most``."""
        lengths = [np.zeros(most, np.int64) for _ in parts]
        for own, part in zip(lengths, parts, strict=True):
            own[: part.shape[0]] = np.diff(part.indptr)
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        data, indices = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices"))
        shape = len(parts) * most, parts[0].shape[1]
        places = np.int32 if max(starts[-1], *shape) < 2**31 else np.int64  # SciPy converts larger ones in every call
        return cls(_csr(data, indices.astype(places), starts.astype(places), shape), most)

    @property
    def shape(self) -> tuple[int, ...]:
        rows, features = self.matrix.shape
        sides = (features, self.most) if self._turned else (self.most, features)
        return (rows // self.most, *((1,) if self._several else ()), *sides)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.matrix.dtype
        return dtype

    @property
    def nbytes(self) -> int:
        """Bytes of what is stored."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The stored entries, their columns, and the start of each row in them."""
        return self.matrix.data, self.matrix.indices, self.matrix.indptr

    def hollow(self) -> SparseRows:
        """Return rows without numbers, for :meth:`with_arrays`."""
        return SparseRows(sp.csr_array((0, self.matrix.shape[1]), dtype=self.dtype), self.most)

    def with_arrays(self, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray) -> SparseRows:
        """Return rows of the same shape made of other :attr:`arrays`, as shared memory has them."""
        return SparseRows(_csr(data, indices, indptr, (len(indptr) - 1, self.matrix.shape[1])), self.most)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[sp.csr_array]:
        return (self.of_agent(agent) for agent in range(len(self)))

    def of_agent(self, agent: int) -> sp.csr_array:
        """Return the rows (most, features) of an agent; its numbers are views."""
        return self._rows(np.arange(agent * self.most, (agent + 1) * self.most))

    def __getitem__(self, key: Any) -> SparseRows:  # noqa: ANN401  # agents, or agents and samples, or an axis more
        agents, samples = key if isinstance(key, tuple) else (key, slice(None))
        if samples is None:
            return SparseRows(self.matrix, self.most, self._turned, several=True)
        chosen, width = np.arange(len(self))[agents], np.arange(self.most)[samples]
        if chosen.ndim != 1 or width.ndim != 1:
            raise TypeError(f"sparse features are selected by agents and samples; got {key!r}")
        return SparseRows(self._rows((chosen[:, None] * self.most + width).ravel()), len(width))

    def _rows(self, rows: np.ndarray) -> sp.csr_array:
        """Return some rows: views of their numbers if they follow each other."""
        if not len(rows) or not (np.diff(rows) == 1).all():
            return self.matrix[rows]
        data, indices, indptr = self.arrays
        own = indptr[rows[0] : rows[-1] + 2]
        some = slice(int(own[0]), int(own[-1]))
        return _csr(data[some], indices[some], own - own[0], (len(rows), self.matrix.shape[1]))

    def taken(self, places: np.ndarray) -> SparseRows:
        """Return the rows ``places[i]`` (agents, count) of every agent i."""
        rows = np.arange(len(self))[:, None] * self.most + places
        return SparseRows(self.matrix[rows.ravel()], places.shape[1])

    def kept(self, real: np.ndarray) -> SparseRows:
        """Return the rows where ``real`` (agents, most) holds; the others become empty."""
        return SparseRows(canonical(sp.diags_array(real.ravel().astype(self.dtype)) @ self.matrix), self.most)

    def apart(self) -> SparseRows:
        """Return every row as that of an agent of its own."""
        return SparseRows(self.matrix, 1)

    def with_ones(self) -> SparseRows:
        """Return the rows with one more feature, one everywhere."""
        return SparseRows(sp.hstack([self.matrix, np.ones((self.matrix.shape[0], 1), self.dtype)], format="csr"), self.most)

    def squared(self) -> SparseRows:
        """Return the rows with their numbers squared."""
        data, indices, indptr = self.arrays
        return SparseRows(_csr(np.square(data), indices, indptr, self.matrix.shape), self.most)

    def norms(self) -> np.ndarray:
        """Return the Euclidean norm of each row, shape (agents, most)."""
        squares = np.asarray(self.squared().matrix.sum(axis=1))
        return np.asarray(np.sqrt(squares).reshape(len(self), self.most))

    def astype(self, dtype: DTypeLike, copy: bool = True) -> SparseRows:
        """Return the rows in a dtype; themselves if they are in it, and no ``copy`` is asked for."""
        same = self.dtype == np.dtype(dtype) and not copy
        return self if same else SparseRows(self.matrix.astype(dtype), self.most, self._turned, self._several)

    def swapaxes(self, first: int, second: int) -> SparseRows:
        """Return the view with the axes of samples and features exchanged, for products."""
        return SparseRows(self.matrix, self.most, not self._turned, self._several)

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        """Return the products with arrays (agents, ..., k), of each agent's rows with its own; one agent's serve all."""
        return np.asarray(np.matmul(self, other))  # type: ignore[call-overload]  # which finds the method below

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **given: Any) -> Any:  # noqa: ANN401
        if ufunc is not np.matmul or method != "__call__" or inputs[0] is not self or given:
            return NotImplemented
        other: np.ndarray = inputs[1]
        shape = max(len(self), len(other)), *other.shape[1:-2], self.shape[-2], other.shape[-1]
        found = np.empty(shape, np.result_type(self.dtype, other.dtype)) if out is None else out[0]
        blocks = list(self) if len(other) == len(self) else itertools.repeat(self.of_agent(0))
        for block, right, product in zip(blocks, other, found, strict=False):
            matrix = block.T if self._turned else block
            if right.ndim == 2:
                product[...] = matrix @ np.ascontiguousarray(right)
                continue
            many, inner, k = right.shape  # of one matrix and many: side by side
            products = matrix @ np.ascontiguousarray(right.transpose(1, 0, 2)).reshape(inner, many * k)
            product[...] = products.reshape(-1, many, k).transpose(1, 0, 2)
        return found


def _csr(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    """Return a CSR array of these arrays themselves, which are sorted and without duplicates."""
    found = sp.csr_array((data, indices, indptr), shape=shape, copy=False)
    found.has_sorted_indices = found.has_canonical_format = True
    return found
