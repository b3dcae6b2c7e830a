"""Test sets that fit a problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from consensus import _checks
from consensus.data.frames import alike, labels
from consensus.data.samples import arrays
from consensus.data.shards import Shards
from consensus.observe.held_out import HeldOut, as_trained
from consensus.observe.held_out_owned import OwnedTest, owned_test
from consensus.observe.held_out_read import ReadTest, read_test
from consensus.problems import LazyProblem, Problem
from consensus.problems.base import BaseProblem


def checked_test_set(problem: BaseProblem, test: Any) -> HeldOut | ReadTest | OwnedTest:  # noqa: ANN401  # arrays or frames of any library
    """Return a test set with the model and loss of ``problem``; raise TypeError or ValueError if it does not fit them."""
    if isinstance(test, Shards):
        return owned_test(problem, test)
    if isinstance(problem, LazyProblem):
        if (found := read_test(problem, test)) is not None:
            return found
        problem = problem.trial or problem  # whose samples are like all others
    if not isinstance(problem, Problem):
        raise TypeError(f"test needs a problem with a model, and features of one shape; got {problem}: give metrics=")
    try:
        X, y = test
    except (TypeError, ValueError) as error:
        raise TypeError(f"test must be a pair (X, y); got {_checks.shown(test)}") from error
    _checks.needs("test", problem.loss, "error")
    shards = problem.shards
    X = alike("X of test", X, shards.columns)
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
    if sp.issparse(X) and not hasattr(problem.model, "for_sparse"):
        raise TypeError(f"X of test must be dense for {problem.model}: pass X.toarray()")
    X, y = as_trained("test", X, shards.features.dtype), np.ascontiguousarray(y, problem.dtype)
    X = X if sp.issparse(X) else np.ascontiguousarray(X)
    return HeldOut(X, y, problem.model, problem.loss, shares, problem.micro_batch)
