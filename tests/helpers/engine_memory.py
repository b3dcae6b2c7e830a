"""On ranks: the memory that a run takes above what its script had before, on each rank, in bytes.

usage: engine_memory.py agents parameters
"""

import sys
from pathlib import Path

import numpy as np

import consensus
import topologies
from consensus.solvers import GradientTracking
from tests.helpers.engine_harness import engine_here, say


def now():
    """The memory of this process, and the most that it has had, in bytes."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return [1024 * int(lines[name].split()[0]) for name in ("VmRSS", "VmHWM")]


def centres(parameters, rows):
    return np.sin(np.multiply.outer(rows + 1.0, np.arange(1.0, parameters + 1)))


def problem(agents, parameters):
    """Distances to points that no process holds for all agents."""

    def value(w, rows):
        return np.square(w - centres(parameters, rows)).sum(axis=1) / 2

    def gradient(w, rows):
        return w - centres(parameters, rows)

    return consensus.Problem.from_functions(value, gradient, agents, parameters, consensus.L2(0.1))


def main(agents, parameters):
    engine, network = engine_here(), topologies.Static(topologies.ring(agents))
    asked = problem(agents, parameters)
    network.weights(network.key(0))
    options = {"start": np.ones(parameters), "rounds": 4, "record_every": 2, "gather": False, "engine": engine}
    options |= {"callbacks": [lambda info: None]}
    consensus.solve(problem(8, 2), topologies.ring(8), GradientTracking(0.01), **options | {"start": np.ones(2)})  # imports
    before, _ = now()
    Path("/proc/self/clear_refs").write_text("5")  # the most is what it is now
    result = consensus.solve(asked, network, GradientTracking(0.1 / agents), **options)
    _, most = now()
    taken = engine.ranks.allgather(most - before)
    say({"taken": taken, "objective": result.history["objective"].tolist()})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
