"""
Agents with unlike data
=======================

Methods that are fast when all agents have similar data can be slow when they do not. ``partition`` deals samples out in
several ways, from equal to completely different.
"""

# %%
# ``dirichlet`` draws each agent's shares of the classes; a small concentration gives most agents one or two classes.

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.solvers import DGD, GradientTracking

X, y = consensus.datasets.load("digits")
X = X / 16
ways = {
    "iid": {},
    "Dirichlet, concentration 0.5": {"scheme": "dirichlet", "concentration": 0.5},
    "sorted by label": {"scheme": "sorted"},
}
dealt = {name: consensus.partition(X, y, agents=10, seed=0, **way) for name, way in ways.items()}

_, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
for ax, (name, shards) in zip(axes, dealt.items(), strict=True):
    counts = np.array(
        [
            np.bincount(y[shards.indices[i][shards.weights[i] > 0]].astype(int), minlength=10)
            for i in range(10)
        ]
    )
    ax.imshow(counts, cmap="Greys", aspect="auto")
    ax.set(title=name, xlabel="label")
axes[0].set_ylabel("agent")
plt.show()

# %%
# Gradient tracking mixes estimates of the common gradient, so unlike data slow it down but do not change where it ends.
# DGD with a constant step ends farther from the optimum the more the agents differ.

_, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, solver in zip(axes, (GradientTracking(0.5), DGD(0.5)), strict=True):
    runs = {}
    for name, shards in dealt.items():
        problem = consensus.Problem(
            consensus.Linear(64, outputs=10), consensus.CrossEntropy(), shards, consensus.L2(1e-2)
        )
        runs[name] = consensus.solve(
            problem, topologies.ring(10), solver, rounds=150, record_every=10
        ).history
    consensus.plotting.convergence(runs, "stationarity", ax=ax)
    ax.set_title(type(solver).__name__)
plt.show()
