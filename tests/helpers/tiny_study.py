"""A study of 200 tiny runs, in the folder and with the workers of the command line."""

import os
import signal
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
    "wild": DGD(1e6),
}


def study(folder):
    """Four solvers on two graphs; 17 seeds of the report, four for tuning."""
    usual = {"solvers": SOLVERS, "measure": "exchanges to objective 1%", "rounds": 30}
    return Study(case, over={"graph": ["ring", "star"]}, seeds=17, tuning_seeds=4, folder=folder, **usual)


def serve():
    """Read folders and numbers of workers; run each study in a child, which need not import anything, and say its process.

    An empty line waits for the child, and says how it ended; with "here" before them the study runs in this process.
    """
    for line in sys.stdin:
        if line.startswith("here "):
            _, folder, workers = line.split()
            print(len(study(folder).run(workers=int(workers), progress=False).runs()), flush=True)
        elif line.strip():
            folder, workers = line.split()
            child = os.fork()
            if not child:
                os.setsid()
                signal.signal(signal.SIGINT, signal.default_int_handler)
                study(folder).run(workers=int(workers), progress=False)
                os._exit(0)
            print(child, flush=True)
        else:
            print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else study(sys.argv[1]).run(workers=int(sys.argv[2]), progress=False)
