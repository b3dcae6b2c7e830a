"""Weights given as a mixing matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from topologies._checks import listed
from topologies.matrices import MatrixLike, square, sums_to_one, worst_sum
from topologies.pattern import GraphLike, entries


@dataclass(frozen=True, eq=False)
class Given:
    """The weights function that `from_matrix` returns."""

    matrix: sparse.csr_array

    @property
    def __name__(self) -> str:
        """Name in the ``repr`` of schedules."""
        return "from_matrix"

    def __call__(self, graph: GraphLike) -> sparse.csr_array:
        return self.matrix.copy()


def from_matrix(matrix: MatrixLike) -> Given:
    """Return a weights function that gives one mixing matrix, checked, for its graph.

    Entry (i, j) is the weight that agent i gives to the value of agent j. All methods need nonnegative entries, a positive
    diagonal [1]_, and rows or columns that sum to one; `topologies.check` says which of the two a solver needs. The graph of
    the schedule must have an edge for every weight; `schedule_from_matrix` reads the graph off the matrix.

    Parameters
    ----------
    matrix : scipy sparse matrix or array_like, shape (A, A)
        Mixing matrix over A agents.

    Returns
    -------
    function
        Weights function that returns a copy of the matrix, whatever the graph; it can be pickled.

    Raises
    ------
    ValueError
        If `matrix` is not square, not finite, has a negative entry or a zero on the diagonal, or if neither its rows nor its
        columns sum to one within 1e-8. The message names the worst entry.

    References
    ----------
    .. [1] A. Nedic and A. Ozdaglar, "Distributed subgradient methods for multi-agent optimization" (2009), Assumption 1.

    Examples
    --------
    >>> import topologies
    >>> mine = [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]]
    >>> topologies.Static(topologies.path(3), weights=topologies.from_matrix(mine))
    Static(agents=3, edges=2, weights=from_matrix)
    >>> topologies.from_matrix([[0.5, 0.5], [0.0, 0.75]])
    Traceback (most recent call last):
    ...
    ValueError: the rows or the columns of matrix must sum to one; row 1 sums to 0.75 and column 0 to 0.5
    """
    matrix = square(matrix).copy()
    rows, columns = entries(matrix)
    broken = np.flatnonzero(~np.isfinite(matrix.data))
    if broken.size:
        first = broken[0]
        raise ValueError(f"matrix has entries that are not finite: {matrix.data[first]:g} at ({rows[first]}, {columns[first]})")
    if matrix.nnz and matrix.data.min() < 0:
        worst = matrix.data.argmin()
        raise ValueError(f"matrix has negative weights, the least {matrix.data[worst]:g} at ({rows[worst]}, {columns[worst]})")
    matrix.eliminate_zeros()
    selfless = np.flatnonzero(matrix.diagonal() <= 0)
    if selfless.size:
        raise ValueError(
            f"matrix has zeros on the diagonal, at rows {listed(selfless)}: these agents ignore their own values. "
            "Pass the average with the identity, (I + W) / 2"
        )
    if not any(sums_to_one(matrix, axis) for axis in (0, 1)):
        (row, row_sum), (column, column_sum) = worst_sum(matrix, 1), worst_sum(matrix, 0)
        axis = int(abs(row_sum - 1) <= abs(column_sum - 1))
        rest = f"numpy.diag(1 - numpy.sum(matrix, axis={axis}, dtype=float))"
        rounded = abs((column_sum, row_sum)[axis] - 1) < 0.01
        raise ValueError(
            f"the rows or the columns of matrix must sum to one; row {row} sums to {row_sum:.9g} and column "
            f"{column} to {column_sum:.9g}" + f"; numpy.array(matrix, float) + {rest} gives the rest to the diagonal" * rounded
        )
    return Given(matrix)
