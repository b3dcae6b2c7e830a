"""
Agents that move
================

Robots move in a square and hear each other within a radius. The network changes in every round, and is often not
connected; over several rounds everyone hears from everyone.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies

network = topologies.Mobile(20, radius=0.25, speed=0.03, seed=0)
_, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
for ax, round in zip(axes, (0, 5, 10, 15), strict=True):
    places = network.positions(round)
    graph = network.graph(round)
    for i, j in graph.edges:
        ax.plot(*places[[i, j]].T, color="0.6", linewidth=1)
    ax.plot(*places.T, "o", color="#0072b2")
    ax.set(title=f"round {round}", xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[], yticks=[])
plt.show()

# %%
# How many rounds does it take until the union of the graphs connects all agents?

print("window:", topologies.joint_connectivity(network, 200), "rounds")

# %%
# AdaptiveNEXT needs no settings and no fixed network.

X, y = consensus.datasets.load("diabetes")
shards = consensus.partition(X / X.std(axis=0), (y - y.mean()) / y.std(), agents=20, scheme="sorted")
problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(1e-2))
result = consensus.solve(problem, network, rounds=120, record_every=4)
_, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
consensus.plotting.convergence(result.history, "objective", ax=left)
consensus.plotting.convergence(result.history, "disagreement", ax=right)
plt.show()
