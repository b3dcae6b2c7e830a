"""A test set in memory, and the errors of points on it."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from consensus._parallel import CHUNK_BYTES
from consensus.losses import Loss
from consensus.models import Model


class HeldOut(NamedTuple):
    """A test set, and the model and loss that are evaluated on it.

    ``shares`` (samples,) sum to one: the weights of the samples in the mean error; None if they are equal.
    """

    features: np.ndarray
    targets: np.ndarray
    model: Model
    loss: Loss
    shares: np.ndarray | None = None

    @property
    def samples(self) -> int:
        return len(self.targets)

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
