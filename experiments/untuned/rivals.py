"""Rivals of methods without settings: solvers, and the grids on which they are tuned."""

import numpy as np

from consensus import solvers
from consensus.compression import Quantize
from consensus.problems import has_model
from consensus.solvers import DGD, LEAD, NEXT, SONATA, Compressed, ExactDiffusion, GradientTracking, PushDIGing
from consensus.step_sizes import Diminishing
from consensus.studies import Grid
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared import tuning
from experiments.shared.tuning import Axis, Family

LOCAL = 0.01  # tolerance of NEXT's local solves
ORDERS = {"tracking, adapt then combine": "atc", "tracking, combine then adapt": "cta"}
STEP = "step times L"
WIDE = (Axis(STEP, (0.5, 1.0, 2.0), least=2**-6, most=2**8),)
KINDS = {"constant": lambda step: step, "falling": lambda step: Diminishing(step, 0.01)}


def symmetric(network):
    W = network.weights(network.key(0))
    return abs(W - W.T).max() < 1e-12


def fixed(network):
    """Whether the network is static and symmetric, as messages of few bits and exact methods of gradients want it."""
    return network.static and symmetric(network)


def lipschitz(problem):
    return float(np.max(problem.lipschitz()))


def known(declared):
    """What a problem declares; None if it does not."""
    try:
        return declared()
    except TypeError:
        return None


def reference(network):
    """NEXT with plain settings, run in full: with AdaptiveNEXT it says how low an objective can be."""
    return _approximation(network)(*((0.1, 0.3) if symmetric(network) else (0.3, 0.1)))


def of_gossip(problem, network):
    """``{name: Family}`` of solvers that send float32; steps of gradients are in units of 1 / L."""
    L = lipschitz(problem)
    axes = (Axis("tau", (0.1, 0.316228), 10**0.5), Axis("step", (0.25, 0.5), most=1.0))
    if not symmetric(network):
        step = (Axis(STEP, (0.125, 0.25, 0.5)),)
        return {"PushDIGing": Family(lambda step: PushDIGing(step / L), step), "SONATA": Family(_approximation(network), axes)}
    step = (Axis(STEP, (0.5, 1.0, 2.0)),)
    found = {name: Family(lambda step, order=order: GradientTracking(step / L, order), step) for name, order in ORDERS.items()}
    if fixed(network):
        found["ExactDiffusion"] = Family(lambda step: ExactDiffusion(step / L), step)
    return found | {"NEXT": Family(_approximation(network), axes)}


def of_gossip_in_few_bits(problem, network, order):
    """``{name: Family}`` of solvers that send a few bits a number, tracking in this order; they run on static networks only."""
    if not fixed(network):
        return {}
    L = lipschitz(problem)
    axes = (Axis(STEP, (0.25, 0.5)), Axis("gamma", (0.5, 1.0), most=1.0))

    def tracking(bits):
        return Family(lambda step, gamma: Compressed(GradientTracking(step / L, order), Quantize(bits), gamma), axes)

    lead = Family(lambda step, gamma: LEAD(Quantize(6), step / L, gamma=gamma), axes)
    return {"tracking, 4 bits": tracking(4), "tracking, 6 bits": tracking(6), "LEAD, 6 bits": lead}


def _approximation(network):
    solver = NEXT if symmetric(network) else SONATA
    return lambda tau, step: solver(PartialLinearization(tau), step, tolerance=LOCAL)


def of_default(problem, network, L):
    """``{kind: {name: Family}}`` of the rivals of no solver at all that suit a problem and a network."""
    smooth, exact = problem.regularizer.quadratic, fixed(network)
    tau, part = Axis("tau / L", (1e-3, 1e-2), 10**0.5, least=1e-6, most=1.0), Axis("step", (0.5, 1.0), least=2**-4, most=1.0)
    method = NEXT if symmetric(network) else SONATA

    def steps(make):
        return Family(lambda k: make(k / L), WIDE)

    found = {f"{method.__name__}, full": Family(lambda k: method(FullLinearization(L / k), 1.0), WIDE)}
    if has_model(problem):
        partial = _approximation(network)
        found[f"{method.__name__}, partial"] = Family(lambda t, a: partial(t * L, a), (tau, part))
    if not symmetric(network):
        found["PushDIGing"] = steps(PushDIGing)
    elif smooth:
        found |= {f"tracking, {order}": steps(lambda s, order=order: GradientTracking(s, order)) for order in ORDERS.values()}
    if exact:
        names = ("EXTRA", "ExactDiffusion") if smooth else ("NIDS", "PGEXTRA")
        found |= {name: steps(getattr(solvers, name)) for name in names}
        theory = ["AutoGT", *(["KGT"] if known(problem.lipschitz) is not None else [])] if smooth else []
        found |= {name: Family(getattr(solvers, name)) for name in theory}
    untuned = by_theory(problem) if exact else ()
    return {"float": found, "untuned": {name: Family(getattr(solvers, name)) for name in untuned}}


def of_default_in_4_bits(problem, network, L, plain, done, merits):
    """``{name: Family}``: NEXT and tracking with their best settings in float of what is ``done``, gamma tuned, and LEAD."""
    if not fixed(network):
        return {}
    gamma = (Axis("gamma", (0.5, 1.0), least=2**-3, most=1.0),)

    def short(solver):
        return Family(lambda g: Compressed(solver, Quantize(4), g), gamma)

    found = {
        f"{name}, {family.shown(point)}": short(family.make(*point))
        for name, family in plain.items()
        if name.startswith("NEXT") or name == "tracking, atc"
        for point in set(tuning.best(done, name, merits).values())
    }
    if problem.regularizer.quadratic:
        found["LEAD"] = Family(lambda k: LEAD(Quantize(4), k / L), WIDE)
    return found


def by_theory(problem):
    """The methods with steps by theory that suit convex costs: none where these are not known to be convex."""
    mu, r = known(problem.strong_convexity), problem.regularizer
    if mu is None or known(problem.lipschitz) is None or mu.min() < 0:
        return ()
    return ("EXTRA", "NIDS", *(["OPAPC"] if mu.min() > 0 else [])) if r.smooth else ("PGEXTRA", "NIDS")


def _next(surrogate):
    """A grid of NEXT with one setting for all cases."""

    def make(kind, tau, step):
        return NEXT(surrogate(tau), KINDS[kind](step))

    return Grid(make, kind=[*KINDS], tau=[0.5, 1.0], step=[0.1, 0.2])


#: Rivals that have one setting for all cases of a panel.
OF_A_PANEL = {
    "gradient tracking": Grid(
        lambda order, kind, step: GradientTracking(KINDS[kind](step), order),
        **{"order": ["atc", "cta"], "kind": [*KINDS], "step": [0.1, 0.2, 0.4]},
    ),
    "DGD": Grid(lambda kind, step: DGD(KINDS[kind](step)), kind=[*KINDS], step=[0.1, 0.2, 0.4]),
    "NEXT full": _next(FullLinearization),
    "NEXT partial": _next(PartialLinearization),
}
