"""One agent ten times slower than the others, late and lost messages: with rounds and without, by the clock."""

import dataclasses
import math
import time
import warnings

import numpy as np

import consensus
from consensus.asynchronous import ADPSGD, ASYSONATA, AsyncProcesses, OverlapSGP, Simulated
from consensus.engines import Processes
from consensus.solvers import NEXT, AdaptiveNEXT, GradientTracking
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared import curves, tuning
from experiments.shared.cases import graph
from experiments.shared.harness import Experiment
from experiments.shared.levels import Merits, exchanges_to, level_of
from experiments.shared.results import Outcome, Run, training
from experiments.shared.tables import Spread, Table
from experiments.shared.tuning import Axis, Family

SLOW = 10.0  # times the seconds of the others
CLOCKS = {  # how one agent of so many is slow, and what becomes of messages
    "one slow agent": lambda agents: Simulated([1.0] * (agents - 1) + [SLOW], delay=0.5),
    "slow, late, lost": lambda agents: Simulated([1.0] * (agents - 1) + [SLOW], delay=(0.0, 20.0), loss=0.3),
}
ROUNDS = {"one slow agent": SLOW, "slow, late, lost": 3 * SLOW}  # seconds of a round, about: runs are as long by the clock
REAL = "real processes"
ADAPTIVE = "AdaptiveNEXT"  # sets no level: it ends in other, often lower, minima
STEP, TAU = Axis("step", (0.2, 0.4), most=1.0), Axis("tau", (0.01, 0.02), least=1e-4)
GRADIENT = (Axis("step", (0.5, 1.0)),)
FAMILIES = {
    "NEXT without rounds": Family(
        lambda tau, step: ASYSONATA(PartialLinearization(tau, curvature="local"), step), (TAU, STEP), "partial"
    ),
    "NEXT": Family(
        lambda tau, step: NEXT(PartialLinearization(tau), step), (Axis("tau", (0.1, 0.2), least=1e-4), STEP), "partial"
    ),
    "NEXT without rounds, full": Family(lambda step: ASYSONATA(FullLinearization(1 / step), 1.0), (Axis("step", (8.0, 16.0)),)),
    "NEXT, full": Family(lambda step: NEXT(FullLinearization(1 / step), 1.0), GRADIENT),
    "gradient tracking": Family(GradientTracking, GRADIENT),
    ADAPTIVE: Family(AdaptiveNEXT),
    "AD-PSGD": Family(lambda step: ADPSGD(Diminishing(step, 0.001)), (Axis("first step", (0.1, 0.2)),)),
    "overlap SGP": Family(lambda step: OverlapSGP(Diminishing(step, 0.001)), (Axis("first step", (0.1, 0.2)),)),
}
WITHOUT = ("NEXT without rounds", "NEXT without rounds, full", "AD-PSGD", "overlap SGP")
LEVELS = {"s to 10% of the gap": 0.1, "s to 1%": 0.01}  # of the gap between the start and the lowest objective
LAST = list(LEVELS)[-1]
WORK = 5e-3  # seconds that an agent of the real processes takes for a gradient, the slow one SLOW times as many


def main(arguments=None):
    quick = {"repeats": 1, "rounds": 60}
    usual = {"datasets": ["diabetes"], "agents": 8, "repeats": 3, "rounds": 2400}
    experiment = Experiment("stragglers", __doc__, arguments, **usual, quick=quick)
    seeds, agents = experiment.seeds, experiment.agents
    (data,) = experiment.datasets[:1]
    cases = {seed: experiment.case(data, agents, seed) for seed in seeds}
    families = {(clock, name, ""): family for clock in CLOCKS for name, family in FAMILIES.items()}
    del families["slow, late, lost", "overlap SGP", ""]  # it bears no losses

    def run(key, point, seed):
        (clock, name, _), family = key, families[key]
        settings = {"clock": clock, "solver": name, "setting": family.shown(point), "agents": agents, "seed": seed}
        engine, network = CLOCKS[clock](agents), graph(agents, seed)
        rounds = math.ceil(experiment.rounds / (1 if name in WITHOUT else ROUNDS[clock]))
        one = training(settings, cases[seed], network, family.make(*point), rounds=rounds, seed=seed)
        return dataclasses.replace(one, config={**one.config, "engine": repr(engine)}, work=lambda _: one.work(engine))

    def first(points):
        done = experiment.run({at: run(*at, seeds[0]) for at in points}, "choice of settings")
        return {at: [one] for at, one in done.items()}

    merits = Merits(lambda key: (), lambda place: LEVELS, lambda key: key[1] != ADAPTIVE, column="clock")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*ended above its start")
        found = tuning.tuned(first, families, merits, quick=experiment.quick)
        best = {(key[:2], name): tuning.best(found, key, merits)[name] for key in families for name in LEVELS}
        keys = {(key, best[key[:2], name]) for key in families for name in LEVELS}
        repeats = experiment.run({(*at, seed): run(*at, seed) for at in sorted(keys) for seed in seeds}, "repeats")
        real = experiment.run({(name, seed): on_processes(experiment, name, seed) for name in TWO for seed in seeds}, REAL)
    counted = {at: one for at, one in repeats.items() if at[0][1] != ADAPTIVE}
    reached = [level_of([one for at, one in counted.items() if at[-1] == seed], 0.0) for seed in seeds]
    lowest = dict.fromkeys(CLOCKS, reached)
    lowest[REAL] = [level_of([real[name, seed] for name in TWO], 0.0) for seed in seeds]
    measured = [(key, name) for key in families for name in LEVELS]
    outcomes = {(key[:2], name): [repeats[key, best[key[:2], name], s] for s in seeds] for key, name in measured}
    outcomes |= {((REAL, name), level): [real[name, seed] for seed in seeds] for name in TWO for level in LEVELS}
    settings = {key[:2]: families[key].shown(best[key[:2], LAST]) for key in families} | {(REAL, name): "" for name in TWO}
    experiment.figure(figure(outcomes, lowest))
    experiment.table(table(outcomes, settings, lowest))
    experiment.table(tuning.grids(found, families, merits, ("clock", "solver", "kind")), "grids")


