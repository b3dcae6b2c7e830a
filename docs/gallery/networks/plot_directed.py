"""
A directed network
==================

An agent that hears another cannot always answer. On directed graphs no doubly stochastic mixing matrix may be known, so
methods keep masses beside their values (push-sum), or use two matrices.
"""

# %%
# Arcs say who sends to whom. Every agent must be able to reach every other one.

import matplotlib.pyplot as plt
import networkx as nx

import consensus
import topologies
from consensus.solvers import SONATA, PushDIGing, PushPull
from consensus.surrogates import PartialLinearization

arcs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 0), (0, 4), (2, 6), (6, 1)]
graph = nx.DiGraph(arcs)
print("strongly connected:", nx.is_strongly_connected(graph))
consensus.plotting.topology(graph)
plt.show()

# %%
# SONATA solves a convex problem per agent and round, with the model linearised inside the loss; the other two take
# gradient steps. ``topologies.push`` gives each agent's mass to its receivers in equal parts.

data = consensus.datasets.split(*consensus.datasets.load("breast_cancer"), classification=True)
shards = consensus.partition(data.X, data.y, agents=8, scheme="sorted")
problem = consensus.Problem(consensus.MLP([30, 10, 1]), consensus.LogisticLoss(), shards, consensus.L2(1e-2))
network = topologies.Static(graph, weights=topologies.push)
runs = {}
for solver in (SONATA(PartialLinearization(tau=1.0), 0.2), PushDIGing(0.1), PushPull(0.1)):
    runs[type(solver).__name__] = consensus.solve(
        problem, network, solver, rounds=300, record_every=15
    ).history
consensus.plotting.convergence(runs, "stationarity")
plt.show()
