"""Regression."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from consensus import _checks
from consensus.estimators.base import NetworkEstimator, validated
from consensus.estimators.coordinates import Coordinates
from consensus.losses import SquaredLoss
from consensus.models import Linear


class NetworkRegressor(RegressorMixin, NetworkEstimator):
    """Regression by a linear model or a neural network that agents train over a network, as a scikit-learn estimator.

    The mean of ``|f(x) - y|^2 / 2`` over all samples is minimised, plus a penalty. Features and targets are standardised
    inside; all that is public is in original units. With N samples, a linear model is that of

    - ``Ridge(alpha=N * alpha)`` for ``l1_ratio=0``,
    - ``Lasso(alpha)`` for ``l1_ratio=1``, with one target,
    - ``ElasticNet(alpha, l1_ratio=l1_ratio)`` between them, with one target,

    whatever the network. The penalty of a network's weights is on those for standardised features and targets (that of
    ``MLPRegressor`` is ``alpha=N * alpha`` for them).

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int
        Units of the hidden layers (tanh); ``()`` is a linear model.
    alpha : float
        Weight of the penalty ``alpha (l1_ratio |W|_1 + (1 - l1_ratio)/2 |W|^2)``. Intercepts and biases are not penalised.
    l1_ratio : float
        From 0, L2, to 1, L1.
    agents : int
        How many agents share the samples. With ``groups`` there is one a group, and of a graph or schedule as many as it has.
    network : str, networkx.Graph or schedule
        ``"erdos_renyi"`` (connected, drawn from ``random_state``), ``"ring"``, ``"path"``, ``"star"``, ``"complete"``; or any
        graph or schedule that :func:`consensus.solve` takes.
    solver : Solver, optional
        By default :class:`consensus.solvers.AdaptiveNEXT`, which has nothing to tune.
    scheme : {"iid", "sorted", "dirichlet"}
        How :func:`consensus.partition` gives samples to agents.
    max_iter : int
        Rounds at most.
    tol : float
        The agents stop when stationarity and disagreement are both at most this. Those of a linear model go on to
        ``max(1e-4 tol, 1e-10)``: coefficients are then as exact as those of scikit-learn.
    random_state : int, RandomState or None
        Of the partition, a random network and the start.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    coef_ : ndarray (features,) or (outputs, features)
        Of a linear model, as is ``intercept_``.
    intercept_ : float or ndarray (outputs,)
    history_ : History
        Of the run, in the agents' standardised units.
    network_ : schedule
    agents_ : int
        How many took part.
    n_iter_ : int
        Rounds done.
    n_features_in_, feature_names_in_
        As in scikit-learn, the second for data frames. A column of ``category`` dtype is one of them.
    columns_ : Columns or None
        Of a data frame with columns of pandas' ``category`` dtype: ``columns_.features`` are the names of the model's features,
        one for every category, to which ``coef_`` belongs.
    model_ : Linear or MLP
    parameters_ : ndarray (P,)
        Of the model, for ``X`` and ``y`` in original units: the agents' mean.

    Raises
    ------
    ValueError, TypeError
        By ``fit``: as scikit-learn's estimators, for sparse, missing or infinite data and what else does not fit; where there
        are fewer samples than agents, or not as many groups as a graph has nodes.

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` rounds were not enough for ``tol``.

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

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Let the agents train on ``X`` (samples, features) and ``y``.

        Parameters
        ----------
        X : array_like or DataFrame (samples, features)
            Columns of pandas' ``category`` dtype become a feature for every category.
        y : array_like (samples,) or (samples, outputs)
        groups : array_like (samples,), optional
            Whose each row is: an agent has the rows of its group. Then ``agents`` and ``scheme`` are not used.

        Returns
        -------
        NetworkRegressor
            Itself.
        """
        features, targets = validated(self, X, y, multi_output=True, y_numeric=True)
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = column_or_1d(targets, warn=True)
        self._single = targets.ndim == 1
        targets = _checks.floats("y", targets).astype(float, copy=False).reshape(len(targets), -1)
        to = Coordinates.of(features, targets)
        self._train(features, (targets - to.shift) / to.spread, SquaredLoss(), targets.shape[1], groups, to)
        if self._single and isinstance(self.model_, Linear):
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The targets of ``X`` (samples, features), by the agents' mean: (samples,) or (samples, outputs)."""
        outputs = self._outputs(X)
        return outputs[:, 0] if self._single else outputs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _more_tags(self):  # the same, before scikit-learn 1.6
        return {"multioutput": True}
