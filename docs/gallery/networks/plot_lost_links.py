"""
Links that fail
===============

The weight of a lost message returns to the diagonal of the mixing matrix, so that the agents' average stays what it
was. How much does a solver suffer when more and more links are down?
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.solvers import GradientTracking

data = consensus.datasets.split(*consensus.datasets.load("breast_cancer"), classification=True)
shards = consensus.partition(data.X, data.y, agents=12, scheme="sorted")
problem = consensus.Problem(consensus.Linear(30), consensus.LogisticLoss(), shards, consensus.L2(1e-2))
graph = topologies.Static(topologies.small_world(12, 4, 0.2, seed=1))

runs = {}
for probability in (0.0, 0.3, 0.6, 0.9):
    network = topologies.LinkFailure(graph, probability, seed=0) if probability else graph
    runs[f"{probability:.0%} of links down"] = consensus.solve(
        problem, network, GradientTracking(0.2), rounds=400, record_every=20
    ).history

_, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
consensus.plotting.convergence(runs, "stationarity", ax=left)
consensus.plotting.convergence(runs, "disagreement", ax=right)
plt.show()

# %%
# An agent can be down for a while, too. Others go on, and the run recovers when agent 3 returns in round 200.

network = topologies.AgentFailure(graph, outages=[(3, 50, 200)])
run = consensus.solve(problem, network, GradientTracking(0.2), rounds=400, record_every=5).history
ax = consensus.plotting.convergence(run, "disagreement")
ax.axvspan(50, 200, color="0.9", label="agent 3 is down")
ax.legend()
plt.show()
