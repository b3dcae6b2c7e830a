"""
Exact averages with one neighbour a round
=========================================

On a ring agents agree only in the limit. On a base-(k+1) graph each of them meets at most one other agent per round,
and after a few rounds all of them hold the exact average.
"""

# %%
# Agents start with random numbers and only mix them. The disagreement is the root mean square distance to the average.

import matplotlib.pyplot as plt
import numpy as np

import topologies

agents = 25
networks = {
    "ring": topologies.Static(topologies.ring(agents)),
    "random matching": topologies.Matchings(agents, seed=0),
    "one-peer exponential": topologies.OnePeerExponential(agents),
    "base-2 graph": topologies.BaseGraph(agents),
}
x0 = np.random.default_rng(0).standard_normal(agents)
ax = plt.figure(figsize=(7, 4), layout="constrained").gca()
for marker, (name, network) in zip("osD^", networks.items(), strict=True):
    x, spread = x0, [x0.std()]
    for round in range(30):
        x = network.weights(network.key(round)) @ x
        spread.append(max(x.std(), 1e-17))
    ax.semilogy(spread, marker=marker, markevery=3, label=name)
ax.set(xlabel="rounds", ylabel="disagreement", ylim=(1e-17, 3))
ax.legend()
plt.show()

# %%
# The schedule of 25 agents repeats after a few rounds; each is a matching, in which some agents may have no partner.

network = topologies.BaseGraph(agents)
print(f"period {network.period}")
_, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
angle = 2 * np.pi * np.arange(agents) / agents
for round, ax in enumerate(axes):
    matrix = network.weights(network.key(round)).tocoo()
    for i, j in zip(matrix.row, matrix.col, strict=True):
        if i < j:
            ax.plot(np.cos(angle[[i, j]]), np.sin(angle[[i, j]]), color="#0072b2")
    ax.plot(np.cos(angle), np.sin(angle), "o", color="black", markersize=4)
    ax.set(title=f"round {round}", aspect="equal")
    ax.axis("off")
plt.show()
