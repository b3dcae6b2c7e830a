"""The methods that are compared, each with the grids on which it is tuned."""

import functools
import math

import numpy as np
import pandas as pd

from consensus import solvers
from consensus.solvers import (
    DADMM,
    DGD,
    NEXT,
    SONATA,
    Gossip,
    GradientTracking,
    NetworkGIANT,
    NewtonTracking,
    PushDIGing,
    PushPull,
)
from consensus.step_sizes import Diminishing
from consensus.studies import Grid, Study
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from experiments.shared.centralised import reference
from experiments.shared.studies import finished

STEPS = (0.3, 1.0, 3.0)  # in units of 1 / L, L the largest of the agents' Lipschitz constants at the start
PENALTIES = (0.01, 0.03, 0.1)  # in units of L
WHOLE = (0.1, 0.3, 1.0)  # of a step to a minimum
TAUS = (0.03, 0.1, 0.3)
LEAST = 1e-4  # of tau: the regularizers of all problems are stronger
MORE = 10  # exchanges of methods whose rounds are cheap, for one of the others
TUNING = 2  # seeds on which settings are tried; the report has others

ADAPTIVE = "AdaptiveNEXT"
GRADIENTS = {
    "DGD": DGD,
    "tracking, adapt then combine": GradientTracking,
    "tracking, combine then adapt": functools.partial(GradientTracking, order="cta"),
    "tracking, 3 exchanges": lambda step=None: Gossip(GradientTracking(step), 3),
}
SAFE = "EXTRA PGEXTRA NIDS ExactDiffusion ProxGT AccGT OPAPC WangElia KGT LED ProxSkip DLM ATG LTADMM DiNNO"
GRADIENTS |= {name: getattr(solvers, name) for name in SAFE.split()}
DIRECTED = {"PushDIGing": PushDIGing, "PushPull": PushPull}  # no step is known to be safe
PENALISED = {"DADMM": DADMM, "NewtonTracking": NewtonTracking}
UNTUNED = {name: getattr(solvers, name) for name in ("AdaptiveNEXT", "AutoGT", "DATOS")}
PARTIAL = PartialLinearization


def grid(make, taus=TAUS, steps=(0.6, 1.0), decay=0.01):
    """The grid of ``make(tau, step)``, with steps that are constant and steps that fall."""

    def solver(tau, step, decay):
        if tau < LEAST:
            raise ValueError(f"tau must be at least {LEAST}; got {tau}")
        return make(tau, Diminishing(step, decay) if decay else step)

    return Grid(solver, tau=taus, step=steps, decay=[0.0, decay])


# Methods whose rounds are dear: local problems are solved in each.
APPROXIMATIONS = {
    "NEXT, partial": grid(lambda tau, step: NEXT(PARTIAL(tau), step)),
    # Of ten agents, one's curvature is a tenth of the network's.
    "NEXT, partial, local curvature": grid(
        lambda tau, step: NEXT(PARTIAL(tau, curvature="local"), step), (0.01, 0.03, 0.1), (0.1, 0.2), 0.1
    ),
    "NEXT, partial, 4 blocks": grid(lambda tau, step: NEXT(Blocks(PARTIAL(tau), 4), step), (0.1, 0.3, 1.0)),
    "NEXT, partial, 3 exchanges": grid(lambda tau, step: Gossip(NEXT(PARTIAL(tau), step), 3)),
    "SONATA, partial": grid(lambda tau, step: SONATA(PARTIAL(tau), step)),
}
DEAR = (ADAPTIVE, "DADMM", *APPROXIMATIONS)


def methods(problem):
    """``{name: solver or grid}``; steps and penalties are in units of the curvature of ``problem``, or a method's defaults."""
    L = float(np.max(problem.lipschitz()))

    def by_step(make):
        return Grid(lambda step, default: make() if default else make(step / L), step=STEPS, default=[False, True])

    def by_penalty(make):
        return Grid(lambda penalty, default: make() if default else make(penalty * L), penalty=PENALTIES, default=[False, True])

    found = {name: make() for name, make in UNTUNED.items()} | APPROXIMATIONS
    found["NEXT, full"] = Grid(lambda step: NEXT(FullLinearization(1.0), step), step=WHOLE)
    found["NetworkGIANT"] = Grid(NetworkGIANT, step_size=WHOLE)
    found |= {name: Grid(lambda step, make=make: make(step / L), step=STEPS) for name, make in DIRECTED.items()}
    found |= {name: by_step(make) for name, make in GRADIENTS.items()}
    return found | {name: by_penalty(make) for name, make in PENALISED.items()}


def compared(given, folder, case, over, solvers, measure, **fixed):
    """The outcomes of ``{times: {name: solver or grid}}`` by the case's values and the solver, and the tables of the grids.

    The case is ``case(seed, **values, exchanges, **fixed)``, with ``times`` the exchanges that the user gives. Grids are tuned
    on TUNING seeds, and but a point each if quick. Levels are relative to what is reached with all data in one place.
    """
    found, grids = {}, []
    for times, own in solvers.items():
        exchanges = times * given.rounds
        made = functools.partial(case, exchanges=exchanges, **fixed)
        if given.quick:
            own = {name: one.solver(one.points()[0]) if isinstance(one, Grid) else one for name, one in own.items()}
        usual = {
            "seeds": given.seeds,
            "tuning_seeds": TUNING,
            "reference": reference,
            "folder": folder / f"exchanges-{exchanges}",
        }
        study = Study(made, over=over, solvers=own, measure=measure, rounds=exchanges, **usual)
        found |= finished(study, given)
        grids.append(study.grids())
    return found, pd.concat(grids)


def shown(outcomes):
    """The setting in words, which all repeats share."""
    setting = outcomes[0].setting
    return "default" if "default = True" in setting else setting.removesuffix(", default = False") or "–"


def needed(outcome, lowest, part, column="exchanges"):
    """What is spent until the objective stays where a ``part`` is left between the start and the lowest; infinite if never."""
    objective = outcome.history["objective"]
    above = np.flatnonzero(~(objective <= lowest + part * (objective[0] - lowest)))  # NaN is above
    after = above[-1] + 1 if len(above) else 0
    return math.inf if outcome.diverged or after == len(objective) else float(outcome.history[column][after])
