"""
Prune inputs of a network
=========================

``GroupL1`` puts all weights that leave an input, or a unit, into one group, and sets whole groups to zero: the agents
agree on which inputs they need.
"""

# %%
# Ten inputs of diabetes, and ten that are noise.

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.solvers import NEXT
from consensus.surrogates import PartialLinearization

X, y = consensus.datasets.load("diabetes")
noise = np.random.default_rng(0).standard_normal(X.shape)
data = consensus.datasets.split(np.hstack([X, noise]), y)
model = consensus.MLP([20, 10, 1])
shards = consensus.partition(data.X, data.y, agents=8)
weights = np.arange(200).reshape(20, 10)  # the first layer's weights, a row per input
kept = {}
for strength in (0.01, 0.02, 0.04):
    problem = consensus.Problem(
        model, consensus.SquaredLoss(), shards, consensus.GroupL1(strength, list(weights))
    )
    result = consensus.solve(
        problem,
        topologies.ring(8),
        NEXT(PartialLinearization(tau=1.0), 0.3),
        rounds=80,
        record_every=80,
        test=(data.X_test, data.y_test),
    )
    kept[f"{strength}, test error {result.history['test_error'][-1]:.2f}"] = np.linalg.norm(
        result.mean[weights], axis=1
    )

# %%
# The norm of each input's weights. The names of the data set: s5 and bmi stay longest.

ax = plt.figure(figsize=(9, 4), layout="constrained").gca()
for column, (name, norms) in enumerate(kept.items()):
    ax.bar(
        np.arange(20) + 0.28 * (column - 1),
        norms,
        0.26,
        label=f"weight {name}",
        color=("0.7", "#0072b2", "#7a1040")[column],
    )
names = ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6", *["noise"] * 10]
ax.set_xticks(range(20), names, rotation=60)
ax.set_ylabel("norm of the input's weights")
ax.legend()
plt.show()
