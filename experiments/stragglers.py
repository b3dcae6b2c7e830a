"""One agent ten times slower than the others, late and lost messages: with rounds and without, by the clock."""

import itertools
import math
from functools import partial

import numpy as np

from consensus.asynchronous import ADPSGD, ASYSONATA, OverlapSGP, Simulated
from consensus.solvers import NEXT, AdaptiveNEXT, GradientTracking
from consensus.step_sizes import Diminishing
from consensus.studies import Grid, Study
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared import cases, curves, slowed
from experiments.shared.centralised import lowest
from experiments.shared.slowed import SLOW
from experiments.shared.studies import Folder, options, outcomes, ran
from experiments.shared.tables import Spread, Table, last

CLOCKS = {  # how one agent of so many is slow, and what becomes of messages
    "one slow agent": lambda agents: Simulated([1.0] * (agents - 1) + [SLOW], delay=0.5),
    "slow, late, lost": lambda agents: Simulated([1.0] * (agents - 1) + [SLOW], delay=(0.0, 20.0), loss=0.3),
}
ROUNDS = {"one slow agent": SLOW, "slow, late, lost": 3 * SLOW}  # seconds of a round, about: runs are as long by the clock
SOLVERS = {  # the first two are those of the quadratics, in the same colours
    "NEXT without rounds, full": Grid(lambda step: ASYSONATA(FullLinearization(1 / step), 1.0), step=[1.0, 2.0]),
    "NEXT, full": Grid(lambda step: NEXT(FullLinearization(1 / step), 1.0), step=[0.5, 1.0]),
    "NEXT without rounds": Grid(
        lambda tau, step: ASYSONATA(PartialLinearization(tau), step), tau=[0.08, 0.16], step=[0.25, 0.5]
    ),
    "NEXT": Grid(lambda tau, step: NEXT(PartialLinearization(tau), step), tau=[0.1, 0.2], step=[0.25, 0.5]),
    "gradient tracking": Grid(GradientTracking, step_size=[0.5, 1.0]),
    "AdaptiveNEXT": AdaptiveNEXT(),
    "AD-PSGD": Grid(lambda first_step: ADPSGD(Diminishing(first_step, 0.001)), first_step=[0.1, 0.2]),
    "overlap SGP": Grid(lambda first_step: OverlapSGP(Diminishing(first_step, 0.001)), first_step=[0.1, 0.2]),
}
WITHOUT = ("NEXT without rounds", "NEXT without rounds, full", "AD-PSGD", "overlap SGP")
LEFT_OUT = ("slow, late, lost", "overlap SGP")  # it bears no losses
LEVELS = {"s to 10% of the gap": 0.1, "s to 1%": 0.01}  # of the gap between the start and the lowest objective


def case(seed, data, clock, agents):
    whole, engine = cases.case(data, agents, seed), CLOCKS[clock](agents)
    return whole.problem, cases.graph(agents, seed), {"test": whole.test, "engine": engine}


def least(problem):
    """The lowest objective that L-BFGS finds with all data in one place."""
    return lowest(problem, problem.model.init(np.random.default_rng(0)))


def main(arguments=None):
    quick = {"seeds": 1, "rounds": 60}
    given = options(__doc__, arguments, quick, dataset=["diabetes"], agents=8, seeds=3, rounds=2400)
    folder = Folder(given, "stragglers")
    networks, quadratics = of_networks(given, folder), of_quadratics(given, folder)
    folder.figure(figure(networks, quadratics))
    folder.table(table(networks, LEVELS))
    folder.table(table(quadratics, slowed.LEVELS), "quadratics")


def of_networks(given, folder):
    """Train a network by all methods on both clocks."""
    found = {}
    for clock, without in itertools.product(CLOCKS, (True, False)):
        rounds = given.rounds if without else math.ceil(given.rounds / ROUNDS[clock])
        made = partial(case, data=given.dataset[0], clock=clock, agents=given.agents)
        solvers = {name: one for name, one in SOLVERS.items() if (name in WITHOUT) == without and (clock, name) != LEFT_OUT}
        place = folder / f"{clock}, with{'out' * without} rounds"
        own = compared(given, place, made, solvers, LEVELS, rounds, least)
        found |= {(clock, *key): done for key, done in own.items()}
    return {key: found[key] for key in itertools.product(CLOCKS, SOLVERS, LEVELS) if key in found}


