"""Under mpiexec: run cases on the ranks and write what comes out for the tests to compare.

usage: engine_ranks.py what folder
"""

import json
import os
import sys
from pathlib import Path

import engine_cases
import numpy as np
import user_cases
from engine_harness import columns, write

import consensus
import topologies
from consensus.compression import Drawn, Factors, Halves, Quantised, Runs, Sparse, Whole
from consensus.engines import MPI, ranks
from consensus.solvers import DGD, OPAPC, AccGT, Gossip, GradientTracking
from consensus.workers import waiting


def same_everywhere(engine, result):
    """Whether all ranks came to the same result."""
    everything = [result.w, *columns(result.history).values()]
    mine = (result.rounds, result.reason, *(array.tobytes() for array in everything))
    return all(other == mine for other in engine.communicator.allgather(mine))


def equality(folder):
    engine, report = MPI(strict=True), {"differ": [], "own rows": True, "steps": []}
    cases = engine_cases.compared()
    for number, name in enumerate(engine_cases.part(cases, engine.communicator.size)):
        case = cases[name]
        result = case.run(engine=engine)
        if not same_everywhere(engine, result):
            report["differ"].append(name)
        if engine.root:
            write(folder / f"{number}.npz", result)
        if number == 0:  # without gathering, each rank has its own rows of the same
            own = case.run(engine=engine, gather=False)
            equal = np.array_equal(own.w, result.w[engine.rows(engine_cases.AGENTS)])
            report["own rows"] = all(engine.communicator.allgather(equal))
    smooth = engine_cases.problem("logistic", consensus.L2(0.02), consensus.Linear(4))
    networks = engine_cases.NETWORKS["random"], engine_cases.NETWORKS["static"]
    for solver, network in zip((AccGT(), Gossip(OPAPC(), 2, 0.3)), networks, strict=True):
        case = engine_cases.Case(smooth, network, solver, engine_cases.OBSERVED)  # ranks with their own agents alone find the
        alone = case.run()  # step of the whole network
        shared = case._replace(problem=smooth.restrict(engine.rows(engine_cases.AGENTS))).run(engine=engine)
        equal = np.array_equal(shared.w, alone.w) and repr(shared.solver) == repr(alone.solver)
        report["steps"] += engine.communicator.allgather(equal)
    if engine.root:
        print(json.dumps(report))


def resume(folder):
    """Save what one process saves, and go on from what one process has saved."""
    engine, differ = MPI(), []
    (folder / "resumed").mkdir(exist_ok=True)
    for name, case in engine_cases.saved().items():
        case.run(engine=engine, rounds=engine_cases.UNTIL, checkpoint=folder / "mpi" / name)
        result = case.run(engine=engine, resume=folder / "stacked" / name)
        if not same_everywhere(engine, result):
            differ.append(name)
        if engine.root:
            write(folder / "resumed" / f"{name}.npz", result)
    if engine.root:
        print(json.dumps({"differ": differ}))


def callbacks(folder):
    """Callbacks and metrics on the first rank; each run is stopped by a callback, saved, and resumed."""
    engine = MPI()
    report = {"differ": [], "elsewhere": 0, "seen": {}}
    for number, (name, case) in enumerate(engine_cases.watched().items()):
        watching, path = engine_cases.Watching(6), folder / f"{number}.ckpt"
        stopped = case.run(engine=engine, callbacks=[watching], checkpoint=path)
        resumed = case.run(engine=engine, callbacks=[engine_cases.Watching()], resume=path)
        if not (same_everywhere(engine, stopped) and same_everywhere(engine, resumed)):
            report["differ"].append(name)
        report["elsewhere"] += sum(map(len, engine.communicator.allgather(watching.seen)[1:]))
        report["seen"][name] = watching.seen
        if engine.root:
            write(folder / f"{number} stopped.npz", stopped)
            write(folder / f"{number} resumed.npz", resumed)
    timed = engine_cases.slow(0.02, record_every=3).run(engine=engine, seconds=0.3)
    report["timed"] = engine.communicator.allgather((timed.reason, timed.rounds, timed.history["seconds"].tolist()))
    if engine.root:
        print(json.dumps(report))


def callback_fails(folder):
    os.chdir(folder)

    def fails(seen):
        if seen.round == 9:
            raise engine_cases.Trouble(0, seen.round)

    engine_cases.watched()["functions, tracking"].run(engine="mpi", callbacks=[fails])
    print("never printed")


def cheat(folder):
    os.chdir(folder)
    engine_cases.cheating().run(engine=MPI(strict=True))
    print("never printed")


def fail(folder):
    os.chdir(folder)
    case = engine_cases.special()["functions, DGD"]
    case._replace(solver=engine_cases.Faulty(0.02)).run(engine="mpi")
    print("never printed")


