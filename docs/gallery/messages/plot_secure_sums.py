"""
Secure aggregation
==================

L-BFGS over a tree needs only sums of the agents' costs and gradients. With secure aggregation, masks hide every term of
these sums, and the sums stay exact. What does it cost?
"""

# %%
# Ten agents on a random graph, with and without masks. Masked messages have eight bytes a number; otherwise gradients are
# rounded to whole multiples of units that shrink, and take about one.

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.privacy import SecureSums
from consensus.solvers import TreeLBFGS

data = consensus.datasets.split(*consensus.datasets.load("breast_cancer"), classification=True)
shards = consensus.partition(data.X, data.y, agents=10, scheme="sorted")
problem = consensus.Problem(
    consensus.Linear(data.X.shape[1]), consensus.LogisticLoss(), shards, consensus.L2(1e-2)
)
graph = topologies.erdos_renyi(10, 0.3, seed=0)
solvers = {"without masks": TreeLBFGS(), "secure aggregation": TreeLBFGS(secure=SecureSums(bits=40))}
results = {
    name: consensus.solve(problem, graph, solver, rounds=25, record_every=1)
    for name, solver in solvers.items()
}

# %%
# By exchanges the curves differ by the agreement on keys at the start; by bytes masks cost several times as much.

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
lowest = min(result.history["objective"].min() for result in results.values())
for (name, result), style in zip(results.items(), ("-", "--"), strict=True):
    gap = result.history["objective"][:-1] - lowest
    axes[0].semilogy(result.history["exchanges"][:-1], gap.clip(1e-12), style, label=name)
    axes[1].semilogy(result.history["bytes"][:-1] / 1e3, gap.clip(1e-12), style)
axes[0].set(xlabel="exchanges", ylabel="objective above the lowest")
axes[1].set(xlabel="kB sent in the network")
axes[0].legend()
plt.show()
