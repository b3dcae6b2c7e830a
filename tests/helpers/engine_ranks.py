"""Under mpiexec: run cases on the ranks and write what comes out for the tests to compare.

usage: engine_ranks.py what folder
"""

import os
import sys
from pathlib import Path

import numpy as np

import consensus
import topologies
from consensus.solvers import DGD, OPAPC, AccGT, Gossip
from tests.helpers import engine_cases, user_cases
from tests.helpers.engine_disks import killed_apart, resume_apart, save_apart  # noqa: F401
from tests.helpers.engine_ends import (  # noqa: F401
    absent,
    back,
    callback_fails,
    cheat,
    diverge,
    elsewhere,
    fail,
    grouped,
    preempted,
    restarted,
    slowly,
    stopped,
    together,
)
from tests.helpers.engine_harness import KIND, columns, engine_here, say, write
from tests.helpers.engine_wire import packed, sent_each, summed  # noqa: F401


def same_everywhere(engine, result):
    """Whether all ranks came to the same result."""
    everything = [result.w, *columns(result.history).values()]
    mine = (result.rounds, result.reason, *(array.tobytes() for array in everything))
    return all(other == mine for other in engine.ranks.allgather(mine))


def equality(folder):
    engine, report = engine_here(strict=True), {"differ": [], "own rows": True, "steps": []}
    cases = engine_cases.compared()
    for number, name in enumerate(engine_cases.part(cases, engine.size)):
        result = cases[name].run(engine=engine)
        if not same_everywhere(engine, result):
            report["differ"].append(name)
        if engine.root:
            write(folder / f"{number}.npz", result)
        if number == 0:  # without gathering, each rank has its own rows of the same
            own = cases[name].run(engine=engine, gather=False)
            equal = np.array_equal(own.w, result.w[engine.rows(engine_cases.AGENTS)])
            report["own rows"] = all(engine.ranks.allgather(equal))
    smooth = engine_cases.problem("logistic", consensus.L2(0.02), consensus.Linear(4))
    for solver, network in ((AccGT(), "random"), (Gossip(OPAPC(), 2, 0.3), "static")):
        # Ranks that hold their own agents alone find the step of the whole network.
        case = engine_cases.Case(smooth, engine_cases.NETWORKS[network], solver, engine_cases.OBSERVED)
        alone = case.run()
        shared = case._replace(problem=smooth.restrict(engine.rows(engine_cases.AGENTS))).run(engine=engine)
        equal = np.array_equal(shared.w, alone.w) and repr(shared.solver) == repr(alone.solver)
        report["steps"] += engine.ranks.allgather(equal)
    say(report)


def run_few(engine, folder):
    """Which of a few runs differ between ranks; all are written."""
    differ = []
    for name in engine_cases.FEW:
        result = engine_cases.compared()[name].run(engine=engine)
        differ += [] if same_everywhere(engine, result) else [name]
        if engine.root:
            write(folder / f"{name}.npz", result)
    return differ


def few(folder):
    say({"differ": run_few(engine_here(strict=True), folder)})


def resume(folder):
    """Save what one process saves, and go on from what one process has saved."""
    engine, differ = engine_here(), []
    (folder / "resumed").mkdir(exist_ok=True)
    for name, case in engine_cases.saved().items():
        case.run(engine=engine, rounds=engine_cases.UNTIL, checkpoint=folder / "ranks" / name)
        result = case.run(engine=engine, resume=folder / "stacked" / name)
        if not same_everywhere(engine, result):
            differ.append(name)
        if engine.root:
            write(folder / "resumed" / f"{name}.npz", result)
    say({"differ": differ})


def callbacks(folder):
    """Callbacks and metrics on the first rank; each run is stopped by a callback, saved, and resumed."""
    engine = engine_here()
    report = {"differ": [], "elsewhere": 0, "seen": {}}
    for number, (name, case) in enumerate(engine_cases.watched().items()):
        watching, path = engine_cases.Watching(6), folder / f"{number}.ckpt"
        runs = {"stopped": case.run(engine=engine, callbacks=[watching], checkpoint=path)}
        runs["resumed"] = case.run(engine=engine, callbacks=[engine_cases.Watching()], resume=path)
        report["differ"] += [name for result in runs.values() if not same_everywhere(engine, result)]
        report["elsewhere"] += sum(map(len, engine.ranks.allgather(watching.seen)[1:]))
        report["seen"][name] = watching.seen
        for which, result in runs.items() if engine.root else ():
            write(folder / f"{number} {which}.npz", result)
    timed = engine_cases.slow(0.02, record_every=3).run(engine=engine, seconds=0.3)
    report["timed"] = engine.ranks.allgather((timed.reason, timed.rounds, timed.history["seconds"].tolist()))
    say(report)


