"""Under mpiexec: ranks of owners, each with its own rows alone, in a working directory of its own, and all that they send.

usage: privacy_ranks.py task folder
"""

import os
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np

import consensus
import topologies
from consensus.privacy import Private, SecureSums, gradients
from consensus.solvers import DGD, Gossip, GradientTracking, TreeLBFGS, TreeNewton
from tests.helpers.engine_harness import engine_here, say

AGENTS, SAMPLES, FEATURES = 6, 9, 3
NETWORK = topologies.Static(topologies.complete(AGENTS))
START = np.array([0.25, -0.125, 0.5, 0.0625])


class Tap:
    """A transport that keeps a copy of all that this rank sends."""

    def __init__(self, transport):
        self.transport, self.sent = transport, []

    def __getattr__(self, name):
        return getattr(self.transport, name)

    def exchange(self, kind, receives, sends):
        self.sent += [np.ascontiguousarray(rows).tobytes() for _, rows in sends]
        return self.transport.exchange(kind, receives, sends)

    def broadcast(self, rows):
        if self.me == 0:
            self.sent.append(rows.tobytes())
        return self.transport.broadcast(rows)


class Watched(consensus.Problem):
    """A problem that keeps all that it computes of its data."""

    computed: ClassVar[list] = []

    def value(self, w, *more):
        return self.kept(super().value(w, *more))

    def gradient(self, w, *more):
        return self.kept(super().gradient(w, *more))

    def value_and_gradient(self, w, *more):
        return tuple(map(self.kept, super().value_and_gradient(w, *more)))

    @classmethod
    def kept(cls, found):
        cls.computed.append(np.array(found, float).ravel())
        return found


def samples_kept(problem, w, places):
    return Watched.kept(_sample_gradients(problem, w, places))


_sample_gradients = gradients.sample_gradients
gradients.sample_gradients = samples_kept


def problem(seed=0, rows=slice(0, AGENTS)):
    """All agents' problem, or that of some of them."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((AGENTS, SAMPLES, FEATURES)), rng.standard_normal((AGENTS, SAMPLES))
    shards = consensus.Shards.from_list(list(zip(X, y)))
    return Watched(consensus.Linear(FEATURES), consensus.SquaredLoss(), shards, consensus.L2(0.1)).restrict(rows)


def here(folder):
    """The engine with a tap, in a working directory of this rank's."""
    engine = engine_here()
    (folder / f"disk-{engine.rank}").mkdir(exist_ok=True)
    os.chdir(folder / f"disk-{engine.rank}")
    engine.ranks.transport = Tap(engine.ranks.transport)
    return engine


def secrets(own):
    """The numbers of a rank's data, and all that was computed of them; none that anybody could guess."""
    numbers = np.concatenate([own.shards.features.ravel(), own.shards.targets.ravel(), *Watched.computed])
    return np.unique(numbers[(numbers != np.rint(8 * numbers) / 8) & np.isfinite(numbers)])


def found(own, sent):
    """How many of the secrets are among the bytes sent, and how many digests of the data."""
    whole = b"".join(sent)
    digests = [each.encode() if isinstance(each, str) else bytes(each) for each in own.digests()]
    return sum(number.tobytes() in whole for number in secrets(own)), sum(each in whole for each in digests)


RUNS = {
    "TreeLBFGS": (TreeLBFGS(secure=SecureSums()), {}),
    "TreeLBFGS, float64": (TreeLBFGS(rounded=False, secure=SecureSums()), {"agent_objectives": True}),
    "TreeNewton": (TreeNewton(columns=3, secure=SecureSums()), {"record_every": 2}),
    "Private": (Private(DGD(0.1), 0.5, 3.0), {}),
    "Private, correlated": (Private(GradientTracking(0.05, batch=3), 0.5, 1.0, correlated=20.0), {}),
    "Private, grid": (Gossip(Private(DGD(0.1), 0.5, 3.0, grid=2.0**-12), 2), {}),
}
OPEN = {"TreeLBFGS, float64": (TreeLBFGS(rounded=False), {}), "DGD": (DGD(0.1), {})}


