"""The methods that are compared, each with the grids on which it is tuned."""

import functools

import numpy as np

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
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from experiments.shared.tuning import Axis, Family

STEPS = (0.3, 1.0, 3.0)  # in units of 1 / L, L the largest of the agents' Lipschitz constants at the start
PENALTIES = (0.01, 0.03, 0.1)  # in units of L
WHOLE = (0.1, 0.3, 1.0)  # of a step to a minimum
TAUS = (0.03, 0.1, 0.3)
LEAST = 1e-4  # of tau: the regularizers of all problems are stronger
FACTOR = 10**0.5  # between neighbouring values

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
NEWTON = {"NetworkGIANT": NetworkGIANT}  # a step of one is a whole one
PENALISED = {"DADMM": DADMM, "NewtonTracking": NewtonTracking}
UNTUNED = {name: getattr(solvers, name) for name in ("AdaptiveNEXT", "AutoGT", "DATOS")}
PARTIAL = PartialLinearization


def grids(make, taus=TAUS, steps=(0.3, 0.6), decay=0.01):
    """Families of ``make(tau, step)``: with constant steps, and with steps that begin at the second of ``steps`` and fall."""
    tau, (first, second) = Axis("tau", taus, FACTOR, least=LEAST), steps

    def falling(tau, step):
        return make(tau, Diminishing(step, decay))

    return [
        Family(make, (tau, Axis("step", (first,), most=1.0)), "constant"),
        Family(falling, (tau, Axis("first step", (second,), most=1.0)), "falling"),
    ]


# Methods whose rounds are dear: local problems are solved in each.
APPROXIMATIONS = {
    "NEXT, partial": grids(lambda tau, step: NEXT(PARTIAL(tau), step)),
    # Of ten agents, one's curvature is a tenth of the network's.
    "NEXT, partial, local curvature": grids(
        lambda tau, step: NEXT(PARTIAL(tau, curvature="local"), step), (0.01, 0.03, 0.1), (0.1, 0.1), 0.1
    ),
    "NEXT, partial, 4 blocks": grids(lambda tau, step: NEXT(Blocks(PARTIAL(tau), 4), step), (0.1, 0.3, 1.0)),
    "NEXT, partial, 3 exchanges": grids(lambda tau, step: Gossip(NEXT(PARTIAL(tau), step), 3)),
    "SONATA, partial": grids(lambda tau, step: SONATA(PARTIAL(tau), step)),
}
DEAR = (ADAPTIVE, "DADMM", *APPROXIMATIONS)


def methods(problem):
    """``{name: [Family, ...]}``; steps and penalties are in units of the curvature of ``problem``, or a method's defaults."""
    L = float(np.max(problem.lipschitz()))

    def default(make):
        return Family(make, label="default")

    def step(make):
        return Family(lambda step: make(step / L), (Axis("step times L", STEPS, FACTOR),))

    def length(make):
        return Family(make, (Axis("step", WHOLE, FACTOR, most=1.0),))

    def penalty(make):
        return Family(lambda penalty: make(penalty * L), (Axis("penalty over L", PENALTIES, FACTOR),))

    found = {name: [Family(make)] for name, make in UNTUNED.items()} | APPROXIMATIONS
    found["NEXT, full"] = [length(lambda step: NEXT(FullLinearization(1.0), step))]
    found |= {name: [step(make)] for name, make in DIRECTED.items()}
    found |= {name: [default(make), step(make)] for name, make in GRADIENTS.items()}
    found |= {name: [default(make), length(make)] for name, make in NEWTON.items()}
    return found | {name: [default(make), penalty(make)] for name, make in PENALISED.items()}
