"""A test set that is read as it is needed, and the errors of points on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems.held_out import HeldOut, as_trained
from consensus.streaming.lazy_shards import LazyShards
from consensus.streaming.mapped import file_of

if TYPE_CHECKING:
    from consensus.streaming.lazy_problem import LazyProblem


class ReadTest(NamedTuple):
    """A test set that is read as the samples of a :class:`LazyProblem` are, and the problem whose model and loss meet it."""

    shards: LazyShards  # of one agent, which has the test set
    problem: LazyProblem

    @property
    def samples(self) -> int:
        return self.shards.samples

    def digests(self) -> list[str]:
        """Return a digest of the test set, by which checkpoints know it."""
        return self.shards.digests()

    def errors(self, w: np.ndarray, buffers: np.ndarray | None = None) -> np.ndarray:
        """Return the mean error of every row of ``w``, some samples at a time; ``buffers`` are None, as there are none."""
        wrong, total = np.zeros(len(w)), 0.0
        for start in range(0, self.samples, self.shards.chunk):
            X, y, counts = self.read(start, start + self.shards.chunk)
            wrong += self._wrong(w, X, y, counts)
            total += counts.sum()
        if not total:
            raise ValueError(f"test must have labels that count with {self.problem.loss}; it ignores them all")
        return wrong / total

    def read(self, start: int, stop: int) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return inputs and targets of some samples, and how many of each one's labels count."""
        loss = self.problem.loss
        X, y = self.shards.read(0, np.arange(start, min(stop, self.samples)))
        y = y.astype(self.problem.dtype)
        counts = loss.label_counts(y) if hasattr(loss, "label_counts") else 1.0
        return X, y, np.broadcast_to(counts, len(y)).astype(float)

    def _wrong(self, w: np.ndarray, X: Any, y: np.ndarray, counts: np.ndarray) -> np.ndarray:  # noqa: ANN401  # as collated
        model: Any = self.problem.model  # which takes collated inputs, too, if there are any
        loss = self.problem.loss
        if self.problem.trial is not None:
            X = as_trained("test", X, self.problem.trial.shards.features.dtype)
            return HeldOut(np.ascontiguousarray(X), y, model, loss, counts, self.problem.micro_batch).errors(w)
        of_rows = [loss.error(model.predict(row[None], [X]), y[None])[0] @ counts for row in w]
        return np.array(of_rows)


def read_test(problem: LazyProblem, test: Any) -> ReadTest | None:  # noqa: ANN401  # any dataset
    """Return the test set; None if it is a pair (X, y) in memory, for a problem whose samples are such pairs.

    It raises a ``TypeError`` or ``ValueError`` if its first samples do not fit the problem.
    """
    chunk, collate = problem.shards.chunk, problem.shards.collate
    pair = isinstance(test, tuple | list) and len(test) == 2
    if collate is None and pair and not (isinstance(test[0], np.ndarray) and file_of(test[0]) is not None):
        return None
    try:
        shards = LazyShards.from_list([test], collate, chunk=chunk)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("datasets[0]", "test")) from error
    _checks.needs("test", problem.loss, "error")
    found = ReadTest(shards, problem)
    X, y, counts = found.read(0, 3)
    if problem.trial is not None:
        wanted = problem.trial.shards.features.shape[2:]
        if X.shape[1:] != wanted:
            raise ValueError(f"test features must have shape {wanted} a sample, as in training; got {X.shape[1:]}")
        problem.loss.check(y, problem.model.outputs)
    start = problem.model.init(np.random.default_rng(0)).astype(problem.dtype)
    found._wrong(start[None], X, y, counts)
    return found