def look(_):
    """Which attributes of a problem a rank sees differently from one process."""
    engine, differ = engine_here(), {}
    for name, problem in user_cases.PROBLEMS.items():
        kept = []
        consensus.solve(problem, engine_cases.NETWORKS["static"], user_cases.Keep(kept), rounds=0, engine=engine)
        ((rows, seen),) = kept
        expected = user_cases.attributes(problem.restrict(rows))
        differ[name] = [key for key in {**seen, **expected} if repr(seen[key]) != repr(expected[key])]
    say(engine.ranks.allgather(differ))


def faulty(_):
    """What is said of faulty solvers and schedules, on one rank."""
    said = {}
    for name, (case, kind, _) in user_cases.FAULTY.items():
        try:
            case.run(engine=os.environ[KIND])
        except kind as error:
            said[name] = type(error).__name__, str(error)
    say(said)


def _attempted(engine, attempts):
    """What each attempt says on every rank."""
    said = []
    for attempt in attempts:
        try:
            said.append(attempt().reason)
        except (ValueError, TypeError, RuntimeError, OSError) as error:
            said.append(f"{type(error).__name__}: {error}")
    everyone = engine.ranks.allgather(said)
    say(everyone and list(zip(*everyone, strict=True)))


def refuse(folder):
    """Arguments that are refused on one rank; the last attempt shows that the ranks can go on together."""
    engine, case = engine_here(), engine_cases.special()["tolerance"]
    other = case.problem.restrict(slice(3, 5))  # held by no rank
    mixed = other if engine.rank == 1 else case.problem
    few = consensus.Problem.from_functions(lambda w: w[:, 0], np.ones_like, agents=3, parameters=1)
    unknown = engine_cases.special()["functions, DGD"]
    attempts = [
        lambda: consensus.solve(few, topologies.ring(3), DGD(0.1), rounds=3, engine=engine),
        lambda: case._replace(problem=other).run(engine=engine),
        lambda: case._replace(problem=mixed).run(engine=engine),
        lambda: case.run(engine=engine, resume=folder / "nonsense"),
        lambda: case.run(engine=engine, resume=folder / "absent"),
        lambda: case._replace(solver=DGD(0.01)).run(engine=engine, resume=folder / "other"),
        lambda: unknown._replace(problem=unknown.problem.restrict(engine.rows(7)), solver=DGD()).run(engine=engine),
        lambda: case.run(engine=engine, rounds=3),
    ]
    _attempted(engine, attempts)


def differ(folder):
    """Arguments of which rank 1 has others than the rest."""
    engine = engine_here()
    odd, case = engine.rank == 1, engine_cases.slow(rounds=6)
    X, y = np.random.default_rng(engine.rank).standard_normal((20, 4)), np.zeros(20)
    drawn = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), consensus.partition(X, y, 7), consensus.L2(0.1))
    own = case.problem.restrict(engine.rows(engine_cases.AGENTS))

    class Unfit(DGD):
        def check(self, problem):
            if odd:
                raise KeyError("colour")

    def run(**changed):
        fields = {name: changed.pop(name) for name in ("problem", "network", "solver") if name in changed}
        return lambda: case._replace(**fields).run(engine=engine, **changed)

    attempts = [
        run(rounds=7 if odd else 6),
        run(checkpoint=folder / "run.ckpt" if odd else None),
        run(record_every=2 + odd, every=3 + odd),
        run(gather=not odd),
        run(start=np.full(5, float(engine.rank))),
        run(solver=DGD(0.01 + 0.01 * odd)),
        run(network=engine_cases.NETWORKS["periodic" if odd else "static"]),
        run(problem=drawn),
        run(problem=own if odd else case.problem),
        run(rounds=-1 if odd else 6),
        run(rounds=-1),
        run(rounds=-1 - engine.rank),
        run(network=3 if odd else case.network, solver=DGD(0.01)),
        run(solver=Unfit(0.01)),
        run(test=(X, y) if odd else None),
        run(test=(X[:, :2], y) if odd else None),
        run(progress=odd),
        run(seed=int(odd)),
        run(seed=np.random.default_rng(3)),
    ]
    _attempted(engine, attempts)


if __name__ == "__main__":
    folder = Path(sys.argv[2]).resolve()
    os.chdir(folder)
    globals()[sys.argv[1]](folder)
