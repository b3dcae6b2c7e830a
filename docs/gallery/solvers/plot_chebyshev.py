"""
Several exchanges per gradient
==============================

If gradients are expensive and the network is slow, agents may mix several times per round. With Chebyshev's polynomial
k exchanges reduce the disagreement by far more than k times.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.solvers import Gossip, GradientTracking

ring = topologies.Static(topologies.ring(24))
gap = topologies.spectral_gap(topologies.metropolis(topologies.ring(24)))
X, y = consensus.datasets.load("diabetes")
shards = consensus.partition(X / X.std(axis=0), (y - y.mean()) / y.std(), agents=24, scheme="sorted")
problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.1))
solvers = {
    "1 exchange": GradientTracking(0.02),
    "5 exchanges": Gossip(GradientTracking(0.02), exchanges=5),
    "5 exchanges, Chebyshev": Gossip(GradientTracking(0.02), exchanges=5, gap=gap),
}
runs = {
    name: consensus.solve(problem, ring, solver, rounds=300, record_every=10).history
    for name, solver in solvers.items()
}
_, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
consensus.plotting.convergence(runs, "disagreement", "gradients", ax=left)
consensus.plotting.convergence(runs, "disagreement", "exchanges", ax=right)
right.get_legend().remove()
plt.show()

# %%
# Why: after k exchanges the part of the disagreement along an eigenvector with eigenvalue l is multiplied by l^k, or by
# a polynomial that is as small as possible on all of [-rho, rho].

rho, eigenvalues, k = 1 - gap, np.linspace(-1, 1, 801), 5
chebyshev = np.polynomial.Chebyshev.basis(k)
ax = plt.figure(figsize=(6, 3.5), layout="constrained").gca()
ax.plot(eigenvalues, np.abs(eigenvalues**k), label="plain, $|\\lambda^5|$")
ax.plot(eigenvalues, np.abs(chebyshev(eigenvalues / rho) / chebyshev(1 / rho)), label="Chebyshev")
ax.axvspan(-rho, rho, color="0.93")
ax.set(xlabel="eigenvalue of W", ylabel="factor after 5 exchanges", ylim=(0, 1))
ax.legend()
plt.show()
