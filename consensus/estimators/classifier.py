"""Classification."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from consensus.estimators.base import NetworkEstimator, validated
from consensus.estimators.coordinates import Coordinates
from consensus.losses import CrossEntropy, LogisticLoss
from consensus.models import Linear


class NetworkClassifier(ClassifierMixin, NetworkEstimator):
    """Classification by a linear model or a neural network that agents train over a network, as a scikit-learn estimator.

    The mean logistic loss of two classes, or cross-entropy of more, over all samples is minimised, plus a penalty. Features are
    standardised inside; all that is public is in original units. With N samples, a linear model is that of
    ``LogisticRegression(C=1 / (N * alpha), l1_ratio=l1_ratio)``, whatever the network. The penalty of a network's weights is on
    those for standardised features (that of ``MLPClassifier`` is ``alpha=N * alpha`` for them).

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
    classes_ : ndarray (classes,)
    coef_ : ndarray (1, features), or (classes, features) of more than two
        Of a linear model, as is ``intercept_``; the intercepts of several classes sum to zero.
    intercept_ : ndarray (1,) or (classes,)
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
    >>> from sklearn.datasets import load_iris
    >>> from consensus.estimators import NetworkClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = NetworkClassifier(hidden_layer_sizes=(), agents=5, network="ring", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95, model.agents_, model.feature_names_in_[0]
    (True, 5, 'sepal length (cm)')
    """

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Let the agents train on ``X`` (samples, features) and classes ``y``.

        Parameters
        ----------
        X : array_like or DataFrame (samples, features)
            Columns of pandas' ``category`` dtype become a feature for every category.
        y : array_like (samples,)
            Numbers or text.
        groups : array_like (samples,), optional
            Whose each row is: an agent has the rows of its group. Then ``agents`` and ``scheme`` are not used.

        Returns
        -------
        NetworkClassifier
            Itself.
        """
        features, targets = validated(self, X, y)
        targets = column_or_1d(targets, warn=True)
        check_classification_targets(targets)
        self.classes_, codes = np.unique(targets, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(
                "NetworkClassifier needs samples of at least 2 classes in the data, but the data contains only one class: "
                f"{self.classes_.tolist()[0]!r}"
            )
        loss, outputs = (LogisticLoss(), 1) if count == 2 else (CrossEntropy(), count)
        self._train(features, codes[:, None], loss, outputs, groups, Coordinates.of(features))
        if count > 2 and isinstance(self.model_, Linear):  # the same number in all biases changes nothing
            self.intercept_ -= self.intercept_.mean()
        return self

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """The logits of ``X`` (samples, features): (samples,) of the second of two classes, or (samples, classes)."""
        outputs = self._outputs(X)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probability of every class, (samples, classes) in the order of ``classes_``."""
        logits = self.decision_function(X)
        return np.stack([expit(-logits), expit(logits)], axis=1) if logits.ndim == 1 else softmax(logits, axis=1)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The most probable class of each row of ``X`` (samples, features)."""
        logits = self.decision_function(X)
        return self.classes_[(logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(axis=1)]
