"""Compressed messages: the objective and the stationarity against bytes, beside tracking that sends all its numbers.

Each repeat is another split and network, where every method has the best setting of its own.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from consensus.compression import Quantize, TopK
from consensus.solvers import BEER, CGT, LEAD, ChocoSGD, GradientTracking
from consensus.step_sizes import CosineAnnealing
from experiments.shared import tuning
from experiments.shared.cases import graph
from experiments.shared.curves import draw, legend
from experiments.shared.harness import Experiment
from experiments.shared.levels import exchanges_to
from experiments.shared.results import training
from experiments.shared.tables import Spread, Table
from experiments.shared.tuning import Axis, Family

SHORT = {"top 10%": TopK(0.1), "4 bits": Quantize(4)}
PLAIN = {"tracking": "atc", "tracking, combine then adapt": "cta"}  # what compressed methods are compared with: the better one
MEASURES = ("objective", "stationarity")
LEVELS = {"10%": 0.1, "1%": 0.01}  # parts of the stationarity at the start that are worth reaching
LAST = list(LEVELS)[-1]
MORE = 3  # rounds of compressed methods for one of tracking
RECORDS = 2000


def methods(rounds):
    """``{name: [Family, ...]}``: each with its step and, if compressed, gamma, the step towards neighbours.

    ChocoSGD's step falls to zero along a cosine: with a constant one it stays in a neighbourhood of the optimum.
    """
    step, gamma = Axis("step", (0.025, 0.1)), Axis("gamma", (0.125, 0.5), most=1.0)
    found = {
        name: [Family(lambda step, order=order: GradientTracking(step, order=order), (step,))] for name, order in PLAIN.items()
    }
    for short, compressor in SHORT.items():
        falling = _made(lambda Q, step, gamma: ChocoSGD(Q, CosineAnnealing(step, MORE * rounds), gamma), compressor)
        found |= {f"{method.__name__}, {short}": [Family(_made(method, compressor), (step, gamma))] for method in (BEER, CGT)}
        found[f"ChocoSGD, {short}"] = [Family(falling, (step, gamma), "falling")]
    # Only of an unbiased compressor: with the largest entries it diverges. The last, so that curves of both have equal colours.
    found["LEAD, 4 bits"] = [Family(_made(LEAD, SHORT["4 bits"]), (step, gamma))]
    return found


def _made(method, compressor):
    return lambda step, gamma: method(compressor, step, gamma)


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 1, "rounds": 20}
    experiment = Experiment("compression", __doc__, arguments, datasets=["boston"], repeats=3, rounds=2000, quick=quick)
    agents, datasets, seeds = experiment.agents, experiment.datasets, experiment.seeds
    names = methods(experiment.rounds)
    families = {
        (data, seed, name, family.label): family
        for data in datasets
        for seed in seeds
        for name in names
        for family in names[name]
    }

    def run(key, point):
        family, (data, seed, name, _) = families[key], key
        settings = {"dataset": data, "solver": name, "setting": family.shown(point), "agents": agents, "seed": seed}
        amount = {"rounds": experiment.rounds * (1 if name in PLAIN else MORE), "records": RECORDS, "seed": seed}
        case = experiment.case(data, agents, seed, scheme="sorted")
        return training(settings, case, graph(agents, seed), family.make(*point), **amount)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*theory")  # LEAD's is of convex costs
        found = tuning.tuned(
            lambda points: experiment.run({at: run(*at) for at in points}), families, merits, quick=experiment.quick
        )
    best = {
        (data, name, level): [tuning.chosen(found, (data, seed, name), level, merits) for seed in seeds]
        for data in datasets
        for name in names
        for level in LEVELS
    }
    repeats = {which: [found[key][point] for key, point in chosen] for which, chosen in best.items()}
    settings = {
        which: "; ".join(dict.fromkeys(families[key].shown(point) for key, point in chosen)) for which, chosen in best.items()
    }
    experiment.figure(figure(repeats, datasets, names))
    experiment.table(table(repeats, settings))
    experiment.table(tuning.grids(found, families, merits, ("data set", "seed", "solver", "steps")), "grids")


def merits(found, key, outcome):
    """The bytes to each level; where none are enough, the stationarity at the end."""
    end = np.inf if outcome.diverged else float(outcome.history["stationarity"][-1])
    return {name: (needed(outcome, level), end) for name, level in LEVELS.items()}


def needed(outcome, level):
    """Bytes until the stationarity stays at most at that part of its start; infinite where it does not."""
    return exchanges_to(outcome, level * outcome.history["stationarity"][0], "bytes", "stationarity")


def figure(repeats, datasets, names):
    places = [(data, short) for data in datasets for short in SHORT]
    size = (6.6, 2.5 * len(places) + 0.5)
    canvas, axes = plt.subplots(len(places), len(MEASURES), figsize=size, layout="constrained", squeeze=False)
    for row, (data, short) in zip(axes, places, strict=True):
        shown = {name.removesuffix(f", {short}"): name for name in names if name == next(iter(PLAIN)) or name.endswith(short)}
        for ax, measure in zip(row, MEASURES, strict=True):
            draw(ax, {label: repeats[data, name, LAST] for label, name in shown.items()}, measure, "bytes")
            ax.set_ylabel(f"{measure} at the mean")
        row[0].set_title(f"{data}, {short}", loc="left")
    legend(canvas, axes[-1, 0], columns=5)
    return canvas


def table(repeats, settings):
    """For each level the setting that needs the fewest bytes, these, and which part they are of those of tracking."""
    columns = {}
    for level in LEVELS:
        columns |= {f"setting to {level}": "", f"MB to {level}": ".3g", f"part of tracking's to {level}": ".2g"}
    rows = Table({"data set": "", "solver": "", **columns})
    for data, name in dict.fromkeys(which[:2] for which in repeats):
        cells = []
        for key, level in LEVELS.items():
            mine = [needed(outcome, level) for outcome in repeats[data, name, key]]
            plain = [[needed(outcome, level) for outcome in repeats[data, other, key]] for other in PLAIN]
            parts = [part(one, min(others)) for one, *others in zip(mine, *plain, strict=True)]
            cells += [settings[data, name, key], Spread.of(number / 1e6 for number in mine), Spread.of(parts)]
        rows.add(data, name, *cells)
    return rows


def part(one, other):
    """``one / other``; NaN where the other never arrived."""
    return one / other if np.isfinite(other) else np.nan


if __name__ == "__main__":
    main()
