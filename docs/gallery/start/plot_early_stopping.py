"""
When to stop
============

A run can watch each column of its history, and metrics of your own. Here it stops when the test error has not fallen
for eight recorded rounds, and keeps the best point.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.observe import EarlyStopping
from consensus.solvers import GradientTracking

data = consensus.datasets.split(
    *consensus.datasets.load("breast_cancer"), classification=True, test_size=0.5, seed=3
)
problem = consensus.Problem(
    consensus.MLP([30, 30, 1]),
    consensus.LogisticLoss(),
    consensus.partition(data.X, data.y, agents=8),
    consensus.L2(1e-5),
)
stopping = EarlyStopping(column="test_error", patience=8)
result = consensus.solve(
    problem,
    topologies.ring(8),
    GradientTracking(0.3),
    rounds=2000,
    record_every=20,
    test=(data.X_test, data.y_test),
    callbacks=[stopping],
)
print(result.reason)
print(f"best: round {result.best.round}, {result.best.value:.1%} of the test labels wrong")

# %%
# The objective goes on falling, but more rounds predict no better: the network begins to learn the training samples by
# heart.

_, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for ax, column in zip(axes, ("objective", "test_error"), strict=True):
    consensus.plotting.convergence(result.history, column, ax=ax)
    ax.axvline(result.best.round, color="0.6", linestyle=":")
axes[1].text(result.best.round, result.history["test_error"][1], " best round", color="0.4")
plt.show()
