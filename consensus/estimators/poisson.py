"""Regression of counts."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from consensus import _checks
from consensus.estimators.base import NetworkEstimator
from consensus.estimators.coordinates import Coordinates
from consensus.estimators.validation import validated, weighed
from consensus.losses import PoissonLoss
from consensus.models import Linear


class NetworkPoissonRegressor(RegressorMixin, NetworkEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Regression of counts by a linear model or a neural network of the logarithm of their expectation, as an estimator.

    The mean of ``exp(f(x)) - y f(x)`` over all samples plus a penalty is minimised. Features are standardised internally. With
    any network a linear model equals ``PoissonRegressor(alpha)`` for ``l1_ratio=0``.

    Parameters
    ----------
    %(parameters)s

    Attributes
    ----------
    coef_ : ndarray (features,)
        Coefficients of a linear model.
    intercept_ : float
        Intercept of a linear model.
    %(attributes)s

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import PoissonRegressor
    >>> from consensus.estimators import NetworkPoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> y = rng.poisson(np.exp(0.5 + X @ [0.3, -0.2, 0.0]))
    >>> here = NetworkPoissonRegressor(hidden_layer_sizes=(), network="ring", max_iter=300, random_state=0).fit(X, y)
    >>> there = PoissonRegressor(alpha=1e-3, tol=1e-10).fit(X, y)
    >>> bool(np.abs(here.coef_ - there.coef_).max() < 1e-6)
    True
    """

    def _fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        features, targets = validated(self, X, y, y_numeric=True)
        targets = _checks.floats("y", targets).astype(float, copy=False).reshape(len(targets), -1)
        loss = PoissonLoss()
        loss.check(targets, 1)
        features, targets, groups, weights = weighed(features, targets, groups, sample_weight)
        if not targets.any():
            raise ValueError("y must have a count above 0: the logarithm of the expectation of zeros alone is not finite")
        self._train(features, targets, loss, 1, groups, Coordinates.of(features, weights=weights), weights)
        if isinstance(self.model_, Linear):
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the expected counts at the agents' mean.

        Parameters
        ----------
        X : array_like or DataFrame (samples, features)
            Features.

        Returns
        -------
        ndarray (samples,)
            Expectations of the counts.
        """
        return np.asarray(np.exp(self._outputs(X)[:, 0]))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return D^2, the share of the Poisson deviance that is explained, as ``PoissonRegressor`` does.

        Parameters
        ----------
        X : array_like or DataFrame (samples, features)
            Features.
        y : array_like (samples,)
            Counts.
        sample_weight : array_like (samples,), optional
            Weight of each row.

        Returns
        -------
        float
            At most 1.
        """
        from sklearn.metrics import d2_tweedie_score

        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def predictor(self) -> NoReturn:
        """Not offered: a predictor's outputs are logarithms of counts.

        Raises
        ------
        TypeError
            Always: keep the estimator by ``skops`` or ``joblib``.
        """
        raise TypeError("predictors have no logarithmic link: keep the estimator, such as by joblib.dump(estimator, path)")

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401  # scikit-learn has no types
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
