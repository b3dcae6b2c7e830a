"""Unlike quadratics, one agent ten times slower than the others: on a simulated clock and on real processes."""

import time

import numpy as np

import consensus
from consensus.asynchronous import ASYSONATA, AsyncProcesses, Simulated
from consensus.engines import Processes
from consensus.solvers import NEXT
from consensus.surrogates import FullLinearization
from experiments.shared.cases import graph
from experiments.shared.results import Outcome, Run
from experiments.shared.tuning import Axis, Family

SLOW = 10.0  # times the seconds of the others
WORK = 5e-3  # seconds that an agent takes for a gradient, the slow one SLOW times as many
SIMULATED, REAL = "simulated clock", "real processes"
WITHOUT, WITH = "NEXT without rounds, full", "NEXT, full"
FAMILIES = {
    WITHOUT: Family(lambda step: ASYSONATA(FullLinearization(1 / step), 1.0), (Axis("step", (0.125, 0.25), factor=2**0.5),)),
    WITH: Family(lambda step: NEXT(FullLinearization(1 / step), 1.0), (Axis("step", (0.05, 0.1), factor=2**0.5),)),
}
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


def run(clock, name, point, agents, seed, rounds):
    """A run of so many ``rounds`` of the slow agent, or until about then; on real processes no two are equal."""
    solver, real = FAMILIES[name].make(*point), clock == REAL
    rounds = rounds if name == WITH else 2 * rounds  # it wakes once while the others wake SLOW times
    engine = Simulated([WORK] * (agents - 1) + [SLOW * WORK])
    if real:
        engine = (Processes if name == WITH else AsyncProcesses)(agents)

    def work(_):
        costs = Slowed(agents, seed, waits=real)
        start = np.zeros_like(costs.optimum)
        problem = consensus.Problem.from_functions(costs.value, costs.gradient, agents=agents, parameters=len(start))
        options = {"rounds": rounds, "start": start, "record_every": max(1, rounds // 300)}
        try:
            return by_clock(consensus.solve(problem, graph(agents, seed), solver, engine=engine, **options))
        except consensus.DivergenceError as error:
            return Outcome(error.history, np.empty((0, len(start))), f"diverged in round {error.round}")

    settings = {"clock": clock, "solver": name, "setting": FAMILIES[name].shown(point), "agents": agents, "seed": seed}
    return Run(settings, {"rounds": rounds, "solver": repr(solver), "engine": repr(engine)}, work)


def by_clock(result):
    """The outcome with wall time as its ``clock``, which engines with rounds call ``seconds``."""
    history = consensus.History()
    for row in range(result.history.rows):
        values = {name: result.history[name][row] for name in result.history}
        history.append(values | {"clock": values.get("clock", values["seconds"])})
    return Outcome(history, result.w, result.reason)