# Real processes, a worker an agent: costs given by functions, which sleep as long as the agent works ------------------------

TWO = {
    "NEXT without rounds, full": lambda step: (ASYSONATA(FullLinearization(1 / step), 1.0), AsyncProcesses),
    "NEXT, full": lambda step: (NEXT(FullLinearization(1 / step), 1.0), Processes),
}
STEPS = {"NEXT without rounds, full": 1.0, "NEXT, full": 0.08}  # the best, by factors of two, on a simulated clock


class Slowed:
    """Quadratics with unlike minimisers, whose gradients take WORK seconds, the last one's SLOW times as many."""

    def __init__(self, agents, seed, parameters=20):
        rng = np.random.default_rng(seed)
        self.centres = rng.standard_normal((agents, parameters))
        self.curvatures = np.geomspace(0.05, 1.0, parameters) * rng.uniform(0.5, 1.5, (agents, parameters))

    def value(self, w, rows):
        return (self.curvatures[rows] * (w - self.centres[rows]) ** 2).sum(axis=1) / 2

    def gradient(self, w, rows):
        if len(rows) < len(self.centres):  # in a worker, not where the run is observed
            time.sleep(WORK * (SLOW if len(self.centres) - 1 in rows else 1.0))
        return self.curvatures[rows] * (w - self.centres[rows])


def on_processes(experiment, name, seed):
    """A run on processes: its clock is that on the wall, and no two are equal."""
    agents = experiment.agents
    solver, engine = TWO[name](STEPS[name])
    rounds = max(1, experiment.rounds // (2 if engine is AsyncProcesses else 10))

    def work(_):
        costs = Slowed(agents, seed)
        parameters = costs.centres.shape[1]
        problem = consensus.Problem.from_functions(costs.value, costs.gradient, agents=agents, parameters=parameters)
        options = {"rounds": rounds, "start": np.zeros(problem.parameters), "record_every": max(1, rounds // 300)}
        result = consensus.solve(problem, graph(agents, seed), solver, engine=engine(agents), **options)
        return curves_of_wall(result)

    settings = {"clock": REAL, "solver": name, "agents": agents, "seed": seed}
    return Run(settings, {"rounds": rounds, "solver": repr(solver)}, work)


def curves_of_wall(result):
    """The outcome with wall time as its ``clock``, which engines with rounds call ``seconds``."""
    history = consensus.History()
    for row in range(result.history.rows):
        values = {name: result.history[name][row] for name in result.history}
        history.append(values | {"clock": values.get("clock", values["seconds"])})
    return Outcome(history, result.w, result.reason)


def figure(outcomes, lowest):
    canvas, axes = curves.panels(len(CLOCKS) + 1, share=True)
    for ax, clock in zip(axes, (*CLOCKS, REAL), strict=True):
        repeats = {name: runs for ((place, name), level), runs in outcomes.items() if (place, level) == (clock, LAST)}
        gaps = {name: [left(one, low) for one, low in zip(runs, lowest[clock], strict=True)] for name, runs in repeats.items()}
        curves.draw(ax, gaps, "gap", "clock")
        ax.set(title=clock, xlabel="seconds" if clock == REAL else "simulated seconds", ylim=(1e-3, 1.5))
    axes[0].set_ylabel("part of the gap that is left")
    curves.legend(canvas, axes[0])
    return canvas


def left(outcome, low):
    """The part of the gap between the start and ``low`` that is left, from the first record after the start on."""
    history = outcome.history
    gap = np.maximum((history["objective"] - low) / (history["objective"][0] - low), 1e-9)
    return outcome._replace(history={"clock": history["clock"][1:], "gap": gap[1:]})


def table(outcomes, settings, lowest):
    """Seconds until so much of the gap is left, at the best setting for it; on real processes the gap is that of the two."""
    rows = Table({"clock": "", "solver": "", "setting": "", **dict.fromkeys(LEVELS, ".3g"), "objective": ".3g"})
    for place, setting in settings.items():
        cells = []
        for name, part in LEVELS.items():
            pairs = list(zip(outcomes[place, name], lowest[place[0]], strict=True))
            levels = [low + part * (one.history["objective"][0] - low) for one, low in pairs]
            cells.append(Spread.of(exchanges_to(one, at, "clock") for (one, _), at in zip(pairs, levels, strict=True)))
        end = Spread.of(math.inf if one.diverged else one.history["objective"][-1] for one in outcomes[place, LAST])
        rows.add(*place, setting or "–", *cells, end)
    return rows


if __name__ == "__main__":
    main()
