"""
Find a source by distances
==========================

Sensors measure their distance to a source, with noise. Each knows its own place and measurement; they are linked to
sensors nearby, and there is no centre that collects the measurements. The cost is nonconvex and given by two functions,
without a model.
"""

# %%
# Agent i has the cost ``(|w - p_i|^2 - d_i^2)^2 / 4`` with its place p_i and its measured distance d_i.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import consensus
import topologies

rng = np.random.default_rng(3)
graph = topologies.random_geometric(25, 0.32, seed=5)
places = np.array([graph.nodes[agent]["pos"] for agent in graph])
source = np.array([0.62, 0.38])
measured = np.linalg.norm(places - source, axis=1) + 0.03 * rng.standard_normal(25)


def value(w, rows):
    return (((w - places[rows]) ** 2).sum(axis=1) - measured[rows] ** 2) ** 2 / 4


def gradient(w, rows):
    away = w - places[rows]
    return ((away**2).sum(axis=1) - measured[rows] ** 2)[:, None] * away


problem = consensus.Problem.from_functions(value, gradient, agents=25, parameters=2)
guesses, points = rng.random((25, 2)), []
result = consensus.solve(
    problem,
    graph,
    start=guesses,
    rounds=60,
    record_every=1,
    callbacks=[lambda info: points.append(info.w.copy())],
)

# %%
# Every sensor starts at a point of its own, drawn at random. The lines show where their estimates went.

paths = np.array(points)
ax = plt.figure(figsize=(6, 6), layout="constrained").gca()
nx.draw_networkx_edges(graph, places, ax=ax, edge_color="0.8")
for agent in range(25):
    ax.plot(*paths[:, agent].T, color="#0072b2", linewidth=0.8)
ax.plot(*places.T, "o", color="black", label="sensors")
ax.plot(*guesses.T, ".", color="#0072b2", label="their first estimates")
ax.plot(*source, "*", color="#d97700", markersize=18, label="source")
ax.plot(*result.mean, "x", color="#7a1040", markersize=12, markeredgewidth=3, label="estimate of all sensors")
ax.set(aspect="equal", xlabel="x", ylabel="y")
ax.legend(loc="upper left")
plt.show()
print(
    f"distance to the source {np.linalg.norm(result.mean - source):.3f}, disagreement {result.history['disagreement'][-1]:.0e}"
)
