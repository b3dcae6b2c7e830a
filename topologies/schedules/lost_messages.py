"""Mixing matrices after losses of messages, whose weight returns to the diagonal."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from topologies._checks import shown
from topologies.matrices import canonical, sums_to_one
from topologies.pattern import entries

Sums: TypeAlias = Literal["columns", "rows"]


class Parts(NamedTuple):
    """A mixing matrix with its whole diagonal stored; per entry its row, and the agent whose diagonal gets its lost weight."""

    matrix: sparse.csr_array
    rows: np.ndarray
    home: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        """Column of each stored entry."""
        found: np.ndarray = self.matrix.indices
        return found


def sums_option(preserve: Sums | None) -> Sums | None:
    """Return `preserve` if it is "columns", "rows" or None; raise ValueError otherwise."""
    if not (preserve is None or (isinstance(preserve, str) and preserve in ("columns", "rows"))):
        raise ValueError(f"preserve must be 'columns', 'rows' or None, got {preserve!r}")
    return preserve


def take_apart(matrix: sparse.csr_array, preserve: Sums | None = None) -> Parts:
    """Prepare a mixing matrix for `without`; `preserve` is that of `topologies.LinkFailure`."""
    if not (sparse.issparse(matrix) or isinstance(matrix, np.ndarray)):
        raise TypeError(f"the mixing matrix of a schedule must be a scipy sparse matrix, got {shown(matrix)}")
    matrix = canonical(sparse.csr_array(matrix))
    rows, columns = entries(matrix)
    agents = matrix.shape[0]
    if np.count_nonzero(rows == columns) < agents:
        own = np.arange(agents)
        ends = np.concatenate([rows, own]), np.concatenate([columns, own])
        matrix = sparse.coo_array((np.append(matrix.data, np.zeros(agents)), ends), shape=matrix.shape).tocsr()
        rows, columns = entries(matrix)
    if preserve is None:
        preserve = _sums_that_are_one(matrix)
    return Parts(matrix, rows, columns if preserve == "columns" else rows)


def _sums_that_are_one(matrix: sparse.csr_array) -> Sums:
    if sums_to_one(matrix, 0):
        return "columns"
    if sums_to_one(matrix, 1):
        return "rows"
    raise ValueError(
        "neither the columns nor the rows of the mixing matrix sum to one; pass preserve='columns' or preserve='rows' to "
        "choose the sums that lost messages leave unchanged"
    )


def without(parts: Parts, lost: np.ndarray, alone: Sequence[int] = ()) -> sparse.csr_array:
    """Return a mixing matrix without its lost entries, whose weight returns to the diagonal.

    `lost` is a mask of the stored entries, False on the diagonal. Agents in `alone` have lost all their messages: their
    diagonal is exactly one.
    """
    matrix, kept = parts.matrix, ~lost
    rows, columns, data = parts.rows[kept], parts.columns[kept], matrix.data[kept]
    diagonal = rows == columns
    own = data[diagonal] + np.bincount(parts.home[lost], matrix.data[lost], minlength=matrix.shape[0])
    own[list(alone)] = 1.0
    data[diagonal] = own
    starts = np.append(0, np.cumsum(kept))[matrix.indptr].astype(matrix.indptr.dtype)
    result = sparse.csr_array((data, columns, starts), shape=matrix.shape)
    if not own.all():
        result.eliminate_zeros()  # zeros of a diagonal that was not stored before
    return result


def links(parts: Parts) -> np.ndarray:
    """Return the link of each stored entry: entries (i, j) and (j, i) belong to one link.

    Links are numbered in row-major order above the diagonal; the numbers of diagonal entries are meaningless.
    """
    matrix, rows, columns = parts.matrix, parts.rows, parts.columns
    shape, places = matrix.shape, np.arange(matrix.nnz)
    back = sparse.csr_array((places, columns, matrix.indptr), shape=shape).T.tocsr()
    if np.array_equal(back.indices, columns) and np.array_equal(back.indptr, matrix.indptr):
        # The pattern is symmetric: the transposed matrix gives the place of each opposite entry.
        upper = rows < columns
        numbers = np.cumsum(upper) - 1
        return np.where(upper, numbers, numbers[back.data])
    apart, numbers = rows != columns, np.zeros_like(places)
    low, high = np.minimum(rows, columns)[apart], np.maximum(rows, columns)[apart]
    numbers[apart] = np.unique(low.astype(np.int64) * shape[0] + high, return_inverse=True)[1]
    return numbers
