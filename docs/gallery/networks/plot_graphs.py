"""
Graphs and their spectral gap
=============================

How fast agents agree depends on one number of the network, the spectral gap of its mixing matrix: in each exchange the
disagreement shrinks by about one minus the gap.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies

graphs = {
    "ring": topologies.ring(16),
    "grid": topologies.grid(4, 4),
    "random geometric": topologies.random_geometric(16, 0.4, seed=2),
    "small world": topologies.small_world(16, 4, 0.3, seed=0),
    "hypercube": topologies.hypercube(4),
    "star": topologies.star(16),
}
_, axes = plt.subplots(2, 3, figsize=(9, 6), layout="constrained")
for ax, (name, graph) in zip(axes.flat, graphs.items(), strict=True):
    matrix = topologies.metropolis(graph)
    consensus.plotting.topology(graph, ax=ax)
    ax.set_title(
        f"{name}\ngap {topologies.spectral_gap(matrix):.3f}, mixing time {topologies.mixing_time(matrix, 1e-3)}",
        fontsize=9,
    )
plt.show()

# %%
# The gap closes as networks grow: on a ring like 1 / A^2, on a torus like 1 / A, on random regular graphs hardly at
# all.

sizes = [9, 16, 36, 64, 144, 256]
families = {
    "ring": topologies.ring,
    "torus": lambda agents: topologies.torus(round(agents**0.5), round(agents**0.5)),
    "random regular, 4 neighbours": lambda agents: topologies.random_regular(agents, 4, seed=0),
    "complete": topologies.complete,
}
ax = plt.figure(figsize=(6, 4), layout="constrained").gca()
for marker, (name, family) in zip("osD^", families.items(), strict=True):
    gaps = [topologies.spectral_gap(topologies.metropolis(family(agents))) for agents in sizes]
    ax.loglog(sizes, gaps, marker=marker, label=name)
ax.set(xlabel="agents", ylabel="spectral gap (Metropolis weights)")
ax.legend()
plt.show()
