"""One agent ten times slower than the others, late and lost messages: with rounds and without, by the clock."""

import math
import warnings

import numpy as np

from consensus.asynchronous import ADPSGD, ASYSONATA, OverlapSGP, Simulated
from consensus.solvers import NEXT, AdaptiveNEXT, GradientTracking
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared import curves, slowed, tuning
from experiments.shared.cases import graph
from experiments.shared.harness import Experiment
from experiments.shared.levels import Merits, exchanges_to, level_of
from experiments.shared.slowed import SLOW
from experiments.shared.tables import Spread, Table, last, setting
from experiments.shared.tuning import Axis, Family

CLOCKS = {  # how one agent of so many is slow, and what becomes of messages
    "one slow agent": lambda agents: Simulated([1.0] * (agents - 1) + [SLOW], delay=0.5),
    "slow, late, lost": lambda agents: Simulated([1.0] * (agents - 1) + [SLOW], delay=(0.0, 20.0), loss=0.3),
}
ROUNDS = {"one slow agent": SLOW, "slow, late, lost": 3 * SLOW}  # seconds of a round, about: runs are as long by the clock
ADAPTIVE = "AdaptiveNEXT"  # sets no level: it ends in other, often lower, minima
STEP = Axis("step", (0.2, 0.4), most=1.0)
GRADIENT = (Axis("step", (0.5, 1.0)),)
FAMILIES = {  # the first two are those of the quadratics, in the same colours
    "NEXT without rounds, full": Family(lambda step: ASYSONATA(FullLinearization(1 / step), 1.0), (Axis("step", (1.0, 2.0)),)),
    "NEXT, full": Family(lambda step: NEXT(FullLinearization(1 / step), 1.0), GRADIENT),
    "NEXT without rounds": Family(
        lambda tau, step: ASYSONATA(PartialLinearization(tau), step), (Axis("tau", (0.08, 0.16), least=8e-4), STEP), "partial"
    ),
    "NEXT": Family(
        lambda tau, step: NEXT(PartialLinearization(tau), step), (Axis("tau", (0.1, 0.2), least=1e-4), STEP), "partial"
    ),
    "gradient tracking": Family(GradientTracking, GRADIENT),
    ADAPTIVE: Family(AdaptiveNEXT),
    "AD-PSGD": Family(lambda step: ADPSGD(Diminishing(step, 0.001)), (Axis("first step", (0.1, 0.2)),)),
    "overlap SGP": Family(lambda step: OverlapSGP(Diminishing(step, 0.001)), (Axis("first step", (0.1, 0.2)),)),
}
WITHOUT = ("NEXT without rounds", "NEXT without rounds, full", "AD-PSGD", "overlap SGP")
LEVELS = {"s to 10% of the gap": 0.1, "s to 1%": 0.01}  # of the gap between the start and the lowest objective


def main(arguments=None):
    quick = {"repeats": 1, "rounds": 60}
    usual = {"datasets": ["diabetes"], "agents": 8, "repeats": 3, "rounds": 2400}
    experiment = Experiment("stragglers", __doc__, arguments, **usual, quick=quick)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*ended above its start")
        networks, lowest = of_networks(experiment)
        quadratics = of_quadratics(experiment)
    experiment.figure(figure(networks, lowest, quadratics))


def of_networks(experiment):
    """Train a network by all methods on both clocks: the outcomes by place and level, and each repeat's lowest objective."""
    (data,), agents = experiment.datasets[:1], experiment.agents
    families = {(clock, name): [family] for clock in CLOCKS for name, family in FAMILIES.items()}
    del families["slow, late, lost", "overlap SGP"]  # it bears no losses

    def run(clock, name, solver, seed):
        rounds = math.ceil(experiment.rounds / (1 if name in WITHOUT else ROUNDS[clock]))
        engine = CLOCKS[clock](agents)
        return experiment.case(data, agents, seed), graph(agents, seed), solver, {"rounds": rounds, "engine": engine}

    merits = Merits(lambda key: (), lambda place: LEVELS, lambda key: key[1] != ADAPTIVE, column="clock")
    found = experiment.compare(("clock", "solver"), families, run, merits)
    counted = {seed: [] for seed in experiment.seeds}
    for (_, name, _), runs in found.repeats.items():
        for seed, outcome in zip(experiment.seeds, runs, strict=True):
            counted[seed] += [outcome] * (name != ADAPTIVE)
    lowest = [level_of(runs, 0.0) for runs in counted.values()]
    outcomes = {((clock, name), level): runs for (clock, name, level), runs in found.repeats.items()}
    experiment.table(table(outcomes, LEVELS, lowest))
    return outcomes, lowest


