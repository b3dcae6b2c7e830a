"""Tasks of ``engine_ranks.py`` that end with an error, or wait."""

import os

import numpy as np

import topologies
from consensus.checkpoints.checkpoint import read
from consensus.solvers import DGD, GradientTracking
from consensus.workers import waiting
from tests.helpers import engine_cases
from tests.helpers.engine_harness import KIND, engine_here, say, write


def callback_fails(_):
    def fails(seen):
        if seen.round == 9:
            raise engine_cases.Trouble(0, seen.round)

    engine_cases.watched()["functions, tracking"].run(engine=os.environ[KIND], callbacks=[fails])
    print("never printed")


def cheat(_):
    engine_cases.cheating().run(engine=engine_here(strict=True))
    print("never printed")


def fail(_):
    case = engine_cases.special()["functions, DGD"]
    case._replace(solver=engine_cases.Faulty(0.02)).run(engine=os.environ[KIND])
    print("never printed")


def absent(_):
    """Rank 1 never comes to solve."""
    engine = engine_here(timeout=1.5)
    if engine.rank == 1:
        raise ValueError("a fault in the script")
    engine_cases.slow(rounds=6).run(engine=engine)
    print("never printed")


def elsewhere(_):
    """Rank 1 runs alone, and ends. Gloo says so, after as long as a process takes to end; MPI does not."""
    engine = engine_here(timeout=60.0 if os.environ[KIND] == "torch" else 1.5)
    engine_cases.slow(rounds=6).run(engine="stacked" if engine.rank == 1 else engine)
    if engine.rank != 1:
        print("never printed")


def stopped(_):
    """The last rank is stopped for good, in a row of ranks that exchange with their neighbours only."""
    path, solver = topologies.Static(topologies.path(engine_cases.AGENTS)), engine_cases.Stops(0.01, at=7, of=6)
    engine_cases.slow(rounds=20)._replace(network=path, solver=solver).run(engine=engine_here(timeout=2.0), record_every=5)
    print("never printed")


def back(_):
    """The rank with agent 3 is stopped for a while."""
    waiting.PATIENCE = 0.5
    engine, case = engine_here(), engine_cases.slow(rounds=20)
    result = case._replace(solver=engine_cases.Stops(0.01, at=7, of=3, seconds=2.5)).run(engine=engine)
    alone = case._replace(solver=engine_cases.Stops(0.01)).run()
    say(engine.ranks.allgather(np.array_equal(result.w, alone.w)))


def together(_):
    """Ranks whose solvers exchange in different rounds wait for each other."""

    class Uneven(DGD):
        def step(self, problem, network, state):
            if state.round == 3 and 0 in problem.rows:
                network.mix(state.round, state.w)
            return super().step(problem, network, state)

    case = engine_cases.slow(rounds=20)._replace(network=engine_cases.NETWORKS["static"], solver=Uneven(0.01))
    case.run(engine=engine_here(timeout=1.5), record_every=20)


def diverge(folder):
    """Agent 5 finds in round 11 that it has diverged, long before any other."""

    class Lost(GradientTracking):
        def step(self, problem, network, state):
            state = super().step(problem, network, state)
            return state._replace(w=np.where((problem.rows == 5)[:, None] & (state.round > 10), np.nan, state.w))

    case = engine_cases.slow(rounds=40)._replace(solver=Lost(0.01))
    case.run(engine=os.environ[KIND], record_every=2, checkpoint=folder / "run.ckpt" if (folder / "save").exists() else None)


def _call(engine, folder):
    """Write which process this rank is."""
    part = folder / f".{engine.rank}"
    part.write_text(str(os.getpid()))
    part.rename(folder / f"rank-{engine.rank}")


def slowly(folder):
    """A run to be hit in the middle."""
    engine = engine_here()
    _call(engine, folder)
    engine_cases.slow(0.02, record_every=1).run(engine=engine, checkpoint=folder / "run.ckpt")
    print("never printed")


def preempted(folder):
    """A run that is told to end, if it has not been before."""
    engine, path = engine_here(), folder / "run.ckpt"
    resume = path if engine.broadcast(lambda: (folder / "again").exists()) else None
    _call(engine, folder)
    case = engine_cases.slow(0.0 if resume else 0.02, record_every=20, every=30, rounds=300)
    result = case.run(engine=engine, checkpoint=path, resume=resume)
    if engine.root:
        write(folder / "result.npz", result)


def restarted(folder):
    """A run to be hit once, and then to be started again."""
    engine, path = engine_here(), folder / "run.ckpt"
    resumed = engine.broadcast(lambda: path.exists() and read(path).round)
    if not resumed:
        _call(engine, folder)
    result = engine_cases.slow(0.02, rounds=100).run(engine=engine, checkpoint=path, resume=path if resumed else None)
    if engine.root:
        write(folder / "result.npz", result)
    say({"resumed": resumed})


def grouped(_):
    """The script has its ranks already."""
    from torch import distributed

    distributed.init_process_group("gloo")
    try:
        engine_here(rank=0)
    except ValueError as error:
        said = [str(error)]
    case = engine_cases.special()["functions, tracking"]
    results = [case.run(engine=engine_here()), case.run(engine="torch"), case.run(engine=engine_here(cores=2))]
    say(said + [np.array_equal(result.w, case.run().w) for result in results])
    distributed.destroy_process_group()
