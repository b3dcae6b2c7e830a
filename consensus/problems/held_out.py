"""Test sets that fit a problem, and the errors of points on them."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np
import scipy.sparse as sp

from consensus import _checks
from consensus._arrays.digest import digest
from consensus._arrays.parallel import CHUNK_BYTES
from consensus._arrays.sparse import SparseRows
from consensus.data.samples import arrays
from consensus.data.shards import Shards
from consensus.data.tables import alike, coded
from consensus.losses import Loss
from consensus.models.linearization import ModelDefaults, parts
from consensus.problems.samples import SampleSums, of_batches
from consensus.problems.state import TestSet
from topologies import _names


class SharedTest(TestSet, Protocol):
    """A test set that all agents have."""

    def errors(self, w: np.ndarray, buffers: np.ndarray | None = None) -> np.ndarray:
        """Return the mean error of every row of ``w``, in a model with batch normalisation with these ``buffers``."""


class HeldOut(NamedTuple):
    """A test set, and the model and loss that are evaluated on it.

    ``shares`` (samples,) sum to one: the weights of the samples in the mean error; None if they are equal. A pass through the
    model takes ``micro_batch`` samples; None for as many as fit.
    """

    features: np.ndarray
    targets: np.ndarray
    model: ModelDefaults
    loss: Loss
    shares: np.ndarray | None = None
    micro_batch: int | None = None

    @property
    def samples(self) -> int:
        return len(self.targets)

    def digests(self) -> list[str]:
        """Return a digest of the test set, by which checkpoints know it."""
        return [digest(self.features, self.targets, self.shares)]

    def errors(self, w: np.ndarray, buffers: np.ndarray | None = None) -> np.ndarray:
        """Return the mean error of every row of `w`, a few rows at a time.

        A model with batch normalisation has the `buffers` (B,), or (rows, B), one for each row.
        """
        if buffers is None:
            return self._errors(w, self.model)
        if buffers.ndim == 1:
            return self._errors(w, _checks.completed(cast(Any, self.model).evaluated(buffers), ModelDefaults))
        return np.concatenate([self.errors(w[k : k + 1], own) for k, own in enumerate(buffers)])

    def _errors(self, w: np.ndarray, model: ModelDefaults) -> np.ndarray:
        X, y, _, loss, shares, micro_batch = self
        most = len(y) if of_batches(loss) else micro_batch or model.samples_at_once(X.dtype)
        few = max(1, CHUNK_BYTES // (len(y) * max(model.widths or [model.outputs]) * X.dtype.itemsize))
        errors = []
        for first in range(0, len(w), few):
            rows = w[first : first + few]
            pairs = ((_of_each(X[some], rows), _of_each(y[some], rows)) for some in parts(len(y), most))
            found = [loss.error(model.predict(rows, x), d) for x, d in pairs]
            of_samples = found[0] if len(found) == 1 else np.concatenate(found, axis=1)
            errors.append(of_samples.mean(axis=1) if shares is None else of_samples @ shares)
        return np.concatenate(errors)


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


def held_out(problem: SampleSums, test: Any) -> HeldOut:  # noqa: ANN401  # arrays or frames of any library
    """Return the test set ``(X, y)``; raise ``TypeError`` or ``ValueError`` if it does not fit a problem."""
    try:
        X, y = test
    except (TypeError, ValueError) as error:
        raise TypeError(f"test must be a pair (X, y), as dataset.tensors of PyTorch; got {_checks.shown(test)}") from error
    shards = problem.shards
    X = alike("X of test", X, shards.columns, **{"y of test": y})
    X, y = arrays(X, coded("y of test", y, shards.classes)[0], ("X of test", "y of test"))
    _check_features(problem, X.shape[1:], sp.issparse(X))
    X, y, counts = _samples(problem, X, y, "it ignores them all")
    shares = counts / counts.sum() if isinstance(counts, np.ndarray) else None
    return HeldOut(X, y, problem.model, problem.loss, shares, problem.micro_batch)


def owned_test(problem: SampleSums, test: Shards) -> OwnedTest:
    """Return the test sets in shards; raise ``TypeError`` or ``ValueError`` if they do not fit a problem."""
    if problem.model.buffers == "keep":
        raise TypeError(f"test of owners needs a consensus.Problem, whose agents keep no buffers of their own; got {problem}")
    if test.network_size != problem.network_size or not np.isin(problem.rows, test.rows).all():
        raise ValueError(
            f"test must have the agents {problem.rows.tolist()} of {problem.network_size}, as the problem; got "
            f"{test.rows.tolist()} of {test.network_size}"
        )
    held = problem.shards
    ours, theirs = ([_names.identity(name) for name in shards.labels or ()] for shards in (held, test))
    if ours and theirs and ours != theirs:
        raise ValueError(
            f"test must have the agents of the problem in the same order, {_checks.shown(held.labels)}; got "
            f"{_checks.shown(test.labels)}"
        )
    _check_features(problem, test.features.shape[2:], isinstance(test.features, SparseRows))
    if test.total_weight is not None:
        raise ValueError(f"test must have samples of weight 1; got a total weight of {test.total_weight:g}")
    parts, weights = [], []
    for row, agent in enumerate(test.rows.tolist()):
        size, name = int(test.sizes[row]), _names.agent(agent, held.labels)
        if not size:
            raise ValueError(f"test must have a sample of every agent; {name} has none")
        rows = test.features.of_agent(row)[:size] if isinstance(test.features, SparseRows) else test.features[row, :size]
        X, y, counts = _samples(problem, rows, test.targets[row, :size], f"{name} has none")
        counts = np.broadcast_to(counts, size).astype(float)
        parts.append(HeldOut(X, y, problem.model, problem.loss, counts / counts.sum(), problem.micro_batch))
        weights.append(counts.sum())
    found = OwnedTest(tuple(parts), np.array(weights), np.asarray(test.rows), int(test.samples))
    return found.restrict(np.asarray(problem.rows))


def _check_features(problem: SampleSums, shape: tuple[int, ...], sparse: bool) -> None:
    """Raise ``TypeError`` or ``ValueError`` if a problem has no errors, or none of test samples of a ``shape``."""
    _checks.needs("test", problem.loss, "error")
    if shape != (wanted := problem.shards.features.shape[2:]):
        raise ValueError(f"test features must have shape {wanted} a sample, as in training; got {shape}")
    if sparse and not problem.model.for_sparse:
        raise TypeError(f"X of test must be dense for {problem.model}: take X.toarray()")


def _samples(problem: SampleSums, X: Any, y: np.ndarray, none: str) -> tuple[Any, np.ndarray, np.ndarray | float]:  # noqa: ANN401
    """Return features and targets as they are evaluated, and numbers of labels, of which ``none`` says what lacks them."""
    X, y = as_trained("test", X, problem.shards.features.dtype), np.ascontiguousarray(y, problem.dtype)
    X = X if sp.issparse(X) else np.ascontiguousarray(X)  # because bits of products depend on the order in memory
    problem.loss.check(y, problem.model.outputs)
    counts = problem.loss.label_counts(y)
    if not np.any(counts):
        raise ValueError(f"y of test must have labels that count with {problem.loss}; {none}")
    return X, y, counts


def as_trained(name: str, X: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a test set's features in the ``dtype`` of the training data; raise ``ValueError`` if fractions were cut off."""
    found = X.astype(dtype, copy=False)
    if sp.issparse(X):
        return found
    if dtype.kind in "iu" and X.dtype.kind == "f" and not (lost := found == X).all():
        place = tuple(np.argwhere(~lost)[0].tolist())
        raise ValueError(
            f"{name} must have whole numbers as features, as the training data, in {dtype}; got {X[place]} in sample "
            f"{place[0]}: train on X.astype(float) if features are no whole numbers"
        )
    return found


def _of_each(samples: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the same samples for each of some rows; sparse ones serve all."""
    if sp.issparse(samples):
        return samples
    return np.broadcast_to(samples, (len(rows), *samples.shape))
