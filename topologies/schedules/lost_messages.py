"""A mixing matrix some of whose messages are lost: their weight returns to the diagonal."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from topologies._checks import shown
from topologies.matrices import canonical, sums_to_one
from topologies.pattern import entries


class Parts(NamedTuple):
    """A mixing matrix made ready for `without`.

    Fields: the ``matrix`` in CSR, its whole diagonal stored; the ``rows`` of its stored entries; and ``home``, for each of them
    the agent to whose diagonal its weight returns when it is lost.
    """

    matrix: sparse.csr_array
    rows: np.ndarray
    home: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        return self.matrix.indices


def whose_sums(preserve: Any) -> str | None:
    """Return ``preserve`` if it is "columns", "rows" or None; raise ValueError otherwise."""
    if not (preserve is None or (isinstance(preserve, str) and preserve in ("columns", "rows"))):
        raise ValueError(f"preserve must be 'columns', 'rows' or None, got {preserve!r}")
    return preserve


def take_apart(matrix: Any, preserve: str | None = None) -> Parts:
    """Make a mixing matrix ready for `without`.

    Parameters
    ----------
    matrix : sparse matrix, shape (A, A)
    preserve : {"columns", "rows"}, optional
        Whose sums stay as they are when messages are lost; by default the columns' if they are one, else the rows'.

    Returns
    -------
    Parts

    Raises
    ------
    ValueError
        Without `preserve`, if neither rows nor columns sum to one within 1e-8.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from topologies.schedules.lost_messages import take_apart, without
    >>> parts = take_apart(sparse.csr_array([[0.5, 0.5], [0.5, 0.5]]))
    >>> without(parts, np.array([False, True, False, False])).toarray()
    array([[0.5, 0. ],
           [0.5, 1. ]])
    """
    if not (sparse.issparse(matrix) or isinstance(matrix, np.ndarray)):
        raise TypeError(f"a schedule's mixing matrix must be a scipy sparse matrix, got {shown(matrix)}")
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


def _sums_that_are_one(matrix):
    for axis, name in enumerate(("columns", "rows")):
        if sums_to_one(matrix, axis):
            return name
    raise ValueError(
        "neither the columns nor the rows of the mixing matrix sum to one; pass preserve='columns' or preserve='rows' to "
        "say whose sums to keep when messages are lost"
    )


def without(parts: Parts, lost: np.ndarray, alone: Sequence[int] = ()) -> sparse.csr_array:
    """Drop entries of a mixing matrix and return their weight to the diagonal.

    Parameters
    ----------
    parts : Parts
    lost : bool array, one for each stored entry
        False on the diagonal.
    alone : list of int
        Agents who have lost all their entries: their diagonal is one to the bit.

    Returns
    -------
    scipy.sparse.csr_array, shape (A, A)
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
        result.eliminate_zeros()  # a diagonal that was not there before
    return result


def links(parts: Parts) -> np.ndarray:
    """Number the links that stored entries belong to: entries (i, j) and (j, i) share one.

    Numbers run row-major above the diagonal, over all pairs of agents with an entry; those on the diagonal mean nothing.

    Examples
    --------
    >>> from scipy import sparse
    >>> from topologies.schedules.lost_messages import links, take_apart
    >>> parts = take_apart(sparse.csr_array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]]))
    >>> links(parts)[parts.rows != parts.columns]
    array([0, 0, 1, 1])
    """
    matrix, rows, columns = parts.matrix, parts.rows, parts.columns
    shape, places = matrix.shape, np.arange(matrix.nnz)
    back = sparse.csr_array((places, columns, matrix.indptr), shape=shape).T.tocsr()
    if np.array_equal(back.indices, columns) and np.array_equal(back.indptr, matrix.indptr):
        # Every entry has one opposite to it, at the place that the transposed matrix tells.
        upper = rows < columns
        numbers = np.cumsum(upper) - 1
        return np.where(upper, numbers, numbers[back.data])
    apart, numbers = rows != columns, np.zeros_like(places)
    low, high = np.minimum(rows, columns)[apart], np.maximum(rows, columns)[apart]
    numbers[apart] = np.unique(low.astype(np.int64) * shape[0] + high, return_inverse=True)[1]
    return numbers
