"""Every solver on every schedule on ranks of both engines: the bits of one process, or refused in the same words.

As a script, what every rank runs: ``python -m tests.campaign.combinations folder engine count seed``.
"""

import random
import sys
import tempfile
import warnings
from pathlib import Path

from tqdm import tqdm

from tests.campaign.outcome import Outcome
from tests.campaign.started import Started

JOBS = [("torch", 2), ("torch", 3), ("mpi", 2), ("mpi", 3)]
SECONDS = 3600.0  # that a job may take


def search(count, seed=0):
    """``count`` combinations, all if there are as many, on two and three ranks of each engine."""
    findings, number = [], 0
    for engine, ranks in tqdm(JOBS, desc="combinations", disable=None):
        with tempfile.TemporaryDirectory() as folder:
            run = Started(folder, "tests.campaign.combinations", folder, engine, count, seed, engine=engine, ranks=ranks)
            try:
                code = run.wait(SECONDS)
            finally:
                run.end()
            if code != 0:
                findings.append(f"{ranks} ranks of {engine} ended with {code}: {run.output()[-600:]!r}")
                continue
            done, *differ = Path(folder, "differ").read_text().splitlines()
            number += int(done)
            findings += [f"{ranks} ranks of {engine}, {what}: other bits than one process" for what in differ]
    return Outcome(number, findings)


def script(folder, name, count, seed):
    """What every rank runs; rank 0 compares one combination with one process, rank 1 the next one, and so on."""
    from consensus import engines
    from consensus.solve import ENGINES
    from tests.helpers.combinations import SCHEDULES, outcome, simple
    from tests.helpers.every_solver import SOLVERS

    warnings.simplefilter("ignore")
    engine = getattr(engines, ENGINES[name])()
    pairs = [(solver, number) for solver in SOLVERS for number in range(len(SCHEDULES))]
    pairs = random.Random(seed).sample(pairs, min(count, len(pairs)))
    differ = []
    for turn, (solver, number) in enumerate(pairs):
        case = simple(solver), SCHEDULES[number], SOLVERS[solver]
        found = outcome(*case, engine)
        if turn % engine.size == engine.rank and found != outcome(*case, "stacked"):
            differ.append(f"{solver} on {SCHEDULES[number]}")
    differ = engine.allgather(differ)
    if engine.root:
        (folder / "differ").write_text("\n".join([str(len(pairs)), *differ]))


if __name__ == "__main__":
    script(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
