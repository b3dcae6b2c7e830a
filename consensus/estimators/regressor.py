"""Regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from consensus import _checks
from consensus.estimators.base import NetworkEstimator
from consensus.estimators.coordinates import Coordinates
from consensus.estimators.validation import validated, weighed
from consensus.losses import SquaredLoss
from consensus.models import Linear


class NetworkRegressor(RegressorMixin, NetworkEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Regression by a linear model or a neural network that agents train over a network, as a scikit-learn estimator.

    The mean of ``|f(x) - y|^2 / 2`` over all samples plus a penalty is minimised. Features and targets are standardised
    internally; results are in original units. With N samples, or weights that sum to N, and any network, a linear model equals

    - ``Ridge(alpha=N * alpha)`` for ``l1_ratio=0``,
    - ``Lasso(alpha)`` for ``l1_ratio=1``, with one target,
    - ``ElasticNet(alpha, l1_ratio=l1_ratio)`` between them, with one target.

    The weights of a neural network are penalised for standardised features and targets, as by ``MLPRegressor(alpha=N * alpha)``
    on standardised data.

    Parameters
    ----------
    %(parameters)s

    Attributes
    ----------
    coef_ : ndarray (features,) or (outputs, features)
        Coefficients of a linear model.
    intercept_ : float or ndarray (outputs,)
        Intercepts of a linear model.
    %(attributes)s

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> import numpy as np
    >>> from consensus.estimators import NetworkRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> here = NetworkRegressor(hidden_layer_sizes=(), network="ring", random_state=0).fit(X, y)
    >>> there = Ridge(alpha=1e-3 * len(X)).fit(X, y)
    >>> bool(np.abs(here.coef_ - there.coef_).max() < 1e-6)
    True
    """

    def _fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        features, targets = validated(self, X, y, multi_output=True, y_numeric=True)
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = column_or_1d(targets, warn=True)
        self._single = targets.ndim == 1
        targets = _checks.floats("y", targets).astype(float, copy=False).reshape(len(targets), -1)
        features, targets, groups, weights = weighed(features, targets, groups, sample_weight)
        to = Coordinates.of(features, targets, weights)
        self._train(features, (targets - to.shift) / to.spread, SquaredLoss(), targets.shape[1], groups, to, weights)
        if self._single and isinstance(self.model_, Linear):
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the targets at the agents' mean.

        Parameters
        ----------
        X : array_like or DataFrame (samples, features)
            Features.

        Returns
        -------
        ndarray (samples,) or (samples, outputs)
            Predicted targets.
        """
        outputs = self._outputs(X)
        return outputs[:, 0] if self._single else outputs

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401  # scikit-learn has no types
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _more_tags(self) -> dict[str, bool]:  # the same, before scikit-learn 1.6
        return {"multioutput": True}
