"""One setting for everything: AdaptiveNEXT, AutoGT, DATOS on many data, networks, shards, against solvers tuned by a grid.

Each rival has one setting for all cases: by each measure the best in the median over a case of every data set on every
topology, with sizes and shards by turns, of other draws than those that are reported.
"""

import argparse
import functools
import itertools
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # writes files, also where there is no screen

import numpy as np
import pandas as pd
from sklearn.preprocessing import scale

import consensus
from consensus._arrays.parallel import cores
from consensus.solvers import DATOS, AdaptiveNEXT, AutoGT
from consensus.studies import Study
from experiments.shared.cases import load, loss_for
from experiments.shared.centralised import lowest
from experiments.shared.studies import ran
from experiments.untuned.cases import network
from experiments.untuned.rivals import OF_A_PANEL

DATASETS = ("diabetes", "breast_cancer", "boston", "kin8nm", "wine")
TOPOLOGIES = ("ring", "erdos_renyi", "random_geometric", "complete", "random_half")
PANEL = list(itertools.product(DATASETS, TOPOLOGIES, (10, 30), ("iid", "sorted")))  # data, topology, agents, shards
ROWS, HIDDEN, WEIGHT = 2000, 20, 1e-3
TUNING = 1000  # the draw of the cases for tuning
MOST, QUICK = 1000, 20  # exchanges
MARKS = ("50 exchanges", "200 exchanges", "1000 exchanges", "1e6 bytes", "1e7 bytes", "1e8 bytes", "1e9 bytes")
BLOWN_UP = 1e3  # what a run that diverged, or ended far above its start, counts as
SOLVERS = {"AdaptiveNEXT": AdaptiveNEXT(), "AutoGT": AutoGT(), "DATOS": DATOS()} | OF_A_PANEL


def case(seed, exchanges):
    """The case of a seed, which numbers the panel's cases of all draws; its history has U over the optimum, too."""
    draw, place = divmod(seed, len(PANEL))
    name, topology, agents, scheme = PANEL[place]
    problem, best = problem_of(name, agents, scheme, draw), optimum(name, draw)
    options = {"start": start_of(problem, draw), "exchanges": exchanges, "record_every": 1}
    options["metrics"] = {"over_optimum": lambda point: problem.objective(point) / best}
    return problem, network(topology, agents, draw), options


def start_of(problem, draw):
    return problem.model.init(np.random.default_rng(draw))


@functools.cache
def data(name):
    """At most ROWS samples, features and regression targets standardised; the loss for them, and a model's outputs."""
    found = load(name)
    X, y = found
    if len(y) > ROWS:
        rows = np.random.default_rng(0).permutation(len(y))[:ROWS]
        X, y = X[rows], y[rows]
    return scale(X), y if found.classification else scale(y), *loss_for(found)


def problem_of(name, agents, scheme, draw):
    X, y, loss, outputs = data(name)
    shards = consensus.partition(X, y, agents, scheme, seed=draw)
    return consensus.Problem(consensus.MLP([X.shape[1], HIDDEN, outputs]), loss, shards, consensus.L2(WEIGHT))


@functools.cache
def optimum(name, draw):
    """The objective that L-BFGS ends at, from the draw's start, with all data in one place."""
    problem = problem_of(name, 1, "iid", 0)
    start = start_of(problem, draw)
    return lowest(problem, start, maxiter=20000, maxfun=40000, gtol=1e-7, ftol=1e-13, maxcor=30)


def seeds_of(draws, agents, datasets=DATASETS, schemes=("iid", "sorted")):
    """The seeds of these draws of the panel, and those for tuning."""
    places = [k for k, (name, _, size, scheme) in enumerate(PANEL) if name in datasets and size in agents and scheme in schemes]
    turns = itertools.cycle(itertools.product(("iid", "sorted"), (10, 30)))
    pairs = zip(itertools.product(DATASETS, TOPOLOGIES), turns, strict=False)
    chosen = [PANEL.index((*at, size, scheme)) for at, (scheme, size) in pairs if at[0] in datasets]
    return [len(PANEL) * draw + k for draw in draws for k in places], [len(PANEL) * TUNING + k for k in chosen]


