"""
What AdaptiveNEXT chooses
=========================

:class:`consensus.solvers.AdaptiveNEXT`, the default of ``solve``, has no step size, no tau and no number of exchanges
to choose. It finds them during the run, and its history shows them.
"""

# %%

import matplotlib.pyplot as plt

import consensus
import topologies

data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
shards = consensus.partition(data.X, data.y, agents=10, scheme="sorted")
problem = consensus.Problem(consensus.MLP([10, 20, 1]), consensus.SquaredLoss(), shards, consensus.L2(1e-2))
result = consensus.solve(problem, topologies.ring(10), rounds=60, record_every=1)
consensus.plotting.adaptation(result.history)
plt.show()

# %%
# Compared with gradient tracking, whose step was chosen from a grid by trying. Runs are drawn over exchanges with
# neighbours, because AdaptiveNEXT takes several of them in a round.

from consensus.solvers import GradientTracking

most = result.history["exchanges"][-1]
tried = {}
for step in (0.02, 0.05, 0.1, 0.2):
    try:
        tried[step] = consensus.solve(
            problem, topologies.ring(10), GradientTracking(step), rounds=int(most / 2), record_every=10
        )
    except consensus.DivergenceError:
        continue
step = min(tried, key=lambda step: tried[step].history["objective"][-1])
runs = {"AdaptiveNEXT": result.history, f"gradient tracking, step {step}": tried[step].history}
consensus.plotting.convergence(runs, x="exchanges")
plt.show()
