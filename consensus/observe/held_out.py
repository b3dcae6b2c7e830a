"""A test set, and the errors of points on it."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from consensus import _checks
from consensus._parallel import CHUNK_BYTES
from consensus.data.frames import is_frame, labels
from consensus.data.samples import arrays
from consensus.losses import Loss
from consensus.models import Model
from consensus.problems import LazyProblem, Problem
from consensus.problems.base import BaseProblem


class HeldOut(NamedTuple):
    """A test set, and the model and loss that are evaluated on it.

    ``shares`` (samples,) sum to one: the weights of the samples in the mean error; None if they are equal.
    """

    features: np.ndarray
    targets: np.ndarray
    model: Model
    loss: Loss
    shares: np.ndarray | None = None

    def errors(self, w: np.ndarray, buffers: np.ndarray | None = None) -> np.ndarray:
        """Return the mean error of every row of `w`, a few rows at a time.

        A model with batch normalisation has the `buffers` (B,), or (rows, B), one for each row.
        """
        if buffers is None:
            return self._errors(w, self.model)
        evaluated = cast(Any, self.model).evaluated
        if buffers.ndim == 1:
            return self._errors(w, evaluated(buffers))
        return np.concatenate([self._errors(w[k : k + 1], evaluated(own)) for k, own in enumerate(buffers)])

    def _errors(self, w: np.ndarray, model: Model) -> np.ndarray:
        X, y, _, loss, shares = self
        few = max(1, CHUNK_BYTES // (len(X) * max(getattr(model, "widths", [model.outputs])) * X.itemsize))
        errors = []
        for first in range(0, len(w), few):
            rows = w[first : first + few]
            outputs = model.predict(rows, np.broadcast_to(X, (len(rows), *X.shape)))
            of_samples = loss.error(outputs, np.broadcast_to(y, (len(rows), *y.shape)))
            errors.append(of_samples.mean(axis=1) if shares is None else of_samples @ shares)
        return np.concatenate(errors)


def checked_test_set(problem: BaseProblem, test: Any) -> HeldOut:  # noqa: ANN401  # arrays or frames of any library
    """Return a test set (X, y) with the model and loss of `problem`; raise TypeError or ValueError if it does not fit them."""
    if isinstance(problem, LazyProblem) and problem.trial is not None:
        problem = problem.trial  # whose samples are like all others
    if not isinstance(problem, Problem):
        raise TypeError(f"test needs a problem with a model, and features of one shape; got {problem}: give metrics=")
    try:
        X, y = test
    except (TypeError, ValueError) as error:
        raise TypeError(f"test must be a pair (X, y); got {_checks.shown(test)}") from error
    _checks.needs("test", problem.loss, "error")
    shards = problem.shards
    if shards.columns is not None and is_frame(X):
        X = shards.columns.transform(X, "X of test")
    X, y = arrays(X, labels("y of test", y, shards.classes)[0], ("X of test", "y of test"))
    features = shards.features.shape[2:]
    if X.shape[1:] != features:
        raise ValueError(f"test features must have shape {features} a sample, as in training; got {X.shape[1:]}")
    problem.loss.check(y, problem.model.outputs)
    counts = problem.loss.label_counts(y) if hasattr(problem.loss, "label_counts") else 1.0
    shares = counts / counts.sum() if isinstance(counts, np.ndarray) and counts.any() else None
    if isinstance(counts, np.ndarray) and shares is None:
        raise ValueError(f"y of test must have labels that count with {problem.loss}; it ignores them all")
    # Contiguous, because bits of products depend on the order in memory.
    X, y = np.ascontiguousarray(X, shards.features.dtype), np.ascontiguousarray(y, problem.dtype)
    return HeldOut(X, y, problem.model, problem.loss, shares)
