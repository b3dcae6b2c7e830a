"""Under mpiexec: run cases on the ranks and write what comes out for the tests to compare.

usage: engine_ranks.py what folder
"""

import json
import sys
from pathlib import Path

import engine_cases
import numpy as np
from engine_harness import columns, write

import consensus
import topologies
from consensus.engines import MPI
from consensus.solvers import DGD


def same_everywhere(engine, result):
    """Whether all ranks came to the same result."""
    everything = [result.w, *columns(result.history).values()]
    mine = (result.rounds, result.reason, *(array.tobytes() for array in everything))
    return all(other == mine for other in engine.communicator.allgather(mine))


def equality(folder):
    engine, report = MPI(strict=True), {"differ": [], "own rows": True}
    for number, (name, case) in enumerate({**engine_cases.grid(), **engine_cases.special()}.items()):
        result = case.run(engine=engine)
        if not same_everywhere(engine, result):
            report["differ"].append(name)
        if engine.root:
            write(folder / f"{number}.npz", result)
        if number == 0:  # without gathering, each rank has its own rows of the same
            own = case.run(engine=engine, gather=False)
            equal = np.array_equal(own.w, result.w[engine.rows(engine_cases.AGENTS)])
            report["own rows"] = all(engine.communicator.allgather(equal))
    if engine.root:
        print(json.dumps(report))


def save(folder):
    for name, case in engine_cases.saved().items():
        case.run(engine="mpi", rounds=engine_cases.UNTIL, checkpoint=folder / f"{name} mpi.npz")


def resume(folder):
    engine, differ = MPI(), []
    for path in sorted(folder.glob("*.npz")):
        case = engine_cases.saved()[path.stem.rsplit(" ", 1)[0]]
        result = case.run(engine=engine, resume=path)
        if not same_everywhere(engine, result):
            differ.append(path.name)
        if engine.root:
            write(folder / "resumed" / path.name, result)
    if engine.root:
        print(json.dumps({"differ": differ}))


def cheat(_):
    engine_cases.cheating().run(engine=MPI(strict=True))
    print("never printed")


def fail(_):
    case = engine_cases.special()["functions, DGD"]
    case._replace(solver=engine_cases.Faulty(0.02)).run(engine="mpi")
    print("never printed")


def refuse(folder):
    """What is refused on one rank is refused on all, and the ranks can go on together."""
    engine, case = MPI(), engine_cases.special()["tolerance"]
    other = case.problem.restrict(slice(3, 5))  # held by no rank
    mixed = other if engine.rank == 1 else case.problem
    few = consensus.Problem.from_functions(lambda w: w[:, 0], np.ones_like, agents=3, parameters=1)
    attempts = [
        lambda: consensus.solve(few, topologies.ring(3), DGD(0.1), rounds=3, engine=engine),
        lambda: case._replace(problem=other).run(engine=engine),
        lambda: case._replace(problem=mixed).run(engine=engine),
        lambda: case.run(engine=engine, resume=folder / "nonsense"),
        lambda: case.run(engine=engine, resume=folder / "absent"),
        lambda: case._replace(solver=DGD(0.01)).run(engine=engine, resume=folder / "other"),
        lambda: case.run(engine=engine, rounds=3),
    ]
    said = []
    for attempt in attempts:
        try:
            said.append(attempt().reason)
        except (ValueError, OSError) as error:
            said.append(f"{type(error).__name__}: {error}")
    everyone = engine.communicator.gather(said)
    if engine.root:
        print(json.dumps(everyone))


if __name__ == "__main__":
    tasks = {task.__name__: task for task in (equality, save, resume, cheat, fail, refuse)}
    tasks[sys.argv[1]](Path(sys.argv[2]))
