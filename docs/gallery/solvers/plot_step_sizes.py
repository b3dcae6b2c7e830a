"""
Choose a step size
==================

Too small a step is slow, too large a step diverges. Many solvers find a step that is stable by theory if you give none.
"""

# %%
# ``EXTRA()`` without a step takes the largest one that is stable for all costs with these curvatures, times 0.9.
# ``result.solver`` says which it was.

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.solvers import EXTRA

data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
problem = consensus.Problem(
    consensus.Linear(10),
    consensus.SquaredLoss(),
    consensus.partition(data.X, data.y, agents=10),
    consensus.L2(1e-2),
)
network = topologies.Static(topologies.ring(10))
default = consensus.solve(problem, network, EXTRA(), rounds=600, record_every=20)
print(default.solver)

# %%
# A tenth and a half of it are slower. Twice as much diverges, and the error has the history until then.

step = default.solver.step_size
runs = {f"{step:.3f}, the default": default.history}
for factor in (0.1, 0.5):
    runs[f"{factor * step:.3f}"] = consensus.solve(
        problem, network, EXTRA(factor * step), rounds=600, record_every=20
    ).history
try:
    consensus.solve(problem, network, EXTRA(2 * step), rounds=600, record_every=20)
except consensus.DivergenceError as error:
    runs[f"{2 * step:.3f}, diverged"] = error.history
    print(error)
consensus.plotting.convergence(runs, "stationarity")
plt.show()
