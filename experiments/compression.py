"""Compressed messages: the objective and the stationarity against bytes, beside tracking that sends all its numbers."""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from consensus.solvers import BEER, CGT, LEAD, ChocoSGD, GradientTracking, Quantize, TopK
from experiments.shared.cases import graph
from experiments.shared.curves import draw, legend
from experiments.shared.harness import Experiment
from experiments.shared.results import training
from experiments.shared.tables import Spread, Table, last

SHORT = {  # and the step towards neighbours: of the largest entries more is kept than the default counts on
    "top 10%": (TopK(0.1), 0.2),
    "4 bits": (Quantize(4), None),
}
PLAIN, STEPS = "tracking", (0.03, 0.05, 0.1)
METHODS = {PLAIN: {f"step {step}": GradientTracking(step, order="cta") for step in STEPS}}
METHODS |= {
    f"{method.__name__}, {short}": {f"step {step}": method(compressor, step, gamma) for step in STEPS}
    for short, (compressor, gamma) in SHORT.items()
    for method in (ChocoSGD, BEER, CGT, LEAD)
    if method is not LEAD or compressor != TopK(0.1)  # of a biased compressor it diverges
}
MEASURES = ("objective", "stationarity")
MORE = 3  # rounds of compressed methods for one of tracking


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 1, "rounds": 20}
    experiment = Experiment("compression", __doc__, arguments, datasets=["boston"], repeats=3, rounds=1000, quick=quick)
    agents, datasets, seeds = experiment.agents, experiment.datasets, experiment.seeds
    cases = {(data, seed): experiment.case(data, agents, seed, scheme="sorted") for data in datasets for seed in seeds}
    grid = {name: dict(list(settings.items())[: 1 if experiment.quick else None]) for name, settings in METHODS.items()}

    def run(data, name, setting, seed):
        settings = {"dataset": data, "solver": name, "setting": setting, "agents": agents, "seed": seed}
        rounds = experiment.rounds * (1 if name == PLAIN else MORE)
        return training(settings, cases[data, seed], graph(agents, seed), METHODS[name][setting], rounds=rounds, seed=seed)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*theory")  # LEAD's is of convex costs
        wanted = [(data, name, setting, seeds[0]) for data in datasets for name in grid for setting in grid[name]]
        found = experiment.run({key: run(*key) for key in wanted}, "choice of steps")
        best = {(data, name): choose(found, data, name, seeds[0]) for data in datasets for name in grid}
        wanted = [(*at, setting, seed) for at, setting in best.items() for seed in seeds]
        found |= experiment.run({key: run(*key) for key in wanted}, "repeats")
    repeats = {at: [found[*at, setting, seed] for seed in seeds] for at, setting in best.items()}
    experiment.figure(figure(repeats, datasets))
    experiment.table(table(repeats, best))


def choose(found, data, name, seed):
    """The step with the fewest bytes to where tracking ends with its best step; else that with the least stationarity."""
    runs = {key[1:3]: outcome for key, outcome in found.items() if key[0] == data and key[3] == seed}
    level = min(end(outcome) for (solver, _), outcome in runs.items() if solver == PLAIN)
    settings = {setting: outcome for (solver, setting), outcome in runs.items() if solver == name}
    return min(settings, key=lambda setting: (needed(settings[setting], level), end(settings[setting])))


def end(outcome):
    return np.inf if outcome.diverged else outcome.history["stationarity"][-1]


def needed(outcome, level):
    """Bytes until the stationarity stays at most at the level; infinite where it does not."""
    if outcome.diverged:
        return np.inf
    above = np.flatnonzero(~(outcome.history["stationarity"] <= level))  # NaN is above
    first = above[-1] + 1 if len(above) else 0
    return float(outcome.history["bytes"][first]) if first < outcome.history.rows else np.inf


def figure(repeats, datasets):
    places = [(data, short) for data in datasets for short in SHORT]
    size = (6.6, 2.5 * len(places) + 0.5)
    canvas, axes = plt.subplots(len(places), len(MEASURES), figsize=size, layout="constrained", squeeze=False)
    for row, (data, short) in zip(axes, places, strict=True):
        names = {name.removesuffix(f", {short}"): name for name in METHODS if name == PLAIN or name.endswith(short)}
        for ax, measure in zip(row, MEASURES, strict=True):
            draw(ax, {shown: repeats[data, name] for shown, name in names.items()}, measure, "bytes")
            ax.set_ylabel(f"{measure} at the mean")
        row[0].set_title(f"{data}, {short}", loc="left")
    legend(canvas, axes[-1, 0], columns=5)
    return canvas


def table(repeats, best):
    """At the end, and the bytes until the stationarity is that at which tracking ends."""
    columns = {"objective": ".4g", "stationarity": ".1e", "MB to tracking's last": ".3g", "part of its": ".2g"}
    rows = Table({"data set": "", "solver": "", "setting": "", **columns})
    for (data, name), outcomes in repeats.items():
        ends = [last(outcomes, measure) for measure in MEASURES]
        pairs = list(zip(outcomes, repeats[data, PLAIN], strict=True))
        mine, plain = ([needed(pair[which], end(pair[1])) for pair in pairs] for which in (0, 1))
        parts = [one / other if np.isfinite(other) else np.nan for one, other in zip(mine, plain, strict=True)]
        rows.add(data, name, best[data, name], *ends, Spread.of(number / 1e6 for number in mine), Spread.of(parts))
    return rows


if __name__ == "__main__":
    main()
