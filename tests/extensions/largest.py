"""The largest entry as a regularizer, written from the documentation of Regularizer alone: value and prox, nothing else."""

from dataclasses import dataclass

import numpy as np

from consensus.regularizers import Regularizer


@dataclass(frozen=True)
class Largest(Regularizer):
    """``r(w) = weight max_k |w_k|``. Its prox takes off v its projection on the l1 ball of radius ``step weight``.

    References
    ----------
    Parikh, Boyd, "Proximal algorithms", Foundations and Trends in Optimization 1(3), 2014, sections 2.5 and 6.5.
    """

    weight: float

    def value(self, w):
        return self.weight * np.abs(w).max(axis=-1)

    def prox(self, v, step):
        radius = step * self.weight
        sizes = -np.sort(-np.abs(v), axis=-1)
        # The projection lowers all moduli by one level, to zero at least, so that what is left of them sums to the radius.
        levels = (np.cumsum(sizes, axis=-1) - radius) / np.arange(1, v.shape[-1] + 1)
        level = np.maximum(levels.max(axis=-1, keepdims=True), 0)
        return np.clip(v, -level, level).astype(v.dtype)
