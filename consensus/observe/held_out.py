"""A test set in memory, and the errors of points on it."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from consensus._contents import digest
from consensus._parallel import CHUNK_BYTES
from consensus.losses import Loss
from consensus.models import Model
from consensus.models.passes import parts, samples_at_once
from consensus.problems.draws import of_batches


class HeldOut(NamedTuple):
    """A test set, and the model and loss that are evaluated on it.

    ``shares`` (samples,) sum to one: the weights of the samples in the mean error; None if they are equal. A pass through the
    model takes ``micro_batch`` samples; None for as many as fit.
    """

    features: np.ndarray
    targets: np.ndarray
    model: Model
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
        evaluated = cast(Any, self.model).evaluated
        if buffers.ndim == 1:
            return self._errors(w, evaluated(buffers))
        return np.concatenate([self._errors(w[k : k + 1], evaluated(own)) for k, own in enumerate(buffers)])

    def _errors(self, w: np.ndarray, model: Model) -> np.ndarray:
        X, y, _, loss, shares, micro_batch = self
        most = len(y) if of_batches(loss) else micro_batch or samples_at_once(model, X.dtype)
        few = max(1, CHUNK_BYTES // (len(y) * max(getattr(model, "widths", [model.outputs])) * X.dtype.itemsize))
        errors = []
        for first in range(0, len(w), few):
            rows = w[first : first + few]
            pairs = ((_of_each(X[some], rows), _of_each(y[some], rows)) for some in parts(len(y), most))
            found = [loss.error(model.predict(rows, x), d) for x, d in pairs]
            of_samples = found[0] if len(found) == 1 else np.concatenate(found, axis=1)
            errors.append(of_samples.mean(axis=1) if shares is None else of_samples @ shares)
        return np.concatenate(errors)


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
