"""Hashes of runs: between engines, and between a commit and another that is to change no bit.

usage: python -m tests.helpers.golden > before.txt; of the other commit the same > after.txt; diff before.txt after.txt

Bits depend on the kind of processor and on the libraries' versions: compare files of one machine and one environment.
"""

import functools
import hashlib
import itertools
import sys
import tempfile
import warnings
from pathlib import Path

import consensus
import topologies
from consensus import asynchronous, centralized
from consensus.errors import RunError
from consensus.surrogates import PartialLinearization
from consensus.testing.cases import default_network, default_problem, directed_graph
from tests.helpers import engine_cases
from tests.helpers.engine_harness import columns, engine_here
from tests.helpers.every_solver import SOLVERS
from tests.helpers.problems import data, problem

MLP = problem("logistic", consensus.L2(0.1), consensus.MLP([4, 6, 1]), "sizes")
RING, ALL = topologies.Static(topologies.ring(6)), topologies.Static(topologies.complete(7))
#: The solvers that take another problem or network than the one that ``check_solver`` gives them.
OTHER = {"attacked": (None, ALL), **dict.fromkeys(("PowerGossip", "PowerGossip, tracking", "BEER, low rank"), (MLP, RING))}
CIRCLE = topologies.Static(directed_graph(6), weights=topologies.push)
MODES = ("record", "test set", "keep", "resume")
WITHOUT_ROUNDS = {
    "ADPSGD": (asynchronous.ADPSGD(0.01, batch=3), RING),
    "ASYSONATA": (asynchronous.ASYSONATA(PartialLinearization(20.0), 0.1), CIRCLE),
    "AsynchronousDGD": (asynchronous.AsynchronousDGD(0.01, batch=3), RING),
    "OverlapSGP": (asynchronous.OverlapSGP(0.01, batch=3), CIRCLE),
    "RASGP": (asynchronous.RASGP(0.001, batch=3), CIRCLE),
}
SYSTEMS = (
    centralized.SynchronousSGD(5, 0.1, 0.9),
    centralized.MapReduceGradientDescent(0.1),
    centralized.FedAvg(0.1, 3, batch=3),
    centralized.SCAFFOLD(0.1, 3, batch=3),
    centralized.FedAdam(0.1, 3, batch=3),
)


def runs(engine="stacked", few=False):
    """By its name, a function that runs a solver in a mode: in all of them, or each solver in the next one."""
    pairs = zip(SOLVERS, itertools.cycle(MODES)) if few else itertools.product(SOLVERS, MODES)
    return {f"{name}: {mode}": functools.partial(run, name, mode, engine) for name, mode in pairs}


def run(name, mode, engine="stacked"):
    """The result of a solver in a mode: with a test set, with the best point kept, or stopped and resumed."""
    solver, (p, network) = SOLVERS[name], OTHER.get(name, (None, None))
    p, network = p or default_problem(solver), network or default_network(solver)
    return in_mode(functools.partial(consensus.solve, p, network, solver, engine=engine), mode, p is MLP, engine)


def in_mode(solve, mode, labels, engine=None):
    solve = functools.partial(solve, rounds=7, record_every=3)
    if mode == "test set":
        X, y = data(samples=13, seed=1)
        return solve(test=(X, (y > 0).astype(float) if labels else y))
    if mode == "keep":
        return solve(keep="objective")
    if mode == "record":
        return solve()
    everyone = engine.ranks.allgather if hasattr(engine, "ranks") else lambda mine: [mine]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(everyone(folder)[0]) / "checkpoint"
        solve(rounds=4, checkpoint=path)
        result = solve(resume=path)
        everyone(None)  # the folder is removed when all have read it
        return result


def others():
    """Runs of one process beside those of solvers: of other problems, models and networks, without rounds, with servers."""
    found = {name: functools.partial(case.run, rounds=min(case.options["rounds"], 20)) for name, case in cases().items()}
    simulated = asynchronous.Simulated((0.5, 1.5), 0.2, seed=1)
    p = problem(scheme="iid")
    for name, mode in itertools.product(WITHOUT_ROUNDS, MODES):
        solver, network = WITHOUT_ROUNDS[name]
        solve = functools.partial(consensus.solve, p, network, solver, engine=simulated)
        found[f"{name}: {mode}"] = functools.partial(in_mode, solve, mode, False)
    for system, mode in itertools.product(SYSTEMS, MODES):
        solve = functools.partial(centralized.solve, MLP, system)
        found[f"{type(system).__name__}: {mode}"] = functools.partial(in_mode, solve, mode, True)
    return found


def cases():
    return {f"case {name}": case for name, case in {**engine_cases.grid(), **engine_cases.special()}.items()}


def hashed(result):
    """Digests of ``w``, and of all that was recorded but the time, with the point that was kept."""
    columns_of_it = hashlib.sha256()
    for name, column in sorted(columns(result.history).items()):
        columns_of_it.update(f"{name} {column.dtype} {column.shape}".encode() + column.tobytes())
    if result.best is not None:
        best = result.best
        columns_of_it.update(f"{best[:3]}".encode() + (best.mean if best.w is None else best.w).tobytes())
    w = hashlib.sha256(f"{result.w.dtype} {result.w.shape}".encode() + result.w.tobytes())
    return f"{w.hexdigest()[:16]} {columns_of_it.hexdigest()[:16]}"


def lines(found):
    """A line for each run: its name, and its digests or its error."""
    for name, function in found.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield f"{name}\t{hashed(function())}"
            except (TypeError, ValueError, RunError) as error:
                yield f"{name}\t{type(error).__name__}: {error}"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        for line in lines(runs() | others()):
            print(line, flush=True)
    else:  # on ranks, with all modes or few
        engine = engine_here()
        for line in lines(runs(engine, few=sys.argv[1] == "few")):
            everyone = engine.ranks.allgather(line)
            if engine.root:
                print(line if len({*everyone}) == 1 else f"ranks differ: {everyone}", flush=True)
