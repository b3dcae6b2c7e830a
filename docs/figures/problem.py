"""Five agents on a graph, their costs of one number w, and the mean of the costs."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies

graph = topologies.small_world(5, 2, 0.5, seed=1)
w = np.linspace(-2, 3, 300)
centres = np.array([-1.0, -0.3, 0.4, 1.2, 2.0])
costs = np.log1p(
    np.multiply.outer(np.array([2.0, 0.7, 1.5, 1.0, 3.0]), np.ones_like(w)) * (w - centres[:, None]) ** 2
)
_, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", width_ratios=(1, 1.8))
consensus.plotting.topology(graph, ax=left)
for agent, cost in enumerate(costs):
    right.plot(w, cost, color="0.6", linewidth=1)
    right.text(w[cost.argmin()], -0.1, str(agent), ha="center", va="top", fontsize=8, color="0.4")
right.plot(w, costs.mean(axis=0), color="#0072b2", linewidth=2.5, label="mean of all costs")
right.plot(w[costs.mean(axis=0).argmin()], costs.mean(axis=0).min(), "o", color="#0072b2")
right.set(xlabel="w", ylabel="cost", ylim=(-0.35, 3.3))
right.legend(loc="upper center")
plt.savefig(Path(__file__).with_suffix(".png"), dpi=110)
