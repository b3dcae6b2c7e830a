"""
Robots around a target
======================

Each robot wants to be near an intruder of its own, and all together want their barycentre at what they protect. A robot
knows its intruder, its own place and the box that it may not leave; the barycentre is an estimate that neighbours mix.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.problems import Aggregative
from consensus.solvers import AggregativeGT

rng = np.random.default_rng(3)
angles = rng.uniform(-0.6, 2.6, 8)
intruders = np.stack([np.cos(angles), np.sin(angles)], axis=1) * rng.uniform(3, 6, (8, 1))
target, start = np.array([0.0, 0.0]), rng.uniform(-4, 4, (8, 2))


def value(x, s):
    return ((x - intruders) ** 2).sum(axis=1) / 2 + 2 * ((s - target) ** 2).sum(axis=1)


def gradients(x, s):
    return x - intruders, 4 * (s - target)


problem = Aggregative(value, gradients, agents=8, parameters=2, regularizer=consensus.Box(-4.0, 4.0))
paths = []
result = consensus.solve(
    problem,
    topologies.Static(topologies.ring(8), weights=topologies.lazy(topologies.metropolis)),
    AggregativeGT(0.02),
    rounds=500,
    start=start,
    record_every=1,
    callbacks=[lambda info: paths.append(info.w.copy())],
)
paths = np.array(paths)
mean = paths.mean(axis=1)

# %%
# Robots stop between their intruders and the places that balance the barycentre, one of them at the edge of the box.

_, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
left.plot(paths[..., 0], paths[..., 1], color="#0072b2", linewidth=0.8)
left.plot(*intruders.T, "x", color="#d55e00", label="intruders")
left.plot(*paths[-1].T, "o", color="#0072b2", label="robots")
left.plot(*mean.T, color="black", linewidth=0.8)
left.plot(*mean[-1], "s", color="black", label="their barycentre")
left.plot(*target, "*", color="#009e73", markersize=12, label="target")
left.plot([-4, 4, 4, -4, -4], [-4, -4, 4, 4, -4], color="grey", linewidth=0.6)
left.set(aspect="equal", xlabel="x", ylabel="y")
left.legend(fontsize=8)
right.semilogy(result.history["round"], result.history["stationarity"], color="#0072b2")
right.set(xlabel="round", ylabel="stationarity")
plt.show()
