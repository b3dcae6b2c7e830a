"""
Sparse models
=============

The l1 norm sets coefficients to zero and shrinks the others. The nonconvex penalties ``LogSum`` and ``SCAD`` leave
large coefficients alone. All are handled by their proximal operator, which each agent applies for itself.
"""

# %%
# Twenty of sixty features matter. The data are shared by ten agents.

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.solvers import NEXT
from consensus.surrogates import PartialLinearization

rng = np.random.default_rng(1)
X = rng.standard_normal((400, 60))
truth = np.zeros(60)
truth[:20] = rng.choice([-1, 1], 20) * rng.uniform(0.5, 2.0, 20)
y = X @ truth + rng.standard_normal(400)
shards = consensus.partition(X, y, agents=10)
network = topologies.erdos_renyi(10, 0.4, seed=0)
penalties = {"L1": consensus.L1(0.2), "LogSum": consensus.LogSum(0.05, 0.1), "SCAD": consensus.SCAD(0.2)}
found = {}
for name, penalty in penalties.items():
    problem = consensus.Problem(consensus.Linear(60, bias=False), consensus.SquaredLoss(), shards, penalty)
    result = consensus.solve(
        problem, network, NEXT(PartialLinearization(tau=2.0), 0.5), rounds=200, record_every=50
    )
    found[name] = result.mean

# %%

_, axes = plt.subplots(1, 3, figsize=(11, 3.5), sharey=True, layout="constrained")
for ax, (name, w) in zip(axes, found.items(), strict=True):
    ax.plot(truth, "o", mfc="none", color="black", label="truth")
    ax.plot(w, ".", color="#0072b2", label="found")
    ax.set(
        title=f"{name}: {np.sum(np.abs(w) > 1e-6)} nonzero, error {np.linalg.norm(w - truth):.2f}",
        xlabel="feature",
    )
axes[0].set_ylabel("coefficient")
axes[0].legend()
plt.show()

# %%
# The lasso agrees with scikit-learn's, which has all data in one place:

from sklearn.linear_model import Lasso

lasso = Lasso(alpha=0.2, fit_intercept=False, tol=1e-12).fit(X, y)
print(f"largest difference: {np.abs(found['L1'] - lasso.coef_).max():.1e}")