def refuse(folder):
    """What is refused on one rank is refused on all, and the ranks can go on together."""
    engine, case = MPI(), engine_cases.special()["tolerance"]
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
    said = []
    for attempt in attempts:
        try:
            said.append(attempt().reason)
        except (ValueError, TypeError, OSError) as error:
            said.append(f"{type(error).__name__}: {error}")
    everyone = engine.communicator.gather(said)
    if engine.root:
        print(json.dumps(everyone))


def look(_):
    """Which attributes of a problem a rank sees differently from one process."""
    engine, differ = MPI(), {}
    for name, problem in user_cases.PROBLEMS.items():
        kept = []
        consensus.solve(problem, engine_cases.NETWORKS["static"], user_cases.Keep(kept), rounds=0, engine=engine)
        ((rows, seen),) = kept
        expected = user_cases.attributes(problem.restrict(rows))
        differ[name] = [key for key in {**seen, **expected} if repr(seen[key]) != repr(expected[key])]
    everyone = engine.communicator.gather(differ)
    if engine.root:
        print(json.dumps(everyone))


def faulty(_):
    """What is said of faulty solvers and schedules, on one rank."""
    said = {}
    for name, (case, kind, _) in user_cases.FAULTY.items():
        try:
            case.run(engine="mpi")
        except kind as error:
            said[name] = type(error).__name__, str(error)
    print(json.dumps(said))


def _refusals(engine, attempts):
    """What each attempt says on every rank; printed by the first."""
    said = []
    for attempt in attempts:
        try:
            said.append(attempt().reason)
        except (ValueError, TypeError, RuntimeError, OSError) as error:
            said.append(f"{type(error).__name__}: {error}")
    everyone = engine.communicator.gather(said)
    if engine.root:
        print(json.dumps(list(zip(*everyone, strict=True))))


def differ(folder):
    """Arguments of which rank 1 has others than the rest."""
    engine = MPI()
    odd, case = engine.rank == 1, engine_cases.slow(rounds=6)
    X, y = np.random.default_rng(engine.rank).standard_normal((20, 4)), np.zeros(20)
    mine = consensus.partition(X, y, 7)
    drawn = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), mine, consensus.L2(0.1))
    own = case.problem.restrict(engine.rows(engine_cases.AGENTS))

    class Unfit(DGD):
        def check(self, problem):
            if odd:
                raise KeyError("colour")

    def run(**changed):
        return lambda: case.run(engine=engine, **changed)

    _refusals(
        engine,
        [
            run(rounds=7 if odd else 6),
            run(checkpoint=folder / "run.ckpt" if odd else None),
            run(record_every=2 + odd, every=3 + odd),
            run(gather=not odd),
            run(start=np.full(5, float(engine.rank))),
            lambda: case._replace(solver=DGD(0.01 + 0.01 * odd)).run(engine=engine),
            lambda: case._replace(network=engine_cases.NETWORKS["periodic" if odd else "static"]).run(engine=engine),
            lambda: case._replace(problem=drawn).run(engine=engine),
            lambda: case._replace(problem=own if odd else case.problem).run(engine=engine),
            run(rounds=-1 if odd else 6),
            run(rounds=-1),
            run(rounds=-1 - engine.rank),
            lambda: consensus.solve(case.problem, 3 if odd else case.network, DGD(0.01), rounds=3, engine=engine),
            lambda: case._replace(solver=Unfit(0.01)).run(engine=engine),
            run(test=(X, y) if odd else None),
            run(test=(X[:, :2], y) if odd else None),
            run(progress=odd),
            run(seed=int(odd)),
            run(seed=np.random.default_rng(3)),
        ],
    )


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


def stopped(folder):
    """The last rank is stopped for good, in a row of ranks that speak with their neighbours only."""
    os.chdir(folder)
    case = engine_cases.slow(rounds=20)._replace(
        network=topologies.Static(topologies.path(engine_cases.AGENTS)), solver=engine_cases.Stops(0.01, at=7, of=6)
    )
    case.run(engine=MPI(timeout=2.0), record_every=5)
    print("never printed")


def back(_):
    """The rank with agent 3 is stopped for a while."""
    waiting.PATIENCE = 0.5
    engine = MPI()
    case = engine_cases.slow(rounds=20)._replace(solver=engine_cases.Stops(0.01, at=7, of=3, seconds=2.5))
    result = case.run(engine=engine)
    alone = case._replace(solver=engine_cases.Stops(0.01)).run()
    same = engine.communicator.gather(np.array_equal(result.w, alone.w))
    if engine.root:
        print(json.dumps(same))


