"""
A first run
===========

Ten agents share the diabetes data of scikit-learn. They train a small neural network together over a random graph. In
each round only half of its links are up, and no agent sees the samples of another.
"""

# %%
# The data are standardised, and a fifth of the samples is put aside as a test set. ``scheme="sorted"`` gives every
# agent other targets, which makes the problem harder: no agent could learn the model alone.

import consensus
import topologies

data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
shards = consensus.partition(data.X, data.y, agents=10, scheme="sorted")
problem = consensus.Problem(consensus.MLP([10, 20, 1]), consensus.SquaredLoss(), shards, consensus.L2(1e-2))

# %%
# A network is a networkx graph, or a schedule that gives every round its graph.

graph = topologies.erdos_renyi(10, 0.4, seed=0)
network = topologies.RandomEdges(graph, probability=0.5, seed=0)
consensus.plotting.topology(graph)

# %%
# Without a solver ``solve`` takes :class:`consensus.solvers.AdaptiveNEXT`, which has no settings.

result = consensus.solve(problem, network, rounds=60, record_every=2, test=(data.X_test, data.y_test))
print(result)

# %%
# The history has one row per recorded round. The objective falls, and the agents come to agree.

import matplotlib.pyplot as plt

_, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
consensus.plotting.convergence(result.history, "objective", ax=left)
consensus.plotting.convergence(result.history, "disagreement", ax=right)

# %%
# ``result.mean`` is the mean of the agents' parameters. It predicts:

from sklearn.metrics import r2_score

print(f"R^2 on the test set: {r2_score(data.y_test, problem.model.predict(result.mean, data.X_test)):.2f}")
