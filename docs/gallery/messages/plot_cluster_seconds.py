"""
Seconds on your network
=======================

A history counts exchanges, bytes and operations. :class:`consensus.costs.Cluster` turns them into seconds on machines
and links that you describe, before you have them.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus import centralized
from consensus.costs import Cluster, load
from consensus.solvers import KGT

data = consensus.datasets.split(*consensus.datasets.load("breast_cancer"), classification=True)
shards = consensus.partition(data.X, data.y, agents=8, scheme="sorted")
problem = consensus.Problem(consensus.MLP([30, 10, 1]), consensus.LogisticLoss(), shards, consensus.L2(1e-2))
ring = topologies.ring(8)
goal = 0.12
runs = {
    "FedAvg": centralized.solve(
        problem,
        centralized.FedAvg(0.5, local_steps=5),
        rounds=200,
        record_every=1,
        stop=f"objective <= {goal}",
    ),
    "K-GT on a ring": consensus.solve(
        problem, ring, KGT(0.1, local_steps=5), rounds=400, record_every=1, stop=f"objective <= {goal}"
    ),
    "AdaptiveNEXT on a ring": consensus.solve(
        problem, ring, rounds=100, record_every=1, stop=f"objective <= {goal}"
    ),
}
clusters = {
    "one room": Cluster(latency=5e-5, bandwidth=1e9, flops=1e10),
    "cities": Cluster(latency=2e-2, bandwidth=1e7, flops=1e10),
    "radio": Cluster(latency=5e-2, bandwidth=1e4, flops=1e9),
}

# %%
# Seconds until the objective is 0.12:

ax = plt.figure(figsize=(7, 4), layout="constrained").gca()
for row, (name, result) in enumerate(runs.items()):
    work = load(result.history, problem, None if name == "FedAvg" else ring)
    seconds = [cluster.seconds(work)[-1] for cluster in clusters.values()]
    ax.bar(
        np.arange(3) + 0.27 * (row - 1), seconds, 0.25, label=name, color=("0.6", "#d97700", "#0072b2")[row]
    )
ax.set_xticks(range(3), clusters)
ax.set(yscale="log", ylabel="predicted seconds")
ax.legend()
plt.show()
