"""Under mpiexec or torchrun: solvers without rounds on ranks, for the tests to look at what comes out.

usage: async_ranks.py task folder
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

import consensus
import topologies
from consensus.asynchronous import ADPSGD, ASYSONATA, AsyncMPI, AsyncTorch, OverlapSGP
from consensus.engines import MPI
from consensus.solvers import DGD
from consensus.surrogates import FullLinearization
from tests.helpers.engine_harness import KIND, engine_here, say
from tests.helpers.unlike_quadratics import GRAPH, OPTIMUM, QUADRATICS, STEPS, B, H

RING = topologies.ring(8)
Async = {"mpi": AsyncMPI, "torch": AsyncTorch}[os.environ.get(KIND, "mpi")]


def changed(gradient):
    """The quadratics with a gradient of one's own."""
    return consensus.Problem.from_functions(QUADRATICS.value, gradient, agents=8, parameters=QUADRATICS.parameters)


def plain(w, rows):
    return np.einsum("apq,aq->ap", H[rows], w) - B[rows]


def optimum(_):
    """Two runs in a row, the second with each rank's own rows, as messages of the first may not reach it."""
    engine, options = Async(), {"rounds": 10**6, "tolerance": 1e-10, "record_every": 100, "start": np.ones(5)}
    result = consensus.solve(QUADRATICS, GRAPH, STEPS, engine=engine, **options)
    again = MPI(asynchronous=True) if Async is AsyncMPI else Async()
    own = consensus.solve(QUADRATICS, GRAPH, STEPS, engine=again, gather=False, **options)
    same = (result.w.tobytes(), result.reason, result.rounds, *(column.tobytes() for column in result.history.values()))
    everyone = engine.ranks.allgather((same, own.w))
    if engine.root:
        said = {"same": len({theirs for theirs, _ in everyone}), "error": abs(result.w - OPTIMUM).max()}
        said |= {"own": abs(np.concatenate([w for _, w in everyone]) - OPTIMUM).max(), "reason": result.reason}
        said["history"] = {name: result.history[name].tolist() for name in result.history}
    say(said if engine.root else None)


def slow(_):
    """The last agent takes 20 ms for a gradient, unless all are measured."""

    def gradient(w, rows):
        time.sleep(0.1 * (7 in rows and len(rows) < 8))
        return plain(w, rows)

    result = consensus.solve(changed(gradient), GRAPH, STEPS, rounds=300, record_every=300, engine=Async())
    say({name: result.history[name].tolist() for name in ("clock", "wakes", "staleness", "lost")})


def refused(folder):
    engine, said = Async(), []
    own = QUADRATICS.restrict(engine.rows(8))
    attempts = [
        lambda: consensus.solve(QUADRATICS, RING, DGD(0.01), rounds=5, engine=engine),
        lambda: consensus.solve(QUADRATICS, RING, ADPSGD(0.01), rounds=5, engine=engine),
        lambda: consensus.solve(QUADRATICS, GRAPH, OverlapSGP(0.01), rounds=5, engine=engine),
        lambda: consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=5, engine=engine, checkpoint=folder / "run"),
        lambda: consensus.solve(own, GRAPH, STEPS, rounds=5, engine=engine),
        lambda: consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=5 + engine.rank, engine=engine),
        lambda: consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=5, engine=engine_here()),
        lambda: consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=0, engine=engine),
        lambda: consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=5, engine=engine),
    ]
    for attempt in attempts:
        try:
            said.append(attempt().reason)
        except (TypeError, ValueError) as error:
            said.append(f"{type(error).__name__}: {error}")
    say(list(zip(*engine.ranks.allgather(said), strict=True)))


def fails(_):
    """Agent 7 gives up after a while."""
    calls = []

    def gradient(w, rows):
        calls.extend([0] if 7 in rows and len(rows) < 8 else [])
        if len(calls) > 50:
            raise RuntimeError("agent 7 gives up")
        return plain(w, rows)

    consensus.solve(changed(gradient), GRAPH, STEPS, rounds=10**7, record_every=20, engine=Async())
    print("never printed")


def diverges(_):
    consensus.solve(QUADRATICS, GRAPH, ASYSONATA(FullLinearization(0.01), 1.0), rounds=10**7, engine=Async())
    print("never printed")


def stops(_):
    """Agent 7 never comes back from a gradient."""

    def gradient(w, rows):
        time.sleep(60 * (7 in rows and len(rows) < 8 and abs(w - 1).max() > 1e-3))
        return plain(w, rows)

    consensus.solve(changed(gradient), GRAPH, STEPS, rounds=100, start=np.ones(5), engine=Async(timeout=1.5))
    print("never printed")


def endless(folder):
    """A run to be hit in the middle."""

    def tell(info):
        if info.round >= 50:
            (folder / "begun").touch()

    consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=10**7, record_every=50, callbacks=[tell], engine=Async())
    print("never printed")


if __name__ == "__main__":
    folder = Path(sys.argv[2]).resolve()
    os.chdir(folder)
    globals()[sys.argv[1]](folder)
