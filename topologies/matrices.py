"""What the weights and the analysis ask of one mixing matrix."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from topologies import _checks

# Sums, symmetry and zeros are meant within this much: far above rounding errors, far below any weight.
TOLERANCE = 1e-8

MatrixLike: TypeAlias = sparse.sparray | sparse.spmatrix | ArrayLike


def square(matrix: Any) -> sparse.csr_array:
    """Return a matrix as CSR of float64 without duplicates; raise ValueError unless it is square and not empty.

    Examples
    --------
    >>> from topologies.matrices import square
    >>> square([[1, 0], [0, 1]]).nnz
    2
    """
    if not sparse.issparse(matrix):
        matrix = _checks.numbers("matrix", matrix)
    elif matrix.dtype.kind not in "fiub":
        raise TypeError(f"matrix must hold real numbers, got dtype {matrix.dtype}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"matrix must be square with at least one row, got shape {matrix.shape}")
    return canonical(sparse.csr_array(matrix, dtype=np.float64))


def canonical(matrix: sparse.csr_array) -> sparse.csr_array:
    """A CSR matrix with its column indices sorted and no entry stored twice: itself, or a copy where it is not so.

    Examples
    --------
    >>> from scipy import sparse
    >>> from topologies.matrices import canonical
    >>> canonical(sparse.csr_array(([0.25, 0.25, 0.5], [1, 1, 0], [0, 3, 3]), shape=(2, 2))).data
    array([0.5, 0.5])
    """
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def worst_sum(matrix: sparse.csr_array, axis: int) -> tuple[int, float]:
    """Index and sum of the row (axis 1) or the column (axis 0) whose sum is farthest from one; NaN is farthest of all.

    Examples
    --------
    >>> from topologies.matrices import square, worst_sum
    >>> worst_sum(square([[0.5, 0.5], [0.0, 0.75]]), axis=1)
    (1, 0.75)
    """
    sums = np.asarray(matrix.sum(axis=axis)).ravel()
    index = int(abs(sums - 1).argmax())
    return index, float(sums[index])


def sums_to_one(matrix: sparse.csr_array, axis: int) -> bool:
    """Whether all rows (axis 1) or all columns (axis 0) sum to one.

    Examples
    --------
    >>> from topologies.matrices import square, sums_to_one
    >>> sums_to_one(square([[0.5, 0.5], [0.0, 1.0]]), axis=1)
    True
    """
    return abs(worst_sum(matrix, axis)[1] - 1) <= TOLERANCE