def of_quadratics(given, folder):
    """Unlike quadratics: settings are tuned on the simulated clock, real processes take them over."""
    found = {}
    for name, grid in slowed.GRIDS.items():
        rounds = max(6, given.rounds // 6) * (2 if name == slowed.WITHOUT else 1)  # one of the slow agent is SLOW of the others
        made = partial(slowed.case, name=name, agents=given.agents)
        simulated, real = (
            (given, folder / f"quadratics, {name}, {clock}", partial(made, clock=clock)) for clock in slowed.CLOCKS
        )
        tuning = given.seeds if given.quick else slowed.TUNING
        tuned = compared(*simulated, {name: grid}, slowed.LEVELS, rounds, slowed.least, tuning=tuning)
        found |= {(slowed.SIMULATED, *key): done for key, done in tuned.items()}
        for (_, level), (_, runs) in tuned.items():
            setting, part = runs[0].setting, {level: slowed.LEVELS[level]}
            solver = grid.solver((float(setting.removeprefix("step = ")),))
            done = compared(*real, {name: solver}, part, rounds, slowed.least, slowed.SECONDS[name], workers=1)
            seconds, runs = done[name, level]
            found[slowed.REAL, name, level] = seconds, [run._replace(setting=setting) for run in runs]
    return {key: found[key] for key in itertools.product(slowed.CLOCKS, slowed.GRIDS, slowed.LEVELS)}


def compared(given, folder, case, solvers, levels, rounds, reference, seconds="clock", workers=None, tuning=None):
    """The seconds of all seeds, and their outcomes, by solver and level, at the setting that is best for the level.

    Settings are tuned on so many seeds, by default as many as are reported.
    """
    usual = {"seeds": given.seeds, "tuning_seeds": tuning or given.seeds, "reference": reference, "folder": folder}
    found = {}
    for level, part in levels.items():
        study = Study(case, solvers=solvers, rounds=rounds, measure=f"{seconds} to objective {100 * part:g}%", **usual)
        values, grids = ran(study, workers or given.workers).values(), study.grids()
        if len(grids):
            grids.to_csv(folder / f"grids, {100 * part:g}%.csv")
        reached = values["value"].where(~values["missed"], math.inf)
        found |= {(name, level): (reached[name], runs) for (name,), runs in outcomes(study).items()}
    return found


def figure(networks, quadratics):
    canvas, axes = curves.panels(len(CLOCKS) + 1)
    for ax, clock in zip(axes, (*CLOCKS, slowed.REAL), strict=True):
        real = clock == slowed.REAL
        found, levels, reference = (quadratics, slowed.LEVELS, slowed.least) if real else (networks, LEVELS, least)
        settled = list(levels)[-1]
        shown = {name: runs for (place, name, level), (_, runs) in found.items() if (place, level) == (clock, settled)}
        lows = [reference(run.problem) for run in next(iter(shown.values()))]  # of the seeds
        gaps = {name: list(map(left, runs, lows)) for name, runs in shown.items()}
        curves.draw(ax, gaps, "gap", "clock")
        title = f"quadratics, {clock}" if real else clock
        ax.set(title=title, xlabel="seconds" if real else "simulated seconds", ylim=(levels[settled] / 10, 1.5))
    axes[0].set_ylabel("part of the gap that is left")
    curves.legend(canvas, axes[0])
    return canvas


def left(outcome, low):
    """The part of the gap between the start and ``low`` that is left, from the first record after the start on."""
    history = outcome.history
    seconds = history["clock" if "clock" in history else "seconds"]
    gap = np.maximum((history["objective"] - low) / (history["objective"][0] - low), 1e-9)
    return outcome._replace(history={"clock": seconds[1:], "gap": gap[1:]})


def table(found, levels):
    """Seconds until so much of the gap is left, at the best setting for it; the setting shown is that for the last level."""
    rows = Table({"clock": "", "solver": "", "setting": "", **dict.fromkeys(levels, ".3g"), "objective": ".3g"})
    for key in dict.fromkeys(key[:2] for key in found):
        runs = found[*key, list(levels)[-1]][1]
        cells = (Spread.of(found[*key, level][0]) for level in levels)
        rows.add(*key, runs[0].setting or "–", *cells, last(runs, "objective"))
    return rows


if __name__ == "__main__":
    main()
