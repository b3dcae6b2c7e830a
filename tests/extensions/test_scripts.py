"""What a script defines goes to other processes, also where it names the package: the examples beside, run as ``__main__``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

import consensus

HERE, ROOT = Path(__file__).parent, Path(consensus.__file__).parents[1]
EXAMPLES = ("extra", "convolution", "largest", "poisson", "signs")  # typed runs by itself, and has the rest

NAMED = """
import json
from dataclasses import dataclass
from typing import NamedTuple

import joblib
import numpy as np

import consensus
import topologies

X = np.random.default_rng(0).standard_normal((24, 6))
NETWORK = topologies.ring(4)


def problem(model, loss, regularizer=None, y=X[:, 0] > 0):
    return consensus.Problem(model, loss, consensus.partition(X, y.astype(float), 4), regularizer)


def values(w):
    return consensus.L2(1.0).value(w - 1.0)


def slopes(w):
    return consensus.L2(1.0).gradient(w - 1.0)


class Descent(consensus.solvers.DGD):
    def step(self, problem, network, state):
        assert isinstance(problem, consensus.problems.BaseProblem)
        return super().step(problem, network, state)


def seen(seen):
    assert isinstance(seen.history, consensus.History)


def final(solver, callback):
    linear = problem(consensus.Linear(6), consensus.SquaredLoss())
    return consensus.solve(linear, NETWORK, solver, rounds=4, callbacks=[callback]).w


def differ(cases):
    found = []
    for name, (p, network, solver) in cases.items():
        one, two = (
            consensus.solve(p, network, solver, rounds=4, callbacks=[seen], engine=engine)
            for engine in ("stacked", consensus.engines.Processes(2))
        )
        found += [] if np.array_equal(one.w, two.w) else [name]
    return found


CASES = {
    "solver": (problem(consensus.Linear(6), consensus.SquaredLoss()), NETWORK, Descent(0.1)),
    "costs": (consensus.Problem.from_functions(values, slopes, agents=4, parameters=2), NETWORK, Descent(0.1)),
}
"""

JOBS = """
if __name__ == "__main__":
    jobs = joblib.Parallel(2)(joblib.delayed(final)(Descent(0.1), seen) for _ in range(2))
    equal = all(np.array_equal(w, final(Descent(0.1), seen)) for w in jobs)
    print(json.dumps(differ(CASES) + ([] if equal else ["joblib"])))
"""

OTHERS = """
if __name__ == "__main__":
    squared = consensus.SquaredLoss()
    linear = problem(consensus.Linear(6), squared, consensus.L2(0.1))
    partial = consensus.solvers.NEXT(consensus.surrogates.PartialLinearization(0.5), 0.5)
    largest = problem(consensus.Linear(6), squared, Largest(0.1))
    print(json.dumps(differ({
        "extra": (linear, NETWORK, EXTRA(0.1)),
        "convolution": (problem(Convolution(3, 2), squared), NETWORK, partial),
        "largest": (largest, NETWORK, partial),
        "poisson": (problem(consensus.Linear(6), Poisson()), NETWORK, partial),
        "signs": (linear, NETWORK, consensus.solvers.ChocoSGD(Sign(), 0.05, gamma=0.2)),
        "typed": (problem(Exponential(6), squared), Turns(4), consensus.solvers.NEXT(Linearised(20.0), 0.5, OneProx(20.0))),
        "typed, diffusion": (linear, Turns(4), Diffusion(0.05)),
    })))
"""


def said(text, folder):
    """The last line that a script with this text prints, as JSON."""
    script = folder / "script.py"
    script.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_package_is_pickled_by_name():
    assert cloudpickle.loads(cloudpickle.dumps(consensus)) is consensus


@pytest.mark.slow
def test_a_script_that_names_the_package_runs_on_workers_and_in_joblib(tmp_path):
    assert said(NAMED + JOBS, tmp_path) == []


@pytest.mark.slow
def test_the_examples_run_as_scripts_on_workers(tmp_path):
    typed = (HERE / "typed.py").read_text().split("\ndef main()")[0]
    sources = [(HERE / f"{name}.py").read_text() for name in EXAMPLES]
    assert said("\n".join([*sources, typed, NAMED, OTHERS]), tmp_path) == []
