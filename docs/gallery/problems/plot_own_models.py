"""
Models of the agents' own
=========================

Twelve agents of three kinds have few samples each, and one model for all cannot be right. ``Personalized`` couples the models
of similar agents; its strength l goes from every agent alone to one model for each kind.
"""

# %%
# Agents of one kind have the same linear relation. Each agent has a training set and a test set of its own.

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.solvers import NIDS, Personalized

rng = np.random.default_rng(0)
kinds, truth = np.arange(12) % 3, rng.standard_normal((3, 8))
X, noise = rng.standard_normal((12, 60, 8)), rng.standard_normal((12, 60))
y = np.einsum("asf,af->as", X, truth[kinds]) + noise
train = consensus.Shards.from_list([(X[agent, :12], y[agent, :12]) for agent in range(12)])
test = consensus.Shards.from_list([(X[agent, 12:], y[agent, 12:]) for agent in range(12)])
problem = consensus.Problem(
    consensus.Linear(8, bias=False), consensus.SquaredLoss(), train, consensus.L2(1e-3)
)
network, similar = topologies.complete(12), (kinds[:, None] == kinds) * 1.0

# %%
# One common model, by NIDS, and models of the agents' own with growing l. The noise alone makes an error of 1.

strengths = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
options = {"rounds": 300, "record_every": 300, "test": test}
own = [
    consensus.solve(problem, network, Personalized(similar, strength), **options).history
    for strength in strengths
]
common = consensus.solve(problem, network, NIDS(), **options).history

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.semilogx(
    strengths, [history["test_error"][-1] for history in own], "o-", label="own models, mean of the agents"
)
ax.semilogx(
    strengths, [history["test_error_worst"][-1] for history in own], "s--", label="own models, worst agent"
)
ax.axhline(common["test_error"][-1], color="0.5", linestyle=":", label="one model for all")
ax.set(
    xlabel="strength l of the coupling", ylabel="mean squared error on the agents' test sets", ylim=(0, None)
)
ax.legend()
plt.show()
