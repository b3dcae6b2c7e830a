"""
Several gradients per exchange
==============================

If messages are expensive and gradients are cheap, agents may take several local steps between two exchanges. K-GT
corrects these steps by what the neighbours' gradients are, so that agents with unlike data do not drift apart.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.solvers import KGT, GradientTracking

data = consensus.datasets.split(*consensus.datasets.load("breast_cancer"), classification=True)
shards = consensus.partition(data.X, data.y, agents=8, scheme="sorted")
problem = consensus.Problem(consensus.MLP([30, 10, 1]), consensus.LogisticLoss(), shards, consensus.L2(1e-2))
network = topologies.Static(topologies.small_world(8, 4, 0.2, seed=0))
runs = {
    "gradient tracking": consensus.solve(
        problem, network, GradientTracking(0.2), rounds=200, record_every=10
    ).history
}
for steps in (2, 5, 10):
    solver = KGT(0.1, local_steps=steps)
    runs[f"K-GT, {steps} local steps"] = consensus.solve(
        problem, network, solver, rounds=200, record_every=10
    ).history

# %%
# Over exchanges the local steps pay; over gradients they do not.

_, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
consensus.plotting.convergence(runs, "objective", "exchanges", ax=left)
consensus.plotting.convergence(runs, "objective", "gradients", ax=right, log_x=True)
right.get_legend().remove()
plt.show()
