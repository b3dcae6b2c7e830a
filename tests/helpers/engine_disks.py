"""Tasks of ``engine_ranks.py`` on ranks with disks of their own: each has its working directory."""

import os
import signal
from pathlib import Path

import numpy as np

import consensus
from consensus.checkpoints.checkpoint import read
from consensus.engines import rank_files
from consensus.solvers import GradientTracking
from tests.helpers import engine_cases
from tests.helpers.engine_harness import engine_here, say, wait_for, write

SOME = ("functions, a nested state", "compressed NEXT")


def cases(shards):
    """Runs to stop and to resume, one of them on ``shards``."""
    problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards, consensus.L2(0.02))
    options = {"rounds": 13, "record_every": 3, "every": 5}
    own = engine_cases.Case(problem, engine_cases.NETWORKS["random"], GradientTracking(0.05), options)
    return {name: case for name, case in engine_cases.saved().items() if name in SOME} | {"shards on disks": own}


def _engine_apart(folder):
    """The engine, in a working directory of this rank's."""
    engine = engine_here()
    disk = folder / f"disk-{engine.rank}"
    disk.mkdir(exist_ok=True)
    os.chdir(disk)
    return engine


def save_apart(folder):
    engine = _engine_apart(folder)
    for name, case in cases(consensus.data.load_shards("shards", engine.rows)).items():
        case.run(engine=engine, rounds=engine_cases.UNTIL, checkpoint=name)
    say(None)


def resume_apart(folder):
    engine, differ = _engine_apart(folder), []
    for name, case in cases(consensus.data.load_shards("shards", engine.rows)).items():
        result = case.run(engine=engine, resume=name)
        own = case.run(engine=engine, resume=name, gather=False)
        if not all(engine.ranks.allgather(np.array_equal(own.w, result.w[engine.rows(engine_cases.AGENTS)]))):
            differ.append(name)
        if engine.root:
            write(folder / f"{name}.npz", result)
    say({"differ": differ})


def killed_apart(folder):
    """Rank 1 is killed when the first rank has written its file of the second checkpoint, and the other parts are there."""
    engine, path = _engine_apart(folder), Path("run.ckpt")
    original = rank_files.write

    def kill(*arguments):
        if arguments[1].round == 14:
            wait_for(lambda: read(folder / "disk-0" / path).round == 14)
            os.kill(os.getpid(), signal.SIGKILL)
        original(*arguments)

    if engine.rank == 1 and (folder / "kill").exists():
        rank_files.write = kill
    resume = path if any(engine.allgather([path.exists()])) else None
    result = engine_cases.slow(rounds=30).run(engine=engine, checkpoint=path, resume=resume)
    if engine.root:
        write(folder / "result.npz", result)
    say(None)
