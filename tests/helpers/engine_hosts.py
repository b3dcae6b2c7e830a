"""On the ranks of two hosts: runs whose bits and bytes the tests compare.

usage: engine_hosts.py what folder
"""

import os
import platform
import sys
from pathlib import Path

import numpy as np

import consensus
import topologies
from consensus.solvers import GradientTracking
from experiments.shared.two_hosts import sent_here
from tests.helpers import engine_cases
from tests.helpers.engine_ends import _call, stopped  # noqa: F401
from tests.helpers.engine_harness import engine_here, say, write
from tests.helpers.engine_ranks import run_few

AGENTS, INPUTS, ROUNDS = 8, 2_000, 200


def wide():
    """Agents on a ring, who send each other long rows."""
    X = np.random.default_rng(0).standard_normal((2 * AGENTS, INPUTS))
    shards = consensus.partition(X, X[:, 0], AGENTS)
    problem = consensus.Problem(consensus.Linear(INPUTS), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    return engine_cases.Case(problem, topologies.ring(AGENTS), GradientTracking(1e-4), {"rounds": ROUNDS, "record_every": 100})


def few(folder):
    say({"differ": run_few(engine_here(), folder)})


def apart(folder):
    engine = engine_here()
    differ = run_few(engine, folder)
    before = engine.ranks.allgather(sent_here())
    result = wide().run(engine=engine)
    after = engine.ranks.allgather((platform.node(), sent_here()))
    if engine.root:
        write(folder / "wide.npz", result)
    sent = {host: count - earlier for (host, count), earlier in zip(after, before, strict=True)}
    say({"differ": differ, "hosts": [host for host, _ in after], "sent": sum(sent.values())})


def endless(folder):
    """A run to be hit in the middle."""
    engine = engine_here(timeout=3.0)
    _call(engine, folder)
    engine_cases.slow(0.02, record_every=1).run(engine=engine, checkpoint=folder / "run.ckpt")
    print("never printed")


if __name__ == "__main__":
    folder = Path(sys.argv[2]).resolve()
    os.chdir(folder)
    globals()[sys.argv[1]](folder)
