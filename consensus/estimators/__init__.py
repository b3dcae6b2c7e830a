"""Estimators as scikit-learn's, fitted by agents over a network."""

from consensus.estimators.classifier import NetworkClassifier
from consensus.estimators.poisson import NetworkPoissonRegressor
from consensus.estimators.regressor import NetworkRegressor

__all__ = ["NetworkClassifier", "NetworkPoissonRegressor", "NetworkRegressor"]
