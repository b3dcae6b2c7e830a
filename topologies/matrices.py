"""Properties of one mixing matrix that the weights and the analysis share."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from topologies import _checks
from topologies.pattern import is_table

TOLERANCE = 1e-8  # of sums and symmetry: far above rounding errors, far below any weight

MatrixLike: TypeAlias = sparse.sparray | sparse.spmatrix | ArrayLike


def square(matrix: MatrixLike) -> sparse.csr_array:
    """Return a matrix in canonical CSR format; raise ValueError unless it is square and not empty."""
    if is_table(matrix):
        raise TypeError(
            "matrix must be in the order of the agents, without names: pass matrix.to_numpy() if its rows and columns are, or "
            "topologies.schedule_from_matrix(matrix) for agents with these names"
        )
    found: sparse.sparray | np.ndarray = matrix if sparse.issparse(matrix) else _checks.numbers("matrix", matrix)
    if found.dtype.kind not in "fiub":
        raise TypeError(f"matrix must hold real numbers, got dtype {found.dtype}")
    if found.ndim != 2 or found.shape[0] != found.shape[1] or found.shape[0] == 0:
        raise ValueError(f"matrix must be square with at least one row, got shape {found.shape}")
    return canonical(sparse.csr_array(found, dtype=np.float64))


def canonical(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return a CSR matrix with sorted indices and no duplicate entries: the same object if it is so already."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def worst_sum(matrix: sparse.csr_array, axis: int) -> tuple[int, float]:
    """Return the index and the sum of the row (axis 1) or column (axis 0) whose sum is farthest from one, or NaN."""
    sums = np.asarray(matrix.sum(axis=axis)).ravel()
    index = int(abs(sums - 1).argmax())
    return index, float(sums[index])


def sums_to_one(matrix: sparse.csr_array, axis: int) -> bool:
    """Return whether all rows (axis 1) or all columns (axis 0) sum to one."""
    return abs(worst_sum(matrix, axis)[1] - 1) <= TOLERANCE
