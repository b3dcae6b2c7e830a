"""Estimators with weights of samples: scikit-learn's coefficients, and those of repeated samples."""

import numpy as np
import pytest
from sklearn import datasets
from sklearn.linear_model import Lasso, LogisticRegression, Ridge

from consensus.estimators import NetworkClassifier, NetworkRegressor

X, Y = datasets.load_diabetes(return_X_y=True)
IRIS, KINDS = datasets.load_iris(return_X_y=True)
LINEAR = {"hidden_layer_sizes": (), "agents": 4, "network": "ring", "random_state": 0}


def weights(samples):
    return np.random.default_rng(0).integers(0, 4, samples).astype(float)


@pytest.mark.parametrize(("l1_ratio", "alpha"), [(0.0, 1e-3), (1.0, 0.1)], ids=["Ridge", "Lasso"])
def test_a_linear_regressor_is_scikit_learns(l1_ratio, alpha):
    c = weights(len(X))
    here = NetworkRegressor(**LINEAR, alpha=alpha, l1_ratio=l1_ratio).fit(X, Y, sample_weight=c)
    there = Lasso(alpha=alpha, tol=1e-14, max_iter=100_000) if l1_ratio else Ridge(alpha=alpha * c.sum())
    there.fit(X, Y, sample_weight=c)
    np.testing.assert_allclose(here.coef_, there.coef_, rtol=0, atol=1e-6)
    assert here.intercept_ == pytest.approx(there.intercept_, abs=1e-6)


@pytest.mark.parametrize("two", [True, False], ids=["two classes", "three"])
def test_a_linear_classifier_is_scikit_learns(two):
    y, c = KINDS > 0 if two else KINDS, weights(len(IRIS))
    here = NetworkClassifier(**LINEAR, alpha=1e-2).fit(IRIS, y, sample_weight=c)
    there = LogisticRegression(C=1 / (1e-2 * c.sum()), solver="newton-cg", tol=1e-12, max_iter=10_000)
    there.fit(IRIS, y, sample_weight=c)
    np.testing.assert_allclose(here.coef_, there.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(here.predict_proba(IRIS), there.predict_proba(IRIS), rtol=0, atol=1e-7)


def test_owners_with_weights_are_agents_that_repeat_their_samples():
    c, groups = weights(len(IRIS)), np.arange(len(IRIS)) % 5
    times = np.repeat(np.arange(len(IRIS)), c.astype(int))
    settings = {"hidden_layer_sizes": (3,), "max_iter": 5, "tol": 0, "random_state": 0}
    weighted = NetworkClassifier(**settings).fit(IRIS, KINDS, groups=groups, sample_weight=c)
    repeated = NetworkClassifier(**settings).fit(IRIS[times], KINDS[times], groups=groups[times])
    np.testing.assert_allclose(weighted.predict_proba(IRIS), repeated.predict_proba(IRIS), atol=1e-8)


def test_wrong_weights_are_named():
    with pytest.raises(ValueError, match=r"^sample_weight must have shape \(442,\)"):
        NetworkRegressor().fit(X, Y, sample_weight=[1.0, 2.0])
    with pytest.raises(ValueError, match="the data contains only one class"):
        NetworkClassifier().fit(IRIS, KINDS, sample_weight=(KINDS == 1).astype(float))
