"""Test sets of owners, each of whom keeps its own, and the errors of points on them."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from consensus import _checks
from consensus._sparse import SparseRows
from consensus.data.shards import Shards
from consensus.observe.held_out import HeldOut, as_trained
from consensus.problems import Problem
from consensus.problems.base import BaseProblem
from topologies import _names


class OwnedTest(NamedTuple):
    """The test sets of the agents with the numbers ``rows``; ``weights`` (agents,) count what their errors are means of.

    ``samples`` is the number of test samples of the whole network.
    """

    parts: tuple[HeldOut, ...]
    weights: np.ndarray
    rows: np.ndarray
    samples: int

    def restrict(self, rows: np.ndarray) -> Self:
        """Return the test sets of the agents with these numbers."""
        places = np.flatnonzero(np.isin(self.rows, rows))
        return self._replace(parts=tuple(self.parts[place] for place in places), weights=self.weights[places], rows=rows)

    def digests(self) -> list[str]:
        """Return a digest of each test set here, by which checkpoints know them."""
        return [own for part in self.parts for own in part.digests()]

    def sums(self, w: np.ndarray, buffers: np.ndarray | None = None) -> np.ndarray:
        """Return for each agent here its sum of errors of every row of ``w``, shape (agents, rows)."""
        errors = np.array([part.errors(w, buffers) for part in self.parts]).reshape(len(self.parts), len(w))
        return np.asarray(self.weights[:, None] * errors)


def owned_test(problem: BaseProblem, test: Shards) -> OwnedTest:
    """Return the test sets in shards; raise ``TypeError`` or ``ValueError`` if they do not fit a problem."""
    if not isinstance(problem, Problem) or getattr(problem.model, "buffers", None) == "keep":
        raise TypeError(f"test of owners needs a consensus.Problem, whose agents keep no buffers of their own; got {problem}")
    _checks.needs("test", problem.loss, "error")
    held, shape = problem.shards, test.features.shape[2:]
    if test.network_size != problem.network_size or not np.isin(problem.rows, test.rows).all():
        raise ValueError(
            f"test must have the agents {problem.rows.tolist()} of {problem.network_size}, as the problem; got "
            f"{test.rows.tolist()} of {test.network_size}"
        )
    ours, theirs = ([_names.identity(name) for name in shards.labels or ()] for shards in (held, test))
    if ours and theirs and ours != theirs:
        raise ValueError(
            f"test must have the agents of the problem in the same order, {_checks.shown(held.labels)}; got "
            f"{_checks.shown(test.labels)}"
        )
    if shape != held.features.shape[2:]:
        raise ValueError(f"test features must have shape {held.features.shape[2:]} a sample, as in training; got {shape}")
    if isinstance(test.features, SparseRows) and not hasattr(problem.model, "for_sparse"):
        raise TypeError(f"test must have dense features for {problem.model}: make it of X.toarray()")
    if test.total_weight is not None:
        raise ValueError(f"test must have samples of weight 1; got a total weight of {test.total_weight:g}")
    parts, weights = [], []
    for row, agent in enumerate(test.rows.tolist()):
        size = int(test.sizes[row])
        # Contiguous, because bits of products depend on the order in memory.
        rows = test.features.of_agent(row)[:size] if isinstance(test.features, SparseRows) else test.features[row, :size]
        X = as_trained("test", rows, held.features.dtype)
        X = X if sp.issparse(X) else np.ascontiguousarray(X)
        y = np.ascontiguousarray(test.targets[row, :size], problem.dtype)
        if not size:
            raise ValueError(f"test must have a sample of every agent; {_names.agent(agent, held.labels)} has none")
        problem.loss.check(y, problem.model.outputs)
        counts = problem.loss.label_counts(y) if hasattr(problem.loss, "label_counts") else 1.0
        counts = np.broadcast_to(counts, size).astype(float)
        if not counts.any():
            raise ValueError(
                f"y of test must have labels that count with {problem.loss}; {_names.agent(agent, held.labels)} has none"
            )
        parts.append(HeldOut(X, y, problem.model, problem.loss, counts / counts.sum(), problem.micro_batch))
        weights.append(counts.sum())
    found = OwnedTest(tuple(parts), np.array(weights), np.asarray(test.rows), int(test.samples))
    return found.restrict(np.asarray(problem.rows))
