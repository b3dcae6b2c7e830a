"""
One slow agent
==============

In a round everyone waits for the slowest agent. Without rounds agents wake when they are ready and use the newest
messages that arrived. Here the last of eight agents takes ten times as long as the others.
"""

# %%
# ``Simulated`` has a clock of its own, so that the same seed gives the same run on every machine. Both methods have the
# best tau and step of a small grid.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import consensus
import topologies
from consensus.asynchronous import ASYSONATA, Simulated
from consensus.solvers import NEXT
from consensus.surrogates import FullLinearization

rng = np.random.default_rng(0)
centres, curvature = rng.standard_normal((8, 20)), 10 ** rng.uniform(0, 1, (8, 20))
problem = consensus.Problem.from_functions(
    lambda w, rows: 0.5 * (curvature[rows] * (w - centres[rows]) ** 2).sum(axis=1),
    lambda w, rows: curvature[rows] * (w - centres[rows]),
    agents=8,
    parameters=20,
)
clock = Simulated(compute=[1.0] * 7 + [10.0], delay=(0.0, 1.0), seed=0)
arcs = nx.DiGraph([(i, (i + 1) % 8) for i in range(8)] + [((i + 1) % 8, i) for i in range(8)])
runs = {
    "with rounds": consensus.solve(
        problem,
        topologies.ring(8),
        NEXT(FullLinearization(80.0), 0.3),
        rounds=100,
        engine=clock,
        record_every=2,
    ).history,
    "without rounds": consensus.solve(
        problem, arcs, ASYSONATA(FullLinearization(160.0), 1.0), rounds=1000, engine=clock, record_every=20
    ).history,
}
ax = consensus.plotting.convergence(runs, "stationarity", "clock")
ax.set_xlabel("simulated seconds")
plt.show()
