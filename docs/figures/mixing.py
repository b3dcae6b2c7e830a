"""Values of sixteen agents that only mix: on a ring, and on a random regular graph."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import topologies

_, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
start = np.sort(np.random.default_rng(0).uniform(0, 1, 16))
for ax, (name, graph) in zip(
    axes,
    {
        "ring": topologies.ring(16),
        "random, four neighbours each": topologies.random_regular(16, 4, seed=0),
    }.items(),
    strict=True,
):
    matrix, x = topologies.metropolis(graph), [start]
    for _ in range(25):
        x.append(matrix @ x[-1])
    ax.plot(x, color="#0072b2", linewidth=0.9)
    ax.axhline(start.mean(), color="black", linestyle=":")
    ax.set(title=f"{name}: gap {topologies.spectral_gap(matrix):.2f}", xlabel="exchanges")
axes[0].set_ylabel("value of each agent")
plt.savefig(Path(__file__).with_suffix(".png"), dpi=110)
