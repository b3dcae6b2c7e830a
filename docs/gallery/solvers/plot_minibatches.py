"""
Minibatches
===========

With large data an agent takes a few of its samples in each round. Their noise keeps a constant step away from the
optimum; variance reduction removes it, and falling steps do too.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.solvers import GTSAGA, GradientTracking
from consensus.step_sizes import StepDecay

X, y = consensus.datasets.load("digits")
data = consensus.datasets.split(X / 16, y, classification=True)
shards = consensus.partition(data.X, data.y, agents=8, scheme="dirichlet")
problem = consensus.Problem(
    consensus.Linear(64, outputs=10), consensus.CrossEntropy(), shards, consensus.L2(1e-2)
)
network = topologies.Static(topologies.small_world(8, 4, 0.3, seed=0))
solvers = {
    "all samples": GradientTracking(0.3),
    "batches of 16": GradientTracking(0.3, batch=16),
    "batches of 16, falling step": GradientTracking(StepDecay(0.3, 200, 0.5), batch=16),
    "batches of 16, GT-SAGA": GTSAGA(0.1, batch=16),
}
runs = {}
for name, solver in solvers.items():
    rounds = 100 if name == "all samples" else 1000
    runs[name] = consensus.solve(problem, network, solver, rounds=rounds, record_every=rounds // 25).history

# %%
# A pass over the data is 11 or 12 rounds of 16 samples per agent. Batches are far ahead at first.

_, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
consensus.plotting.convergence(runs, "stationarity", "epochs", ax=left)
consensus.plotting.convergence(runs, "stationarity", "exchanges", ax=right)
right.get_legend().remove()
plt.show()