def studies(folder, solvers, seeds, tuning_seeds, exchanges):
    """A study for each measure, of the same runs where they have the same settings."""
    usual = {"over": {"exchanges": [exchanges]}, "seeds": seeds, "tuning_seeds": tuning_seeds, "rounds": exchanges}
    return {mark: Study(case, **usual, solvers=solvers, measure=f"over_optimum after {mark}", folder=folder) for mark in MARKS}


def tables(found):
    """Geometric means over the cases, each at its best setting, and the worst; those of the first solver by what differs."""
    ratios = {mark: study.values()["value"].clip(upper=BLOWN_UP).droplevel("exchanges") for mark, study in found.items()}
    by_solver = {mark: values.groupby("solver", sort=False) for mark, values in ratios.items()}
    means = {f"at {mark}": by_solver[mark].agg(mean) for mark in MARKS}
    worst = {f"worst at {mark}": by_solver[mark].max() for mark in MARKS[1:3]}
    whole = pd.DataFrame(means | worst | {"cases": by_solver[MARKS[0]].size()})
    first = pd.DataFrame({f"at {mark}": values[values.index[0][0]] for mark, values in ratios.items()})
    parts = zip(("data", "topology", "agents", "shards"), zip(*(PANEL[seed % len(PANEL)] for seed in first.index), strict=True))
    groups = {name: first.groupby(list(part)) for name, part in parts}
    counted = {name: of.agg(mean).assign(cases=of.size()) for name, of in groups.items()}
    breakdown = pd.concat(counted, names=["runs with", ""])
    return {"robustness": whole, "breakdown": breakdown}


def mean(values):
    return np.exp(np.log(values).mean())


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m experiments.robustness", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("results/robustness"), help="what is there is not run again")
    parser.add_argument("--jobs", type=int, default=cores(), help="runs at a time")
    parser.add_argument("--solvers", nargs="+", choices=tuple(SOLVERS), default=list(SOLVERS), help="rows of the tables")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of shards, graphs and starts")
    parser.add_argument("--agents", type=int, nargs="+", choices=(10, 30), default=[10, 30], help="sizes of the networks")
    parser.add_argument("--quick", action="store_true", help="a few short runs only")
    options = parser.parse_args(arguments)
    seeds, tuning = seeds_of(options.seeds, options.agents)
    if options.quick:
        seeds, tuning = (some[:3] for some in seeds_of([0], [10], ["diabetes"], ["sorted"]))
    solvers = {name: SOLVERS[name] for name in options.solvers}
    found = studies(options.output, solvers, seeds, tuning, QUICK if options.quick else MOST)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rivals run on all cases, those beyond their theory, too
        for study in found.values():
            ran(study, options.jobs)
    grids = {mark: study.grids() for mark, study in found.items()}
    shown = tables(found) | {"grids": pd.concat(grids, names=["at"])} if any(map(len, grids.values())) else tables(found)
    for name, table in shown.items():
        table.to_csv(options.output / f"{name}.csv")
        (options.output / f"{name}.md").write_text(text := pd.DataFrame(table.reset_index()).to_markdown(index=False) + "\n")
        print(f"{name}\n\n{text}")
    for across, mark in (("exchanges", MARKS[1]), ("bytes", MARKS[-1])):
        figure = found[mark].plot("over_optimum", across)
        figure.axes[0].set(title="", ylabel="objective over L-BFGS's optimum", ylim=(0.85, 40))
        for suffix in ("pdf", "png"):
            figure.savefig(options.output / f"{across}.{suffix}", dpi=150)


if __name__ == "__main__":
    from experiments import robustness  # a module that workers find, as they cannot be sent functions with caches

    robustness.main()
