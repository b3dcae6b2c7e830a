"""
Adam, Muon and momentum over a network
======================================

A *direction* turns gradients into steps, as the optimisers of deep learning do. It fits into several solvers: inside
gradient tracking Adam becomes GTAdam.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.directions import Adam, Momentum, Muon
from consensus.solvers import GradientTracking

X, y = consensus.datasets.load("digits")
data = consensus.datasets.split(X / 16, y, classification=True)
shards = consensus.partition(data.X, data.y, agents=8, scheme="dirichlet")
problem = consensus.Problem(consensus.MLP([64, 32, 10]), consensus.CrossEntropy(), shards, consensus.L2(1e-4))
network = topologies.OnePeerExponential(8)
solvers = {
    "no direction": GradientTracking(0.3, batch=32),
    "momentum": GradientTracking(0.05, batch=32, direction=Momentum(0.9)),
    "Adam": GradientTracking(0.01, batch=32, direction=Adam()),
    "Muon": GradientTracking(0.03, batch=32, direction=Muon(weight_decay=0.0)),
}
runs = {
    name: consensus.solve(
        problem, network, solver, rounds=150, record_every=10, test=(data.X_test, data.y_test)
    ).history
    for name, solver in solvers.items()
}
_, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
consensus.plotting.convergence(runs, "objective", "epochs", ax=left)
consensus.plotting.convergence(runs, "test_error", "epochs", ax=right)
right.get_legend().remove()
plt.show()
