"""Tasks of ``engine_ranks.py`` that end with an error, or wait."""

import os

import engine_cases
import numpy as np
from engine_harness import say

import topologies
from consensus.engines import MPI
from consensus.solvers import DGD, GradientTracking
from consensus.workers import waiting


def callback_fails(_):
    def fails(seen):
        if seen.round == 9:
            raise engine_cases.Trouble(0, seen.round)

    engine_cases.watched()["functions, tracking"].run(engine="mpi", callbacks=[fails])
    print("never printed")


def cheat(_):
    engine_cases.cheating().run(engine=MPI(strict=True))
    print("never printed")


def fail(_):
    case = engine_cases.special()["functions, DGD"]
    case._replace(solver=engine_cases.Faulty(0.02)).run(engine="mpi")
    print("never printed")


def absent(_):
    """Rank 1 never comes to solve."""
    engine = MPI(timeout=1.5)
    if engine.rank == 1:
        raise ValueError("a fault in the script")
    engine_cases.slow(rounds=6).run(engine=engine)
    print("never printed")


def elsewhere(_):
    """Rank 1 runs alone."""
    engine = MPI(timeout=1.5)
    engine_cases.slow(rounds=6).run(engine="stacked" if engine.rank == 1 else engine)
    if engine.rank != 1:
        print("never printed")


def stopped(_):
    """The last rank is stopped for good, in a row of ranks that exchange with their neighbours only."""
    path, solver = topologies.Static(topologies.path(engine_cases.AGENTS)), engine_cases.Stops(0.01, at=7, of=6)
    engine_cases.slow(rounds=20)._replace(network=path, solver=solver).run(engine=MPI(timeout=2.0), record_every=5)
    print("never printed")


def back(_):
    """The rank with agent 3 is stopped for a while."""
    waiting.PATIENCE = 0.5
    engine, case = MPI(), engine_cases.slow(rounds=20)
    result = case._replace(solver=engine_cases.Stops(0.01, at=7, of=3, seconds=2.5)).run(engine=engine)
    alone = case._replace(solver=engine_cases.Stops(0.01)).run()
    say(engine.communicator.gather(np.array_equal(result.w, alone.w)))


def together(_):
    """Ranks whose solvers exchange in different rounds wait for each other."""

    class Uneven(DGD):
        def step(self, problem, network, state):
            if state.round == 3 and 0 in problem.rows:
                network.mix(state.round, state.w)
            return super().step(problem, network, state)

    case = engine_cases.slow(rounds=20)._replace(network=engine_cases.NETWORKS["static"], solver=Uneven(0.01))
    case.run(engine=MPI(timeout=1.5), record_every=20)


def diverge(folder):
    """Agent 5 finds in round 11 that it has diverged, long before any other."""

    class Lost(GradientTracking):
        def step(self, problem, network, state):
            state = super().step(problem, network, state)
            return state._replace(w=np.where((problem.rows == 5)[:, None] & (state.round > 10), np.nan, state.w))

    case = engine_cases.slow(rounds=40)._replace(solver=Lost(0.01))
    case.run(engine="mpi", record_every=2, checkpoint=folder / "run.ckpt" if (folder / "save").exists() else None)


def slowly(folder):
    """A run to be hit in the middle."""
    engine = MPI()
    part = folder / f".{engine.rank}"
    part.write_text(str(os.getpid()))
    part.rename(folder / f"rank-{engine.rank}")
    engine_cases.slow(0.02, record_every=1).run(engine=engine, checkpoint=folder / "run.ckpt")
    print("never printed")
