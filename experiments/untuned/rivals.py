"""Rivals of AdaptiveNEXT by gossip: solvers, and the grids on which they are tuned."""

import numpy as np

from consensus.compression import Quantize
from consensus.solvers import LEAD, NEXT, SONATA, Compressed, ExactDiffusion, GradientTracking, PushDIGing
from consensus.surrogates import PartialLinearization
from experiments.shared.tuning import Axis, Family
from experiments.untuned.gossip_cases import DIRECTED, STATIC

LOCAL = 0.01  # tolerance of NEXT's local solves
ORDERS = {"tracking, adapt then combine": "atc", "tracking, combine then adapt": "cta"}


def reference(case):
    """NEXT with plain settings, run in full: with AdaptiveNEXT it says how low an objective can be."""
    return _approximation(case)(0.3, 0.1) if case.network in DIRECTED else _approximation(case)(0.1, 0.3)


def plain(case, problem):
    """``{name: Family}`` of solvers that send float32; steps of gradients are in units of 1 / L."""
    L = _lipschitz(problem)
    axes = (Axis("tau", (0.1, 0.316228), 10**0.5), Axis("step", (0.25, 0.5), most=1.0))
    if case.network in DIRECTED:
        step = (Axis("step times L", (0.125, 0.25, 0.5)),)
        return {"PushDIGing": Family(lambda step: PushDIGing(step / L), step), "SONATA": Family(_approximation(case), axes)}
    step = (Axis("step times L", (0.5, 1.0, 2.0)),)
    found = {name: Family(lambda step, order=order: GradientTracking(step / L, order), step) for name, order in ORDERS.items()}
    if case.network in STATIC:
        found["ExactDiffusion"] = Family(lambda step: ExactDiffusion(step / L), step)
    return found | {"NEXT": Family(_approximation(case), axes)}


def few_bits(case, problem, order):
    """``{name: Family}`` of solvers that send a few bits a number, tracking in this order; they run on static networks only."""
    if case.network not in STATIC:
        return {}
    L = _lipschitz(problem)
    axes = (Axis("step times L", (0.25, 0.5)), Axis("gamma", (0.5, 1.0), most=1.0))

    def tracking(bits):
        return Family(lambda step, gamma: Compressed(GradientTracking(step / L, order), Quantize(bits), gamma), axes)

    lead = Family(lambda step, gamma: LEAD(Quantize(6), step / L, gamma=gamma), axes)
    return {"tracking, 4 bits": tracking(4), "tracking, 6 bits": tracking(6), "LEAD, 6 bits": lead}


def _approximation(case):
    solver = SONATA if case.network in DIRECTED else NEXT
    return lambda tau, step: solver(PartialLinearization(tau), step, tolerance=LOCAL)


def _lipschitz(problem):
    return float(np.max(problem.lipschitz()))
