"""
What privacy costs
==================

Messages depend on data. :class:`consensus.privacy.Private` clips each sample's gradient and adds noise, and counts what
somebody who sees all messages of a run on ranks can learn at most. Noise of an edge, which its two agents add and subtract,
cancels when they mix. This is a simulation in one process: it shows the accuracy of such a run, and hides nothing.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.privacy import Private
from consensus.solvers import DGD
from consensus.step_sizes import Diminishing

data = consensus.datasets.split(*consensus.datasets.load("breast_cancer"), classification=True)
shards = consensus.partition(data.X, data.y, agents=16, seed=0)
problem = consensus.Problem(consensus.Linear(30), consensus.LogisticLoss(), shards, consensus.L2(1e-2))
network = topologies.Static(topologies.ring(16))
test = (data.X_test, data.y_test)

ax = plt.figure(figsize=(7, 4), layout="constrained").gca()
for name, correlated, marker in (("independent noise", 0.0, "o"), ("and noise that cancels, 40", 40.0, "s")):
    planned, errors = [], []
    for noise in (0.3, 1.0, 3.0):
        solver = Private(DGD(Diminishing(0.1, 0.05), batch=8), clip=0.5, noise=noise, correlated=correlated)
        result = consensus.solve(problem, network, solver, rounds=150, record_every=150, test=test)
        planned.append(solver.epsilon(network, gradients=int(result.history["gradients"][-1]), delta=1e-5))
        errors.append(result.history["test_error"][-1])
    ax.semilogx(planned, errors, marker=marker, label=name)
ax.set(
    xlabel="epsilon of such a run on ranks, at delta = 1e-5 (less is more private)",
    ylabel="wrong test labels",
)
ax.legend()
plt.show()

# %%
# Large values of epsilon promise nothing. See :doc:`/privacy` for what is counted and against whom it protects.