def of_quadratics(experiment):
    """Unlike quadratics: settings are tuned on the simulated clock, real processes take them over."""
    seeds, agents, rounds = experiment.seeds, experiment.agents, max(6, experiment.rounds // 6)
    families = {(slowed.SIMULATED, name): family for name, family in slowed.FAMILIES.items()}

    def tried(points):
        runs = {(*at, seed): slowed.run(*at[0], at[1], agents, seed, rounds) for at in points for seed in seeds}
        done = experiment.run(runs, "quadratics")
        return {at: [done[(*at, seed)] for seed in seeds] for at in points}

    merits = Merits(lambda key: (), lambda place: slowed.LEVELS, lambda key: True, column="clock")
    found = tuning.tuned(tried, families, merits, quick=experiment.quick)
    best = {(key, level): point for key in families for level, point in tuning.best(found, key, merits).items()}
    outcomes = {(key, level): found[key][point] for (key, level), point in best.items()}
    for ((_, name), level), point in best.items():
        done = experiment.run({seed: slowed.run(slowed.REAL, name, point, agents, seed, rounds) for seed in seeds}, slowed.REAL)
        outcomes[(slowed.REAL, name), level] = list(done.values())
    experiment.table(table(outcomes, slowed.LEVELS, [0.0] * len(seeds)), "quadratics")
    experiment.table(tuning.grids(found, families, merits, ("clock", "solver")), "quadratics-grids")
    return outcomes


def figure(networks, lowest, quadratics):
    canvas, axes = curves.panels(len(CLOCKS) + 1)
    for ax, clock in zip(axes, (*CLOCKS, slowed.REAL), strict=True):
        real = clock == slowed.REAL
        outcomes, lows, levels = (quadratics, [0.0] * len(lowest), slowed.LEVELS) if real else (networks, lowest, LEVELS)
        settled = list(levels)[-1]
        repeats = {name: runs for ((place, name), level), runs in outcomes.items() if (place, level) == (clock, settled)}
        gaps = {name: [left(one, low) for one, low in zip(runs, lows, strict=True)] for name, runs in repeats.items()}
        curves.draw(ax, gaps, "gap", "clock")
        title = f"quadratics, {clock}" if real else clock
        ax.set(title=title, xlabel="seconds" if real else "simulated seconds", ylim=(levels[settled] / 10, 1.5))
    axes[0].set_ylabel("part of the gap that is left")
    curves.legend(canvas, axes[0])
    return canvas


def left(outcome, low):
    """The part of the gap between the start and ``low`` that is left, from the first record after the start on."""
    history = outcome.history
    gap = np.maximum((history["objective"] - low) / (history["objective"][0] - low), 1e-9)
    return outcome._replace(history={"clock": history["clock"][1:], "gap": gap[1:]})


def table(outcomes, levels, lowest):
    """Seconds until so much of the gap is left, at the best setting for it; the setting shown is that for the last level."""
    rows = Table({"clock": "", "solver": "", "setting": "", **dict.fromkeys(levels, ".3g"), "objective": ".3g"})
    settled = list(levels)[-1]
    for key in dict.fromkeys(key for key, _ in outcomes):
        cells = []
        for level, part in levels.items():
            pairs = list(zip(outcomes[key, level], lowest, strict=True))
            ends = [low + part * (one.history["objective"][0] - low) for one, low in pairs]
            cells.append(Spread.of(exchanges_to(one, at, "clock") for (one, _), at in zip(pairs, ends, strict=True)))
        rows.add(*key, setting(outcomes[key, settled]), *cells, last(outcomes[key, settled], "objective"))
    return rows


if __name__ == "__main__":
    main()
