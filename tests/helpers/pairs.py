"""Every loss with every regularizer, on small problems in float32."""

import itertools

import numpy as np

import consensus
from tests.helpers import engine_cases

AGENTS, SIZES = engine_cases.AGENTS, engine_cases.SIZES["unequal"]
LOSSES = {
    "squared": consensus.SquaredLoss(),
    "logistic": consensus.LogisticLoss(),
    "cross-entropy": consensus.CrossEntropy(),
    "Huber": consensus.Huber(0.5),
}
REGULARIZERS = {
    "L2": consensus.L2(0.02),
    "L1": consensus.L1(0.01),
    "elastic net": consensus.ElasticNet(0.01, 0.02),
    "groups": consensus.GroupL1(0.01, [[0, 1], [2, 3]]),
    "box": consensus.Box(-1, 1),
    "nonnegative": consensus.NonNegative(),
    "ball": consensus.L2Ball(2.0),
    "logarithms": consensus.LogSum(0.01, 1.0),
    "SCAD": consensus.SCAD(0.01),
}
PAIRS = list(itertools.product(LOSSES, REGULARIZERS))


def problem(loss, regularizer, hidden=(), scale=1, dtype=np.float32):
    rng = np.random.default_rng(0)
    X = (scale * rng.standard_normal((sum(SIZES), 4))).astype(dtype)
    y = X @ [1.0, -2.0, 0.5, 3.0] / scale + 0.1 * rng.standard_normal(len(X))
    targets = {"logistic": y > 0.2, "cross-entropy": np.digitize(y, [-2, 2])}.get(loss, y)
    shards = consensus.partition(X, targets.astype(float), AGENTS, "sizes", sizes=SIZES)
    outputs = 3 if loss == "cross-entropy" else 1
    model = consensus.MLP([4, *hidden, outputs]) if hidden else consensus.Linear(4, outputs)
    return consensus.Problem(model, LOSSES[loss], shards, REGULARIZERS[regularizer])
