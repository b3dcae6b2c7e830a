"""
All agents on one device
========================

Forty agents train a network each, and all rows are one tensor of PyTorch. On a machine with a GPU write ``Device("cuda")``;
everything else stays as it is.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.device import Device
from consensus.solvers import DSGDm, GradientTracking

engine = Device("cpu")  # Device("cuda"), Device("mps")

data = consensus.datasets.load("digits")
parts = consensus.datasets.split(data.X.astype("float32"), data.y, classification=True, seed=0)
shards = consensus.partition(parts.X, parts.y, agents=40, scheme="dirichlet", concentration=0.3, seed=0)
problem = consensus.Problem(consensus.MLP([64, 32, 10]), consensus.CrossEntropy(), shards, consensus.L2(1e-4))
network = topologies.Static(topologies.torus(5, 8))
options = {"rounds": 300, "record_every": 20, "test": (parts.X_test, parts.y_test), "engine": engine}
runs = {
    "gradient tracking": consensus.solve(problem, network, GradientTracking(0.3, batch=8), **options),
    "momentum": consensus.solve(problem, network, DSGDm(0.1, batch=8), **options),
}

# %%
# The worst agent's test error, and how far agents are apart. A checkpoint of this run goes on on any other engine.

_, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for (name, result), style in zip(runs.items(), ("-", "--")):
    history = result.history
    left.plot(history["round"], 100 * history["test_error_worst"], style, color="black", label=name)
    right.semilogy(history["round"][1:], history["disagreement"][1:], style, color="black", label=name)
left.set(xlabel="round", ylabel="test error of the worst agent (%)", ylim=(0, 100))
right.set(xlabel="round", ylabel="disagreement (root mean square)")
left.legend()
plt.show()
