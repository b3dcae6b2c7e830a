"""Objectives of many samples in float32 are added up in float64: they are right to the precision of a number."""

import numpy as np
import pytest

import consensus

W = np.array([0.3, 0.1], dtype="float32")


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1 << 21, 1), dtype="float32")
    return X, (X[:, 0] + rng.standard_normal(len(X), dtype="float32") > 0).astype("float32")


@pytest.mark.slow
def test_objectives_of_millions_of_samples(samples):
    X, Y = samples
    shards, z, d = consensus.partition(X, Y, agents=1), X[:, 0] * W[0].astype(float) + W[1].astype(float), Y.astype(float)
    for loss, right in (
        (consensus.SquaredLoss(), ((z - d) ** 2).mean() / 2),
        (consensus.LogisticLoss(), (np.logaddexp(0, z) - d * z).mean()),
        (consensus.Huber(), np.where(abs(z - d) <= 1, (z - d) ** 2 / 2, abs(z - d) - 0.5).mean()),
    ):
        assert consensus.Problem(consensus.Linear(1), loss, shards).objective(W) == pytest.approx(right, rel=5e-7)


@pytest.mark.slow
def test_a_network_without_a_kernel(samples):
    X, Y = samples
    problem = consensus.Problem(consensus.MLP([1, 2, 1]), consensus.SquaredLoss(), consensus.partition(X, Y, agents=1))
    w = problem.model.init(np.random.default_rng(0)).astype("float32")
    outputs = problem.model.predict(w.astype(float), X.astype(float))[:, 0]
    assert problem.objective(w) == pytest.approx(((outputs - Y.astype(float)) ** 2).mean() / 2, rel=5e-7)
