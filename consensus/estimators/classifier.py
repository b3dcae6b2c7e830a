"""Classification."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from consensus.estimators.base import NetworkEstimator
from consensus.estimators.coordinates import Coordinates
from consensus.estimators.validation import validated, weighed
from consensus.losses import CrossEntropy, LogisticLoss
from consensus.models import Linear


class NetworkClassifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classification by a linear model or a neural network that agents train over a network, as a scikit-learn estimator.

    The mean logistic loss of two classes, or the cross-entropy of more, plus a penalty is minimised. Features are standardised
    internally; results are in original units. With N samples and any network, a linear model equals
    ``LogisticRegression(C=1 / (N * alpha), l1_ratio=l1_ratio)``, N their total weight if samples have weights. The weights of a
    neural network are penalised for standardised features, as by ``MLPClassifier(alpha=N * alpha)`` on standardised data.

    Parameters
    ----------
    %(parameters)s

    Attributes
    ----------
    classes_ : ndarray (classes,)
        The classes, sorted.
    coef_ : ndarray (1, features) or (classes, features)
        Coefficients of a linear model, of the second of two classes or of all.
    intercept_ : ndarray (1,) or (classes,)
        Intercepts of a linear model; those of several classes sum to zero.
    %(attributes)s

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from consensus.estimators import NetworkClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = NetworkClassifier(hidden_layer_sizes=(), agents=5, network="ring", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95, model.agents_, model.feature_names_in_[0]
    (True, 5, 'sepal length (cm)')
    """

    def _fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        features, targets = validated(self, X, y)
        targets = column_or_1d(targets, warn=True)
        check_classification_targets(targets)
        features, targets, groups, weights = weighed(features, targets, groups, sample_weight)
        self.classes_, codes = np.unique(targets, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(
                "NetworkClassifier needs samples of at least 2 classes in the data, but the data contains only one class: "
                f"{self.classes_.tolist()[0]!r}"
            )
        loss, outputs = (LogisticLoss(), 1) if count == 2 else (CrossEntropy(), count)
        self._train(features, codes[:, None], loss, outputs, groups, Coordinates.of(features, weights=weights), weights)
        if count > 2 and isinstance(self.model_, Linear):  # the same number in all biases changes nothing
            self.intercept_ -= self.intercept_.mean()

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the logits at the agents' mean.

        Parameters
        ----------
        X : array_like or DataFrame (samples, features)
            Features.

        Returns
        -------
        ndarray (samples,) or (samples, classes)
            Logits, of the second of two classes or of all.
        """
        outputs = self._outputs(X)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the probability of every class.

        Parameters
        ----------
        X : array_like or DataFrame (samples, features)
            Features.

        Returns
        -------
        ndarray (samples, classes)
            Probabilities, in the order of ``classes_``.
        """
        logits = self.decision_function(X)
        return np.stack([expit(-logits), expit(logits)], axis=1) if logits.ndim == 1 else softmax(logits, axis=1)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the most probable class of each sample.

        Parameters
        ----------
        X : array_like or DataFrame (samples, features)
            Features.

        Returns
        -------
        ndarray (samples,)
            Classes.
        """
        logits = self.decision_function(X)
        classes: np.ndarray = self.classes_
        return np.asarray(classes[(logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(axis=1)])
