"""Results of an experiment that the tests of the report look at."""

import numpy as np

from consensus.history import History
from experiments.shared.results import Outcome, Run
from experiments.shared.tables import Spread

NEXT, ODD, FAILING = "NEXT", 'a <b id="x">solver</b></script> & more', "DGD"
ROWS = {NEXT: 40, ODD: 1000, FAILING: 5}
SEEDS = (0, 1, 2)


def runs():
    """Three solvers, three repeats: one with many rows, one that diverges in two of them."""

    def make(solver, seed):
        def work(engine):
            history, random = History(), np.random.default_rng([seed, ROWS[solver]])
            for row in range(ROWS[solver]):
                growth = 1e4**row if solver == FAILING else 1.0
                quantities = {"objective": growth * random.uniform(1, 2) / (row + 1), "disagreement": random.uniform(0.5, 1.5)}
                clock = {"exchanges": 2 * row, "floats": 100 * row, "bytes": 800 * row, "seconds": 0.25 * row}
                history.append({"round": row, **quantities, **clock})
            failed = solver == FAILING and seed > 0
            return Outcome(history, np.zeros((0 if failed else 2, 3)), "diverged in round 4" if failed else "done")

        settings = {"dataset": "diabetes", "solver": solver, "seed": seed}
        return Run(settings, {"rounds": 10, "start": f"<{seed}>"}, work)

    return {(solver, seed): make(solver, seed) for solver in ROWS for seed in SEEDS}


def last(solver, name):
    """The spread of the last values of all repeats of ``solver``."""
    return Spread.of(run.work(None).history[name][-1] for (which, _), run in runs().items() if which == solver)
