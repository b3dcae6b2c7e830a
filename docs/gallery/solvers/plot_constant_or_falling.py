"""
Constant or falling steps
=========================

DGD with a constant step stalls at a distance from the optimum that is proportional to the step, because each agent also
pulls towards its own data. With falling steps it converges, slowly. Methods that correct the bias converge with a
constant step.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.solvers import DGD, EXTRA
from consensus.step_sizes import CosineAnnealing, InverseSqrt

data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
shards = consensus.partition(data.X, data.y, agents=10, scheme="sorted")
problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(1e-2))
network = topologies.Static(topologies.ring(10))
solvers = {
    "DGD, 0.1": DGD(0.1),
    "DGD, 0.02": DGD(0.02),
    "DGD, 0.1 / sqrt(n + 1)": DGD(InverseSqrt(0.1)),
    "DGD, cosine to 0": DGD(CosineAnnealing(0.1, 800, final=1e-4)),
    "EXTRA, its default": EXTRA(),
}
runs = {
    name: consensus.solve(problem, network, solver, rounds=800, record_every=20).history
    for name, solver in solvers.items()
}
consensus.plotting.convergence(runs, "stationarity")
plt.show()

# %%
# What the steps are:

ax = plt.figure(figsize=(6, 3), layout="constrained").gca()
rounds = range(800)
for name, rule in {"1 / sqrt": InverseSqrt(0.1), "cosine": CosineAnnealing(0.1, 800, final=1e-4)}.items():
    ax.semilogy(rounds, [rule(n) for n in rounds], label=name)
ax.set(xlabel="round", ylabel="step size")
ax.legend()
plt.show()
