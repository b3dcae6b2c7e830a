"""Unlike quadratics, one agent ten times slower than the others: on a simulated clock and on real processes."""

import time

import numpy as np

import consensus
from consensus.asynchronous import ASYSONATA, AsyncProcesses, Simulated
from consensus.engines import Processes
from consensus.solvers import NEXT
from consensus.studies import Grid
from consensus.surrogates import FullLinearization
from experiments.shared.cases import graph

SLOW = 10.0  # times the seconds of the others
WORK = 5e-3  # seconds that an agent takes for a gradient, the slow one SLOW times as many
CLOCKS = SIMULATED, REAL = "simulated clock", "real processes"
WITHOUT, WITH = "NEXT without rounds, full", "NEXT, full"
GRIDS = {
    WITHOUT: Grid(lambda step: ASYSONATA(FullLinearization(1 / step), 1.0), step=[0.5, 0.7, 1.0]),
    WITH: Grid(lambda step: NEXT(FullLinearization(1 / step), 1.0), step=[0.025, 0.035, 0.05]),
}
TUNING = 10  # seeds: the largest step that is stable differs much from one to the next
SECONDS = {WITHOUT: "clock", WITH: "seconds"}  # how histories of real processes call them
LEVELS = {"s to 1%": 1e-2, "s to 0.0001%": 1e-6}  # of the gap between the start and the optimum


class Slowed:
    """Quadratics with unlike minimisers and curvatures from 1/20 to 1, about; ``waits`` is whether gradients take their time.

    The least of their sum is taken off: the objective at the optimum is zero.
    """

    def __init__(self, agents, seed, waits, parameters=20):
        rng = np.random.default_rng(seed)
        self.waits = waits
        self.centres = rng.standard_normal((agents, parameters))
        self.curvatures = np.geomspace(0.05, 1.0, parameters) * rng.uniform(0.5, 1.5, (agents, parameters))
        self.optimum = np.average(self.centres, axis=0, weights=self.curvatures)
        self.least = (self.curvatures * (self.optimum - self.centres) ** 2).sum(axis=1) / 2

    def value(self, w, rows):
        return (self.curvatures[rows] * (w - self.centres[rows]) ** 2).sum(axis=1) / 2 - self.least[rows]

    def gradient(self, w, rows):
        if self.waits and len(rows) < len(self.centres):  # in a worker, not where the run is observed
            time.sleep(WORK * (SLOW if len(self.centres) - 1 in rows else 1.0))
        return self.curvatures[rows] * (w - self.centres[rows])


def case(seed, clock, name, agents):
    """The quadratics, on a clock, for a solver with or without rounds."""
    costs = Slowed(agents, seed, waits=clock == REAL)
    start = np.zeros_like(costs.optimum)
    problem = consensus.Problem.from_functions(costs.value, costs.gradient, agents=agents, parameters=len(start))
    engine = Simulated([WORK] * (agents - 1) + [SLOW * WORK])
    if clock == REAL:
        engine = (Processes if name == WITH else AsyncProcesses)(agents)
    return problem, graph(agents, seed), {"start": start, "engine": engine}


def least(problem):
    """The objective at the optimum."""
    return 0.0
