"""
Fewer bytes
===========

A compressor makes a short message of a row of numbers. Methods for compressed messages remember what they sent, so
nothing is lost for good, and the history counts the bytes that are sent.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.compression import Quantize, TopK
from consensus.solvers import BEER, NEXT, Compressed, GradientTracking
from consensus.surrogates import PartialLinearization

X, y = consensus.datasets.load("breast_cancer")
data = consensus.datasets.split(X, y, classification=True)
shards = consensus.partition(data.X, data.y, agents=8, scheme="sorted")
problem = consensus.Problem(consensus.Linear(30), consensus.LogisticLoss(), shards, consensus.L2(0.05))
network = topologies.Static(topologies.ring(8))
surrogate = PartialLinearization(tau=0.5)
solvers = {
    "gradient tracking": GradientTracking(),
    "BEER, a fifth of the entries": BEER(TopK(0.2), gamma=0.3),
    "NEXT": NEXT(surrogate, 0.2),
    "NEXT, 6 bits a number": Compressed(NEXT(surrogate, 0.2), Quantize(6)),
}
runs = {
    name: consensus.solve(problem, network, solver, rounds=600, record_every=20).history
    for name, solver in solvers.items()
}

# %%
# Over rounds compression costs a little, or nothing. Over bytes it pays.

_, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
consensus.plotting.convergence(runs, "stationarity", "round", ax=left)
consensus.plotting.convergence(runs, "stationarity", "bytes", ax=right, log_x=True)
right.get_legend().remove()
plt.show()
