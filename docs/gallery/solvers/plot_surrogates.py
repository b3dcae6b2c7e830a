"""
Surrogates: what an agent minimises
===================================

In each round of NEXT an agent replaces its nonconvex cost by a convex one, the surrogate, which has the same gradient
at the current point. Full linearization keeps the slope alone. Partial linearization keeps the loss, and linearises
only the model inside it, so that it follows the cost much farther.
"""

# %%
# One weight w, the model ``f(w, x) = tanh(w x)``, the squared loss, and a few samples. The dashed curves are the two
# surrogates at w = 0.2, both with tau = 0.1.

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(0)
x = rng.uniform(0.5, 2.0, 12)
d = np.tanh(1.5 * x) + 0.05 * rng.standard_normal(12)
tau, centre = 0.1, 0.2


def cost(w):
    return 0.5 * np.mean((np.tanh(np.multiply.outer(w, x)) - d) ** 2, axis=-1)


f, jacobian = np.tanh(centre * x), x / np.cosh(centre * x) ** 2
slope = np.mean((f - d) * jacobian)
w = np.linspace(-1.0, 4.0, 400)
full = cost(centre) + slope * (w - centre) + tau / 2 * (w - centre) ** 2
partial = (
    0.5 * np.mean((f + np.multiply.outer(w - centre, jacobian) - d) ** 2, axis=-1)
    + tau / 2 * (w - centre) ** 2
)

ax = plt.figure(figsize=(7, 4), layout="constrained").gca()
ax.plot(w, cost(w), color="black", linewidth=2, label="cost of the agent")
ax.plot(w, full, "--", color="#d97700", label="full linearization")
ax.plot(w, partial, "--", color="#0072b2", label="partial linearization")
for curve, colour in ((full, "#d97700"), (partial, "#0072b2")):
    if curve.argmin() < len(w) - 1:
        ax.plot(w[curve.argmin()], curve.min(), "o", color=colour)
ax.plot(centre, cost(centre), "o", color="black")
ax.set(xlabel="w", ylabel="cost", ylim=(-0.35, 0.7))
ax.legend()
plt.show()

# %%
# In a run the difference is the number of exchanges. With each surrogate, the best step of a small grid:

import consensus
import topologies
from consensus.solvers import NEXT
from consensus.surrogates import FullLinearization, PartialLinearization

data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
shards = consensus.partition(data.X, data.y, agents=8)
problem = consensus.Problem(consensus.MLP([10, 10, 1]), consensus.SquaredLoss(), shards, consensus.L2(1e-2))
network = topologies.ring(8)
runs = {}
for name, surrogate in {"full": FullLinearization(2.0), "partial": PartialLinearization(1.0)}.items():
    tried = [
        consensus.solve(problem, network, NEXT(surrogate, step), rounds=60, record_every=3)
        for step in (0.1, 0.2, 0.4)
    ]
    best = min(tried, key=lambda result: result.history["objective"][-1])
    runs[f"{name}, step {best.solver.step_size}"] = best.history
consensus.plotting.convergence(runs)
plt.show()
