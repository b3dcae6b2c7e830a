"""A mixing matrix that the user brings along."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from topologies._checks import listed
from topologies.matrices import MatrixLike, square, sums_to_one, worst_sum
from topologies.pattern import GraphLike, entries


@dataclass(frozen=True, eq=False)
class Given:
    """The weights function that returns one matrix, whatever the graph: see `from_matrix`."""

    matrix: sparse.csr_array

    @property
    def __name__(self) -> str:
        return "from_matrix"

    def __call__(self, graph: GraphLike) -> sparse.csr_array:
        return self.matrix.copy()


def from_matrix(matrix: MatrixLike) -> Given:
    """Weights function that gives a mixing matrix of one's own, checked.

    Entry (i, j) is what agent i gives to what it receives from j. For use with the graph it belongs to, as in
    ``Static(graph, weights=from_matrix(matrix))``, which refuses weights off the edges; `schedule_from_matrix` reads the
    graph off the matrix. What is asked here is what all methods need: nonnegative entries and a positive diagonal
    [1]_, and rows that sum to one (so that agents who agree stay so) or columns that do (so that nothing is lost). Which of
    the two it must be depends on the method; `topologies.check` compares them.

    Parameters
    ----------
    matrix : scipy sparse matrix or array_like, shape (A, A)

    Returns
    -------
    function
        From a graph, which it does not look at, to a scipy.sparse.csr_array of float64 (A, A). It can be pickled.

    Raises
    ------
    ValueError
        If `matrix` is not square, has an entry that is not finite or negative, or a self-weight of zero; or if neither its
        rows nor its columns sum to one within 1e-8. The message names the worst of them.

    References
    ----------
    .. [1] A. Nedic and A. Ozdaglar, "Distributed subgradient methods for multi-agent optimization", IEEE Transactions
       on Automatic Control 54 (2009), Assumption 1 on weights.

    Examples
    --------
    >>> import topologies
    >>> from topologies import from_matrix
    >>> mine = [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]]
    >>> topologies.Static(topologies.path(3), weights=from_matrix(mine))
    Static(agents=3, edges=2, weights=from_matrix)
    >>> from_matrix([[0.5, 0.5], [0.0, 0.75]])
    Traceback (most recent call last):
    ...
    ValueError: matrix mixes only if its rows or its columns sum to one; but row 1 sums to 0.75 and column 0 to 0.5
    """
    matrix = square(matrix).copy()
    rows, columns = entries(matrix)
    broken = np.flatnonzero(~np.isfinite(matrix.data))
    if broken.size:
        first = broken[0]
        raise ValueError(
            f"matrix has entries that are not finite: {matrix.data[first]:g} at ({rows[first]}, {columns[first]}), "
            f"so row {rows[first]} has no sum"
        )
    if matrix.nnz and matrix.data.min() < 0:
        worst = matrix.data.argmin()
        raise ValueError(f"matrix has negative weights, the least {matrix.data[worst]:g} at ({rows[worst]}, {columns[worst]})")
    matrix.eliminate_zeros()
    selfless = np.flatnonzero(matrix.diagonal() <= 0)
    if selfless.size:
        raise ValueError(
            f"matrix has zeros on the diagonal, at rows {listed(selfless)}: these agents give themselves no weight. "
            "Average it with the identity, (I + W) / 2, to give them one half"
        )
    if not any(sums_to_one(matrix, axis) for axis in (0, 1)):
        (row, row_sum), (column, column_sum) = worst_sum(matrix, 1), worst_sum(matrix, 0)
        raise ValueError(
            f"matrix mixes only if its rows or its columns sum to one; but row {row} sums to {row_sum:.9g} and column "
            f"{column} to {column_sum:.9g}"
        )
    return Given(matrix)
