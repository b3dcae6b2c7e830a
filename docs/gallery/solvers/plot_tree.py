"""
Gossip, or sums over a tree
===========================

On a static undirected network the agents can build a spanning tree and add up values along it. Its root is a single
point of failure. In return, L-BFGS runs over the tree exactly as on one computer.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.solvers import AdaptiveNEXT, GradientTracking, TreeLBFGS, TreeNewton

data = consensus.datasets.split(*consensus.datasets.load("breast_cancer"), classification=True)
shards = consensus.partition(data.X, data.y, agents=16, scheme="sorted")
problem = consensus.Problem(consensus.MLP([30, 10, 1]), consensus.LogisticLoss(), shards, consensus.L2(1e-2))
network = topologies.grid(4, 4)
solvers = {
    "AdaptiveNEXT (gossip)": (AdaptiveNEXT(), 60),
    "gradient tracking (gossip)": (GradientTracking(0.3), 400),
    "TreeLBFGS": (TreeLBFGS(), 120),
    "TreeNewton": (TreeNewton(), 60),
}
runs = {
    name: consensus.solve(problem, network, solver, rounds=rounds, exchanges=1000, record_every=2).history
    for name, (solver, rounds) in solvers.items()
}

# %%
# By exchanges, and by bytes sent in the whole network:

_, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for ax, x in zip(axes, ("exchanges", "bytes"), strict=True):
    consensus.plotting.convergence(runs, "stationarity", x, ax=ax, log_x=True)
axes[1].get_legend().remove()
plt.show()