def together(folder):
    """Ranks whose solvers exchange in different rounds wait for each other."""

    class Uneven(DGD):
        def step(self, problem, network, state):
            if state.round == 3 and 0 in problem.rows:
                network.mix(state.round, state.w)
            return super().step(problem, network, state)

    os.chdir(folder)
    case = engine_cases.slow(rounds=20)._replace(network=engine_cases.NETWORKS["static"], solver=Uneven(0.01))
    case.run(engine=MPI(timeout=1.5), record_every=20)


def diverge(folder):
    """Agent 5 finds in round 11 that it has diverged, long before any other."""

    class Lost(GradientTracking):
        def step(self, problem, network, state):
            state = super().step(problem, network, state)
            return state._replace(w=np.where((problem.rows == 5)[:, None] & (state.round > 10), np.nan, state.w))

    os.chdir(folder)
    case = engine_cases.slow(rounds=40)._replace(solver=Lost(0.01))
    case.run(engine="mpi", record_every=2, checkpoint=folder / "run.ckpt" if (folder / "save").exists() else None)


def slowly(folder):
    """A run to be hit in the middle."""
    engine = MPI()
    part = folder / f".{engine.rank}"
    part.write_text(str(os.getpid()))
    part.rename(folder / f"rank-{engine.rank}")
    case = engine_cases.slow(0.02, record_every=1)
    case.run(engine=engine, checkpoint=folder / "run.ckpt")
    print("never printed")


class Wire:
    """A communicator that counts the bytes of messages from this rank; notes between ranks that wait are not counted."""

    def __init__(self, communicator):
        self.communicator, self.sent = communicator, 0

    def __getattr__(self, name):
        return getattr(self.communicator, name)

    def Isend(self, rows, rank, tag):
        self.sent += rows.nbytes * (tag == ranks._MIXED)
        return self.communicator.Isend(rows, rank, tag)


def sent(solver, rounds, network="static"):
    """The bytes that all ranks send in a run, and its last row of the history."""
    wire = Wire(MPI().communicator)
    engine, case = MPI(), engine_cases.grid()["DGD, static, equal"]
    engine.ranks.communicator = wire
    case = case._replace(solver=solver, network=engine_cases.TREES[network])
    history = case.run(engine=engine, rounds=rounds).history
    return engine.communicator.allreduce(wire.sent), {name: int(history[name][-1]) for name in ("messages", "floats", "bytes")}


def say(value):
    if MPI().root:
        print(json.dumps(value))


def packed(_):
    """How many bytes all ranks send, for each form of rows."""

    class Send(DGD):
        form = None

        def step(self, problem, network, state):
            (w,) = network.mix(state.round, self.form(state.w))
            return state._replace(round=state.round + 1, w=w)

    wire = {}
    for name, form in (
        ("arrays", lambda w: w),
        ("4 of 19", lambda w: Sparse.largest(w, 4)),
        ("4 bits", lambda w: Quantised.nearest(w, 4)),
        ("halves", Halves.nearest),
        ("4 drawn", lambda w: Drawn.some(w, 4, np.arange(len(w)), seed=0, number=1)),
        ("rank 1", lambda w: Factors.along(w, ((0, 4, 3),), [np.ones((len(w), 3, 1))])),
        ("runs", lambda w: Runs.nearest(w, np.full((len(w), 1), 0.125))),
        ("whole", Whole),
    ):
        solver = Send(0.1)
        object.__setattr__(solver, "form", form)
        wire[name], _ = sent(solver, rounds=5)
    say(wire)


def told(_):
    """How many bytes all ranks send in a round in which neighbours send each other three numbers, and what is counted."""

    class Tell(DGD):
        def step(self, problem, network, state):
            ends = network.edges(state.round)
            network.send_each(state.round, ends, np.zeros((*ends.there.shape, 3)))
            return state._replace(round=state.round + 1)

    wire, counts = sent(Tell(0.1), rounds=1)
    say([wire, *counts.values()])


def summed(_):
    """How many bytes all ranks send in sums over a tree, and what is counted: three numbers, then runs of two solvers."""

    class Summed(DGD):
        def step(self, problem, network, state):
            rows = np.arange(3.0) + problem.rows[:, None]
            totals = network.tree.broadcast(network.tree.reduce(rows))
            assert (totals == np.arange(3.0) * network.agents + np.arange(network.agents).sum()).all()
            return state._replace(round=state.round + 1)

    wire, counts = sent(Summed(0.1), rounds=1)
    solvers = engine_cases.TREE_SOLVERS
    say([[wire, *counts.values()], [[sent(solver, 12, network)[0] for solver in solvers] for network in engine_cases.TREES]])


if __name__ == "__main__":
    DONE = equality, resume, callbacks, callback_fails, cheat, fail, refuse, look, faulty, differ, packed, told, summed
    STUCK = absent, elsewhere, stopped, back, together, diverge, slowly
    tasks = {task.__name__: task for task in (*DONE, *STUCK)}
    tasks[sys.argv[1]](Path(sys.argv[2]))
