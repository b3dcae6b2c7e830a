"""
Outliers in the data
====================

A few wrong targets spoil least squares, wherever they are. The Huber loss grows linearly for large errors, and agents
whose data have no errors help those whose data have some.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (120, 1))
y = np.sin(3 * x[:, 0]) + 0.1 * rng.standard_normal(120)
y[:24] += 3.0  # the data of the first two of ten agents are wrong
shards = consensus.partition(x, y, groups=np.arange(120) // 12)
network = topologies.ring(10)

grid = np.linspace(-1, 1, 200)[:, None]
ax = plt.figure(figsize=(7, 4), layout="constrained").gca()
ax.plot(x[24:], y[24:], ".", color="0.6", label="data")
ax.plot(x[:24], y[:24], "x", color="#d97700", label="wrong data of two agents")
for loss, colour in ((consensus.SquaredLoss(), "black"), (consensus.Huber(0.2), "#0072b2")):
    problem = consensus.Problem(consensus.MLP([1, 12, 1]), loss, shards, consensus.L2(1e-4))
    result = consensus.solve(problem, network, rounds=80, record_every=80)
    ax.plot(grid, problem.model.predict(result.mean, grid), color=colour, label=type(loss).__name__)
ax.set(xlabel="x", ylabel="y")
ax.legend()
plt.show()
