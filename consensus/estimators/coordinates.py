"""Standardised coordinates, in which agents train, and original ones."""

from typing import NamedTuple

import numpy as np

from consensus.models import MLP, Linear
from consensus.regularizers import L2, WeightedElasticNet


class Coordinates(NamedTuple):
    """Features x = mean + scale z (features,) and targets y = shift + spread u (outputs,), where agents get z and u."""

    mean: np.ndarray
    scale: np.ndarray
    shift: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray | None = None, weights: np.ndarray | None = None) -> "Coordinates":
        """Return coordinates in which features, and targets (samples, outputs) if given, are standardised, by their weights."""
        from sklearn.preprocessing import StandardScaler

        features = StandardScaler().fit(X, sample_weight=weights)
        if y is None:
            return cls(features.mean_, features.scale_, np.zeros(1), np.ones(1))
        targets = StandardScaler().fit(y, sample_weight=weights)
        return cls(features.mean_, features.scale_, targets.mean_, targets.scale_)

    def penalty(self, model: Linear | MLP, alpha: float, l1_ratio: float) -> L2 | WeightedElasticNet:
        """Return the penalty ``alpha (l1_ratio |W|_1 + (1 - l1_ratio)/2 |W|^2)`` of the weights, without biases.

        For a linear model W is in original units, and agents minimise the original U over spread^2 of every target; for a
        neural network W is in the agents' units.
        """
        if alpha == 0:
            return L2(0.0)  # which every solver treats as no regularizer
        l1, l2 = np.zeros((2, model.parameters))
        for squares, layers in ((False, model._split(l1)), (True, model._split(l2))):
            for weights, _ in layers:
                factor = self.spread / self.scale[:, None] if len(layers) == 1 else 1.0  # original weights over the agents'
                unit = self.spread**2 if len(layers) == 1 else 1.0
                weights[...] = (factor**2 if squares else factor) / unit
        return WeightedElasticNet(alpha * l1_ratio * l1, alpha * (1 - l1_ratio) * l2)

    def original(self, model: Linear | MLP, w: np.ndarray) -> np.ndarray:
        """Return the parameters (P,) for x and y of the model with parameters ``w`` (P,) for z and u."""
        w = w.copy()
        layers = model._split(w)
        (first, bias), (last, end) = layers[0], layers[-1]
        first /= self.scale[:, None]
        bias -= self.mean @ first
        last *= self.spread
        end *= self.spread
        end += self.shift
        return w
