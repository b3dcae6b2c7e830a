"""Exchanges and bytes of solvers on sums over a tree, over those of L-BFGS in float64 on the same tree: ten cases."""

import numpy as np
from tqdm import tqdm

from consensus.solvers import TreeLBFGS, TreeNewton
from experiments.shared.tables import Table
from experiments.untuned.cases import optimum, trained
from experiments.untuned.counting import levels, measured, quiet

PARTS = (0.3, 0.1, 0.03, 0.01)  # of the gap between the start's objective and the least
RIVAL = TreeLBFGS(rounded=False)
SOLVERS = {"TreeLBFGS": TreeLBFGS(), "TreeNewton": TreeNewton()}
ROUNDS = 600


def needed(case, goals, solver):
    """Exchanges and bytes of the whole network until the objective is at each level, (2, levels); NaN where it never is."""
    problem, _, network, start = trained(case)

    def there(seen):
        return "there" if seen.row["objective"] <= goals[-1] else None

    history, _ = quiet(problem, network, solver, rounds=ROUNDS, record_every=1, start=start, callbacks=[there])
    found = np.array(measured(history, goals)[:2])
    return np.where(np.isfinite(found), found, np.nan)


def run(cases):
    """The table of these cases, and of their geometric means."""
    ratios = {name: [] for name in SOLVERS}
    shown = {f"{what}, {part:.0%}": ".2f" for what in ("exchanges", "bytes") for part in PARTS}
    table = Table({"case": "", "P": ".0f", "solver": "", **shown})
    for case in tqdm(cases, disable=None):
        problem, _, _, start = trained(case)
        goals = levels(problem.objective(start), optimum(problem, start), PARTS)
        rival = needed(case, goals, RIVAL)
        for name, solver in SOLVERS.items():
            ratios[name].append(needed(case, goals, solver) / rival)
            table.add(f"{case.data}, {case.network}, {case.scheme}", problem.parameters, name, *_cells(ratios[name][-1]))
    for name, found in ratios.items():
        table.add("geometric mean", None, name, *_cells(np.exp(np.nanmean(np.log(found), axis=0))))
    return table


def _cells(ratios):
    return [None if np.isnan(ratio) else float(ratio) for ratio in ratios.ravel()]
