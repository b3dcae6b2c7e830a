"""Objectives of many samples in float32 are added up in float64: they are right to the precision of a number."""

import numpy as np
import pytest

import consensus

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1 << 21, 1), dtype="float32")
Y = (X[:, 0] + RNG.standard_normal(len(X), dtype="float32") > 0).astype("float32")
W = np.array([0.3, 0.1], dtype="float32")
Z, D = X[:, 0] * W[0].astype(float) + W[1].astype(float), Y.astype(float)
RIGHT = {
    "SquaredLoss": ((Z - D) ** 2).mean() / 2,
    "LogisticLoss": (np.logaddexp(0, Z) - D * Z).mean(),
    "Huber": np.where(abs(Z - D) <= 1, (Z - D) ** 2 / 2, abs(Z - D) - 0.5).mean(),
}


@pytest.mark.parametrize("loss", RIGHT)
def test_objectives_of_millions_of_samples(loss):
    problem = consensus.Problem(consensus.Linear(1), getattr(consensus, loss)(), consensus.partition(X, Y, agents=1))
    assert problem.objective(W) == pytest.approx(RIGHT[loss], rel=5e-7)


def test_a_network_without_a_kernel():
    problem = consensus.Problem(consensus.MLP([1, 2, 1]), consensus.SquaredLoss(), consensus.partition(X, Y, agents=1))
    w = problem.model.init(RNG).astype("float32")
    outputs = problem.model.predict(w.astype(float), X.astype(float))[:, 0]
    assert problem.objective(w) == pytest.approx(((outputs - D) ** 2).mean() / 2, rel=5e-7)
