"""A study of 200 tiny runs, in the folder and with the workers of the command line."""

import sys

import numpy as np

import consensus
import topologies
from consensus.solvers import DGD, EXTRA, GradientTracking
from consensus.studies import Grid, Study


def case(seed, graph):
    centres = np.random.default_rng(seed).standard_normal((6, 3))
    problem = consensus.Problem.from_functions(
        lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=6, parameters=3, lipschitz=2.0
    )
    return problem, getattr(topologies, graph)(6)


SOLVERS = {
    "EXTRA": EXTRA(),
    "DGD": Grid(DGD, step_size=[0.01, 0.02]),
    "tracking": Grid(GradientTracking, step_size=[0.01, 0.02]),
    "wild": DGD(50.0),
}


def study(folder):
    """Four solvers on two graphs; 18 seeds of the report, four for tuning."""
    usual = {"solvers": SOLVERS, "measure": "exchanges to objective 1%", "rounds": 60}
    return Study(case, over={"graph": ["ring", "star"]}, seeds=18, tuning_seeds=4, folder=folder, **usual)


if __name__ == "__main__":
    study(sys.argv[1]).run(workers=int(sys.argv[2]), progress=False)
