"""The Poisson loss, written from the documentation of Loss alone."""

from dataclasses import dataclass

import numpy as np

from consensus.losses import Loss


@dataclass(frozen=True)
class Poisson(Loss):
    """``l(f, d) = exp(f) - d f``: the negative log-likelihood of counts d whose expectation is exp(f), but for a constant."""

    def value(self, outputs, targets):
        return (np.exp(outputs) - targets * outputs).sum(axis=-1)

    def gradient(self, outputs, targets):
        return np.exp(outputs) - targets

    def curvature(self, outputs, targets):
        return np.exp(outputs)

    def error(self, outputs, targets):
        return np.square(np.exp(outputs) - targets).sum(axis=-1)

    def check(self, targets, outputs):
        super().check(targets, outputs)
        if (targets < 0).any() or (targets != np.rint(targets)).any():
            raise ValueError("Poisson takes counts 0, 1, 2, ... as targets")
