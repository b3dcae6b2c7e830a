"""Exchanges and bytes of solvers on sums over a tree, over those of L-BFGS in float64 on the same tree: ten cases."""

import numpy as np
from tqdm import tqdm

import consensus
from consensus.solvers import TreeLBFGS, TreeNewton
from experiments.shared.tables import Table
from experiments.untuned.cases import levels, make

PARTS = (0.3, 0.1, 0.03, 0.01)  # of the gap between the start's objective and the least
RIVAL = TreeLBFGS(rounded=False)
SOLVERS = {"TreeLBFGS": TreeLBFGS(), "TreeNewton": TreeNewton()}
ROUNDS = 600


def needed(case, solver):
    """Exchanges and bytes of the whole network until the objective is at each level, (levels, 2); NaN where it never is."""
    problem, network, start, least = make(case)
    goals = levels(problem, start, least, PARTS)
    history = consensus.solve(
        problem,
        network,
        solver,
        rounds=ROUNDS,
        record_every=1,
        start=start,
        callbacks=[lambda seen: "there" if seen.row["objective"] <= goals[-1] else None],
    ).history
    found = []
    for goal in goals:
        there = history["objective"] <= goal
        row = int(np.argmax(there))
        found.append([history["exchanges"][row], history["bytes"][row]] if there.any() else [np.nan, np.nan])
    return np.array(found, float)


def run(cases):
    """The table of these cases, and of their geometric means."""
    ratios = {name: [] for name in SOLVERS}
    shown = {f"{what}, {part:.0%}": ".2f" for what in ("exchanges", "bytes") for part in PARTS}
    table = Table({"case": "", "P": ".0f", "solver": "", **shown})
    for case in tqdm(cases, disable=None):
        rival = needed(case, RIVAL)
        for name, solver in SOLVERS.items():
            ratios[name].append(needed(case, solver) / rival)
            parameters = make(case)[0].parameters
            table.add(f"{case.data}, {case.graph}, {case.scheme}", parameters, name, *_cells(ratios[name][-1]))
    for name, found in ratios.items():
        table.add("geometric mean", None, name, *_cells(np.exp(np.nanmean(np.log(found), axis=0))))
    return table


def _cells(ratios):
    return [None if np.isnan(ratio) else float(ratio) for ratio in ratios.T.ravel()]
