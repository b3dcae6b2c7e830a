"""Faults of single MPI ranks: the whole job ends soon, with an error that says why.

As a script, what every rank runs: ``mpiexec -n 2 python -m tests.campaign.ranks folder task``.
"""

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

ENDING = 25.0  # seconds in which a job must have ended: it takes two
# What rank 1 does otherwise than the others, a word of the error, and the options that it gives to `solve`.
FAULTS = {
    "raises before solve": ("by its script", {}),
    "passes a wrong argument": ("rounds", {"rounds": -1}),
    "passes other rounds": ("rounds", {"rounds": 30}),
    "passes another engine": ("rank 1 kept the others waiting", {"engine": "stacked"}),
    "passes another checkpoint": ("checkpoint", {"checkpoint": "run.ckpt"}),
    "passes another every": ("every", {"every": 9, "checkpoint": "run.ckpt"}),
    "passes another record_every": ("record_every", {"record_every": 3}),
    "passes another seed": ("start", {"seed": 1}),
    "passes another solver": ("solver", {}),
    "passes another network": ("network", {}),
    "passes another tolerance": ("tolerance", {"tolerance": 1e-3}),
    "resumes, the others do not": ("resume", {"resume": "earlier.ckpt"}),
}
SIGNALS = ("SIGTERM", "SIGKILL", "SIGSTOP", "SIGSTOP and SIGCONT")


def search(count, seed=0):
    """``count`` jobs with one fault or signal each; all of them if there are as many."""
    findings, tasks = [], [*FAULTS, *SIGNALS]
    tasks = random.Random(seed).sample(tasks, min(count, len(tasks)))
    for task in tqdm(tasks, desc="ranks", disable=None):
        with tempfile.TemporaryDirectory() as folder:
            run = Started(folder, "tests.campaign.ranks", folder, task, ranks=2)
            try:
                findings += [f"rank 1 {task}: {text}" for text in _wrong(run, task, Path(folder, "going"))]
            finally:
                run.end()
    return Outcome(len(tasks), findings)


def _wrong(run, task, going):
    """What is wrong with the end of a job, in words; ``going`` is the file in which rank 1 writes its process id."""
    if task in SIGNALS:
        deadline = time.monotonic() + ENDING
        while not going.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        for name in task.split(" and "):
            os.kill(int(going.read_text()), getattr(signal, name))
            time.sleep(1.0)
    code = run.wait(ENDING)
    if task.endswith("SIGCONT"):
        return [] if code == 0 else [f"the job ended with {code} after a moment's stop: {run.output()[-300:]!r}"]
    if code is None:
        return [f"the job hangs: not ended after {ENDING:g} s"]
    if code == 0:
        return ["the job ends as if nothing had happened"]
    if task in SIGNALS:
        return []
    word, _ = FAULTS[task]
    errors = re.findall(r"(?:[\w.]*Error|rank \d): .*", run.output())
    return [] if any(word in error for error in errors) else [f"no error says {word!r}: {errors or run.output()[:600]}"]


def script(folder, task):
    """What every rank runs."""
    import topologies
    from consensus.engines import MPI
    from consensus.solvers import DGD
    from tests.helpers import engine_cases

    engine, (_, given) = MPI(timeout=5), FAULTS.get(task, ("", {}))
    given = {name: folder / value if name in ("checkpoint", "resume") else value for name, value in given.items()}
    pause, rounds = (0.01, 300) if task in SIGNALS else (0.0, 20)
    case = engine_cases.slow(pause, rounds=rounds)
    if "resume" in given:
        case.run(rounds=10, engine=engine, checkpoint=given["resume"])
    if engine.rank != 1:
        both = {"checkpoint": given["checkpoint"]} if "every" in given else {}
        case.run(engine=engine, **both)
        return
    if task == "raises before solve":
        raise RuntimeError("raised by its script")
    if task == "passes another solver":
        case = case._replace(solver=DGD(0.01))
    if task == "passes another network":
        case = case._replace(network=topologies.Static(topologies.ring(engine_cases.AGENTS)))
    if task in SIGNALS:
        (folder / "going.part").write_text(str(os.getpid()))
        (folder / "going.part").rename(folder / "going")
    case.run(**{"engine": engine} | given)


if __name__ == "__main__":
    script(Path(sys.argv[1]), sys.argv[2])
