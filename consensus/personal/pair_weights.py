"""Weights of pairs of agents."""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from typing import Any

import numpy as np
from scipy import sparse

import topologies
from consensus import _checks
from topologies import _names
from topologies.pattern import is_table, table
from topologies.schedules import ScheduleLike
from topologies.schedules.reordered import permuted


class PairWeights:
    """Strength of the coupling between the models of each pair of agents: see :class:`consensus.solvers.Personalized`.

    Parameters
    ----------
    weights : array_like or scipy sparse matrix (agents, agents), pandas DataFrame, or PairWeights
        Symmetric numbers, at least 0; the diagonal does not count. Rows of a DataFrame are the agents with their names.

    Raises
    ------
    TypeError, ValueError
        If they are none.
    """

    def __init__(self, weights: Any) -> None:  # noqa: ANN401  # numbers of any kind
        self.labels: tuple[Hashable, ...] | None = None
        if isinstance(weights, PairWeights):
            self.matrix: sparse.csr_array = weights.matrix
            self.labels = weights.labels
            return
        if is_table(weights):
            names, weights = table(weights, "weights")
            self.labels = _names.checked("names of rows of weights", names)
        given = weights if sparse.issparse(weights) else _checks.floats("weights", weights)
        if given.ndim != 2 or given.shape[0] != given.shape[1] or given.shape[0] == 0:
            raise ValueError(f"weights must be a matrix (agents, agents), a number for each pair; got shape {given.shape}")
        found = sparse.coo_array(given, dtype=np.float64)
        apart = found.row != found.col
        matrix = sparse.csr_array((found.data[apart], (found.row[apart], found.col[apart])), shape=found.shape)
        matrix.sum_duplicates()
        if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
            raise ValueError("weights must be finite numbers >= 0")
        matrix.eliminate_zeros()
        if (uneven := abs(matrix - matrix.T)).nnz and uneven.max():
            i, j = (int(place[0]) for place in uneven.nonzero())
            raise ValueError(f"weights must be symmetric; agents {i} and {j} have {matrix[i, j]:g} and {matrix[j, i]:g}")
        self.matrix = matrix

    def matched(self, order: tuple[int, ...] | None, labels: tuple[Hashable, ...] | None) -> PairWeights:
        """Return the weights of the agents in the problem's order, by their names or else as the network's agents.

        Parameters
        ----------
        order : tuple of int or None
            The network's agents in that order, if that is another one.
        labels : tuple or None
            The names of the agents.

        Returns
        -------
        PairWeights
            The weights.

        Raises
        ------
        ValueError
            If names of rows are not those of the agents.
        """
        if self.labels is not None and len(self.labels) == len(labels or self.labels):
            names = range(len(self.labels)) if labels is None else labels
            order = _names.match(names, self.labels, len(self.labels), "the agents", "weights")
        if order is None or len(order) != self.matrix.shape[0]:
            return self
        found = PairWeights(permuted(self.matrix, order))
        found.labels = None if self.labels is None else tuple(self.labels[agent] for agent in order)
        return found

    @classmethod
    def of(cls, schedule: ScheduleLike) -> PairWeights:
        """Return the mixing weights of a static network."""
        _checks.schedule(schedule, "network")
        return cls(schedule.weights(schedule.key(0)))

    def __repr__(self) -> str:
        matrix = self.matrix
        code = zlib.crc32(matrix.data.tobytes() + matrix.indices.tobytes())
        return f"<{matrix.shape[0]} agents, {matrix.nnz // 2} pairs, {code:08x}>"

    def _key(self) -> tuple[bytes, ...]:
        return tuple(array.tobytes() for array in (self.matrix.data, self.matrix.indices, self.matrix.indptr))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairWeights) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def degrees(self) -> np.ndarray:
        """The agents' sums of weights (agents,)."""
        return np.asarray(self.matrix.sum(axis=1))

    @property
    def scale(self) -> float:
        """Twice the largest degree s, by which ``I - (D - W) / s`` is a mixing matrix; 1 if all weights are zero."""
        return float(2 * self.degrees.max()) or 1.0

    def schedule(self) -> ScheduleLike:
        """Return the network that mixes by ``I - (D - W) / s``, with D the diagonal matrix of degrees."""
        return topologies.schedule_from_matrix(
            self.matrix / self.scale + sparse.diags_array(1 - self.degrees / self.scale, format="csr")
        )
