"""
Your own graph
==============

Any networkx graph is a network. Here it is Zachary's karate club: 34 members, and who meets whom. They share the
diabetes data and train a linear model together.
"""

# %%
# Agents are numbered from 0 in networkx too. ``check`` compares the network with the needs of a solver before anything
# runs.

import networkx as nx

import consensus
import topologies
from consensus.solvers import EXTRA

club = nx.Graph(nx.karate_club_graph().edges)
print(topologies.check(topologies.Static(club), EXTRA()))

# %%
# The members with many friends are few, which makes mixing slow between the two halves of the club. Better weights
# help: ``fastest`` finds those with the largest spectral gap, by a convex program.

import matplotlib.pyplot as plt

weights = {"Metropolis": topologies.metropolis, "fastest": topologies.fastest}
matrices = {
    f"{name}, gap {topologies.spectral_gap(rule(club)):.3f}": rule(club) for name, rule in weights.items()
}
_, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
consensus.plotting.topology(club, ax=left)
consensus.plotting.spectrum(matrices, ax=right)
plt.show()

# %%
# Agents who only mix agree sooner by the fastest weights:

import numpy as np

ax = plt.figure(figsize=(6, 3.5), layout="constrained").gca()
for name, rule in weights.items():
    matrix, x = rule(club), np.arange(34.0)
    spread = [x.std()]
    for _ in range(200):
        x = matrix @ x
        spread.append(x.std())
    ax.semilogy(spread, label=name)
ax.set(xlabel="exchanges", ylabel="disagreement")
ax.legend()
plt.show()

# %%
# The members train a model over their friendships. ``weights=`` gives the schedule its rule.

data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
shards = consensus.partition(data.X, data.y, agents=34, scheme="sorted")
problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.1))
network = topologies.Static(club, weights=topologies.fastest)
result = consensus.solve(problem, network, rounds=60, record_every=2)
consensus.plotting.convergence(result.history, "stationarity")
plt.show()
