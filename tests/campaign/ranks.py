"""Faults of single MPI ranks: the whole job ends soon, with an error that says why; under mpiexec, one rank's part of it."""

import inspect
import os
import random
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from tqdm import tqdm

from tests.campaign.outcome import Outcome
from tests.campaign.started import Started

RANKS = 2
ENDING = 25.0  # seconds in which a job must have ended: it takes two
# What rank 1 does otherwise than the others, and a word of what must be said then.
FAULTS = {
    "raises before solve": "by its script",
    "is refused an argument": "rounds",
    "is given other rounds": "rounds",
    "is given another engine": "rank 1 kept the others waiting",
    "is given another checkpoint": "checkpoint",
    "is given another every": "every",
    "is given another record_every": "record_every",
    "is given another seed": "start",
    "is given another solver": "solver",
    "is given another network": "network",
    "is given another tolerance": "tolerance",
    "resumes, the others do not": "resume",
}
SIGNALS = ("SIGTERM", "SIGKILL", "SIGSTOP", "SIGSTOP and SIGCONT")


def search(count, seed=0):
    """``count`` jobs with one fault or signal each; all of them if there are as many."""
    findings, tasks = [], [*FAULTS, *SIGNALS]
    tasks = random.Random(seed).sample(tasks, min(count, len(tasks)))
    for task in tqdm(tasks, desc="ranks", disable=None):
        with tempfile.TemporaryDirectory() as folder:
            run = Started(folder, "tests.campaign.ranks", folder, task, ranks=RANKS)
            try:
                findings += [f"rank 1 {task}: {text}" for text in (_fault if task in FAULTS else _signal)(run, task, folder)]
            finally:
                run.end()
    return Outcome(len(tasks), findings)


def _fault(run, task, folder):
    code = run.wait(ENDING)
    if code is None:
        return [f"the job hangs: not ended after {ENDING:g} s"]
    if code == 0:
        return ["the job ends as if nothing had happened"]
    errors = re.findall(r"(?:[\w.]*Error|rank \d): .*", run.said())
    told = any(FAULTS[task] in error for error in errors)
    return [] if told else [f"no error says {FAULTS[task]!r}: {errors or run.said()[:600]}"]


def _signal(run, task, folder):
    deadline = time.monotonic() + ENDING
    while not Path(folder, "going").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    victim = int(Path(folder, "going").read_text())
    for name in task.split(" and "):
        os.kill(victim, getattr(signal, name))
        time.sleep(1.0)
    code = run.wait(ENDING)
    if task.endswith("SIGCONT"):
        return [] if code == 0 else [f"the job ended with {code} after a moment's stop: {run.said()[-300:]!r}"]
    if code is None:
        return [f"the job hangs: not ended after {ENDING:g} s"]
    return [] if code else ["the job ends as if nothing had happened"]


def script(folder, task):
    """What every rank runs."""
    import engine_cases

    import topologies
    from consensus.engines import MPI
    from consensus.solvers import DGD

    engine = MPI(timeout=5) if "timeout" in inspect.signature(MPI).parameters else MPI()
    faulty = engine.rank == 1
    if faulty and task == "raises before solve":
        raise RuntimeError("raised by its script")
    pause = 0.01 if task in SIGNALS else 0.0
    case = engine_cases.slow(pause, rounds=300 if task in SIGNALS else 20)
    options = {"engine": engine}
    if faulty:
        options |= {
            "is refused an argument": {"rounds": -1},
            "is given other rounds": {"rounds": 30},
            "is given another engine": {"engine": "stacked"},
            "is given another checkpoint": {"checkpoint": folder / "run.ckpt"},
            "is given another every": {"every": 9, "checkpoint": folder / "run.ckpt"},
            "is given another record_every": {"record_every": 3},
            "is given another seed": {"seed": 1},
            "is given another tolerance": {"tolerance": 1e-3},
            "resumes, the others do not": {"resume": folder / "earlier.ckpt"},
        }.get(task, {})
    elif task == "is given another every":
        options["checkpoint"] = folder / "run.ckpt"
    if task == "resumes, the others do not":
        case.run(rounds=10, engine=engine, checkpoint=folder / "earlier.ckpt")
    if faulty and task == "is given another solver":
        case = case._replace(solver=DGD(0.01))
    if faulty and task == "is given another network":
        case = case._replace(network=topologies.Static(topologies.ring(engine_cases.AGENTS)))
    if faulty and task in SIGNALS:
        (folder / "going.part").write_text(str(os.getpid()))
        (folder / "going.part").rename(folder / "going")
    case.run(**options)


if __name__ == "__main__":
    script(Path(sys.argv[1]), sys.argv[2])
