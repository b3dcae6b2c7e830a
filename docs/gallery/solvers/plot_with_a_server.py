"""
With a server
=============

What would a server buy? :mod:`consensus.centralized` has the classical systems with one, on the same problems and with
the same counts. Here federated averaging and SCAFFOLD stand beside two methods without a server.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus import centralized
from consensus.solvers import KGT

data = consensus.datasets.split(*consensus.datasets.load("breast_cancer"), classification=True)
shards = consensus.partition(data.X, data.y, agents=8, scheme="sorted")
problem = consensus.Problem(consensus.MLP([30, 10, 1]), consensus.LogisticLoss(), shards, consensus.L2(1e-2))
runs = {
    name: centralized.solve(problem, system, rounds=80, record_every=4).history
    for name, system in {
        "FedAvg": centralized.FedAvg(0.5, local_steps=5),
        "SCAFFOLD": centralized.SCAFFOLD(0.5, local_steps=5),
    }.items()
}
runs["K-GT on a ring, no server"] = consensus.solve(
    problem, topologies.ring(8), KGT(0.1, local_steps=5), rounds=80, record_every=4
).history
runs["AdaptiveNEXT on a ring, no server"] = consensus.solve(
    problem, topologies.ring(8), rounds=40, record_every=2
).history

# %%
# Most bytes pass through the server: they are what it sends to all clients and gets from them. On a ring each agent
# talks to two others.

_, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
consensus.plotting.convergence(runs, "objective", "exchanges", ax=left)
consensus.plotting.convergence(runs, "objective", "bytes_busiest", ax=right, log_x=True)
right.get_legend().remove()
plt.show()
