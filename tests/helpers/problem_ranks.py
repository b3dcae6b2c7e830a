"""Runs on problems of other kinds than sums over samples, for one process and for ranks: a line with hashes for each."""

import functools

import numpy as np

import consensus
import topologies
from consensus import Box, solvers
from consensus.directions import AccumAdam
from consensus.problems import Aggregative, Online, ZerothOrder
from consensus.testing.cases import default_problem
from tests.helpers.engine_harness import engine_here
from tests.helpers.golden import lines

AGENTS, P = 7, 2
SIDES = np.random.default_rng(0).standard_normal((AGENTS, P))
RING = topologies.Static(topologies.ring(AGENTS))


def problems(by_rows):
    """One of each kind, whose functions take the rows that a process holds, or all agents."""

    def function(of_rows):
        if by_rows:
            return of_rows
        return lambda *arrays: of_rows(*arrays, rows=np.arange(AGENTS))

    def moved(w, round, rows):
        return w - SIDES[rows] - 0.01 * round

    online = Online(
        function(lambda w, round, rows: (moved(w, round, rows) ** 2).sum(axis=1) / 2),
        function(moved),
        agents=AGENTS,
        parameters=P,
        optimum=lambda round: SIDES.mean(axis=0) + 0.01 * round,
        comparator=np.zeros(P),
    )
    aggregative = Aggregative(
        function(lambda x, s, rows: ((x - SIDES[rows]) ** 2 + s**2).sum(axis=1) / 2),
        function(lambda x, s, rows: (x - SIDES[rows], s)),
        agents=AGENTS,
        parameters=P,
        contribution=function(lambda x, rows: 2 * x + rows[:, None]),
        pullback=function(lambda x, v, rows: 2 * v),
        regularizer=[None, Box(-1.0, 0.2), *[None] * (AGENTS - 2)],
    )
    values = ZerothOrder(
        function(lambda w, rows: np.log1p((w - SIDES[rows]) ** 2).sum(axis=1)), agents=AGENTS, parameters=P, radius=1e-3
    )
    return {
        "online": (online, solvers.DGD(0.1)),
        "online, tracking": (online, solvers.GradientTracking(0.1)),
        "aggregative": (aggregative, solvers.AggregativeGT(0.1)),
        "two values": (values, solvers.GradientTracking(0.01)),
        "differences": (values, solvers.EXTRA(0.05)),
    }


def runs(engine="stacked"):
    accumulated = solvers.DGD(0.02, batch=3, direction=AccumAdam())
    pairs = {f"{name}, {by_rows}": pair for by_rows in (True, False) for name, pair in problems(by_rows).items()}
    pairs["accumulated"] = (default_problem(accumulated), accumulated)
    options = {"rounds": 7, "record_every": 1, "engine": engine}
    return {
        name: functools.partial(consensus.solve, p, RING, solver, **options | {"start": np.zeros(p.parameters)})
        for name, (p, solver) in pairs.items()
    }


if __name__ == "__main__":
    engine = engine_here()
    for line in lines(runs(engine)):
        everyone = engine.ranks.allgather(line)
        if engine.root:
            print(line if len({*everyone}) == 1 else f"ranks differ: {everyone}", flush=True)