def searched(folder):
    """Search all that each rank sends and writes, at the start, in rounds, at records and checkpoints, and when it resumes."""
    engine = here(folder)
    own, report = problem(rows=engine.rows(AGENTS)), {}
    for hidden, runs in ((True, RUNS), (False, OPEN)):
        for number, (name, (solver, options)) in enumerate(runs.items()):
            engine.ranks.transport.sent.clear()
            Watched.computed.clear()
            path = f"{number}-{hidden}.ckpt"
            common = {"engine": engine, "start": START, "record_every": 1, "every": 2} | options
            consensus.solve(own, NETWORK, solver, rounds=4, checkpoint=path, **common)
            result = consensus.solve(own, NETWORK, solver, rounds=7, resume=path, **common)
            result.history.to_csv(f"{number}-{hidden}.csv")
            result.save(f"{number}-{hidden}.npz")
            numbers, digests = found(own, engine.ranks.transport.sent)
            report[f"{name}, {'hidden' if hidden else 'open'}"] = engine.ranks.allgather((len(secrets(own)), numbers, digests))
            np.save(folder / f"secrets-{engine.rank}-{number}-{hidden}.npy", secrets(own))
    say(report)


def fresh(folder):
    """Runs with one seed, and the first messages less the noise that this seed gives in one process."""
    engine = here(folder)
    own, report = problem(rows=engine.rows(AGENTS)), {}
    for correlated in (0.0, 7.0):
        solver = Private(DGD(0.1), clip=0.5, noise=2.0, correlated=correlated, seed=3)
        first, second = (consensus.solve(own, NETWORK, solver, rounds=1, start=START, engine=engine).w for _ in range(2))
        alone = consensus.solve(problem(), NETWORK, solver, rounds=1, start=START)
        path = f"{correlated}.ckpt"
        consensus.solve(own, NETWORK, solver, rounds=2, start=START, engine=engine, checkpoint=path)
        ends = [consensus.solve(own, NETWORK, solver, rounds=5, start=START, engine=engine, resume=path) for _ in range(2)]
        report[str(correlated)] = {
            "runs": [first.tolist(), second.tolist()],
            "alone": alone.w.tolist(),
            "resumed": [end.w.tolist() for end in ends],
            "gradients": [int(end.history["gradients"][-1]) for end in ends],
            "objective": ends[0].history["objective"].tolist(),
        }
    say(report)


def law(folder):
    """The noise of all agents in many gradients of zero: what each rank draws, (agents, draws)."""
    engine = here(folder)
    p = problem(rows=engine.rows(AGENTS))
    solver = Private(DGD(0.1), clip=0.5, noise=2.0, correlated=3.0).prepared(problem(), NETWORK)
    rows = engine.rows(AGENTS)
    sizes = np.full(engine.size, AGENTS // engine.size)
    own = solver.among_owners(range(rows.start, rows.stop), lambda mine: engine.ranks.allgather_rows(mine, sizes))
    noise = own._seen(p, 0)._noise
    drawn = engine.ranks.allgather_rows(noise.drawn(np.arange(rows.start, rows.stop), 50_000, 4, 1), sizes)
    if engine.root:
        np.save(folder / "law.npy", drawn)
    say(None)


def refused(folder):
    """What is told of the data, and is refused: what each rank hears."""
    engine = here(folder)
    own, private = problem(rows=engine.rows(AGENTS)), Private(DGD(0.1), 0.5, 3.0)
    X, y = np.eye(FEATURES), np.ones(FEATURES)

    def attempt(**options):
        try:
            return consensus.solve(own, NETWORK, private, rounds=2, start=START, engine=engine, **options).reason
        except ValueError as error:
            return str(error)

    options = [
        {"tolerance": 1e-3},
        {"stop": "objective <= 1.0"},
        {"keep": "stationarity"},
        {"agent_objectives": True},
        {"test": own.shards},
        {"test": (X, y), "stop": "test_error <= 1e9"},
    ]
    everyone = engine.ranks.allgather([attempt(**some) for some in options])
    say([list(each) for each in zip(*everyone, strict=True)])


def told(folder):
    """What each rank hears of errors of others, of its own, and of all: the targets of rank 1's test set are no classes."""
    engine = here(folder)
    classes = consensus.Shards.from_list(
        [(np.eye(FEATURES) + agent, np.array([0.0, 1.0, 7.6543 if agent == 2 else 0.0])) for agent in range(AGENTS)]
    ).restrict(engine.rows(AGENTS))
    good = consensus.Shards.from_list([(np.eye(FEATURES) + agent, np.array([0.0, 1.0, 0.0])) for agent in range(AGENTS)])
    own = consensus.Problem(consensus.Linear(FEATURES), consensus.LogisticLoss(), good.restrict(engine.rows(AGENTS)))

    def attempt(**options):
        try:
            return consensus.solve(own, NETWORK, DGD(0.1), engine=engine, **{"rounds": 2} | options).reason
        except (ValueError, TypeError) as error:
            return f"{type(error).__name__}: {error}"

    everyone = engine.ranks.allgather([attempt(test=classes), attempt(rounds=-1), attempt()])
    say([list(each) for each in zip(*everyone, strict=True)])


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]).resolve())
