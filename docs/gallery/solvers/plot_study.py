"""
Which method, over seeds and networks
=====================================

One run is an anecdote. A study runs every method on every network and seed, tunes those with a grid on seeds that it
does not report, and draws medians with bands between the quartiles.
"""

# %%

import tempfile

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.solvers import DGD, EXTRA, GradientTracking
from consensus.studies import Grid, Study

X, y = consensus.datasets.load("diabetes")
X, y = X / X.std(axis=0), (y - y.mean()) / y.std()


def case(seed, graph):
    shards = consensus.partition(X, y, agents=12, scheme="sorted", seed=seed)
    problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    return problem, topologies.ring(12) if graph == "ring" else topologies.erdos_renyi(12, 0.4, seed=seed)


study = Study(
    case,
    over={"graph": ["ring", "random"]},
    solvers={
        "EXTRA": EXTRA(),
        "tracking": Grid(GradientTracking, step_size=[0.05, 0.1]),
        "DGD": Grid(DGD, step_size=[0.02, 0.04]),
    },
    seeds=5,
    tuning_seeds=1,
    measure="exchanges to objective 1%",
    rounds=150,
    folder=tempfile.mkdtemp(),
)
study.run(progress=False).table()

# %%
# The figure shows the part of the gap that is left between the start and the lowest objective of any method.

picture = study.plot("gap")
picture.savefig(f"{study.folder}/gap.png", dpi=150)
ax = plt.figure(figsize=picture.get_size_inches()).add_axes((0, 0, 1, 1))
ax.imshow(plt.imread(f"{study.folder}/gap.png"))
ax.axis("off")
plt.show()

# %%
# Settings were tuned in each case until the best one lay inside its grid.

study.grids()
