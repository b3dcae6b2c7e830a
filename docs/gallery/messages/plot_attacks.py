"""
Malicious agents
================

Two of fifteen agents are Byzantine: they send what they like. Plain mixing follows them. Aggregation rules tolerate a
given weight of them, and cost a little when nobody attacks.
"""

# %%
# ``Attack`` runs a solver in which some agents attack. A sign flip sends the negative of the own row, IPM the negative
# mean of the honest rows.

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.robust import IPM, NNA, Attack, ClippedGossip, SignFlip
from consensus.solvers import DGD

X, y = consensus.datasets.load("diabetes")
shards = consensus.partition(X / X.std(axis=0), (y - y.mean()) / y.std(), agents=15)
problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.1))
network = topologies.Static(topologies.complete(15), weights=topologies.max_degree)
byzantine, weight = [3, 11], 2 / 15
rules = {
    "plain mixing": lambda solver: solver,
    "ClippedGossip": lambda solver: ClippedGossip(solver, weight),
    "NNA": lambda solver: NNA(solver, weight),
}
attacks = {"nobody attacks": None, "sign flip": SignFlip(), "inner product": IPM()}
honest = [agent for agent in range(15) if agent not in byzantine]
ends = np.empty((len(rules), len(attacks)))
best = consensus.solve(problem, network, rounds=40).history["objective"][-1]
for row, rule in enumerate(rules.values()):
    for column, attack in enumerate(attacks.values()):
        solver = rule(DGD(0.05))
        solver = Attack(solver, byzantine, attack) if attack else solver
        result = consensus.solve(problem, network, solver, rounds=200, record_every=200, honest=honest)
        ends[row, column] = result.history["objective"][-1]

# %%
# The objective of the honest agents after 200 rounds:

ax = plt.figure(figsize=(7, 4), layout="constrained").gca()
for row, (name, colour) in enumerate(zip(rules, ("0.6", "#7a1040", "#0072b2"), strict=True)):
    ax.bar(np.arange(3) + 0.27 * (row - 1), ends[row], 0.25, label=name, color=colour)
ax.set_xticks(range(3), attacks)
ax.set(ylabel="objective of the honest agents", ylim=(0.9 * ends.min(), None))
ax.legend()
plt.show()
