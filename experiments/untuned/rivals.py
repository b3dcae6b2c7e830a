"""Rivals of methods without settings: solvers, and the grids on which they are tuned."""

import numpy as np

from consensus import solvers
from consensus.compression import Quantize
from consensus.problems import has_model
from consensus.solvers import DGD, LEAD, NEXT, SONATA, Compressed, ExactDiffusion, GradientTracking, PushDIGing
from consensus.step_sizes import Diminishing
from consensus.studies import Grid
from consensus.surrogates import FullLinearization, PartialLinearization

LOCAL = 0.01  # tolerance of NEXT's local solves
ORDERS = {"tracking, adapt then combine": "atc", "tracking, combine then adapt": "cta"}
KINDS = {"constant": lambda step: step, "falling": lambda step: Diminishing(step, 0.01)}


def symmetric(network):
    W = network.weights(network.key(0))
    return abs(W - W.T).max() < 1e-12


def fixed(network):
    """Whether the network is static and symmetric, as messages of few bits and exact methods of gradients want it."""
    return network.static and symmetric(network)


def known(declared):
    """What a problem declares; None if it does not."""
    try:
        return declared()
    except TypeError:
        return None


def within(least, value, most):
    """The value; one outside is the end of a grid."""
    if not least <= value <= most:
        raise ValueError(f"must be between {least:g} and {most:g}; got {value:g}")
    return value


def reference(network):
    """NEXT with plain settings, run in full: with AdaptiveNEXT it says how low an objective can be."""
    return _approximation(network)(*((0.1, 0.3) if symmetric(network) else (0.3, 0.1)))


def of_gossip(problem, network):
    """``{name: Grid}`` of solvers that send float32; steps of gradients are in units of 1 / L."""
    L = float(np.max(problem.lipschitz()))

    def steps(make, first=0.5):
        return Grid(lambda step_times_L: make(step_times_L / L), step_times_L=[first, 2 * first, 4 * first])

    plain = Grid(_approximation(network), tau=[0.1, 0.316228], step=[0.25, 0.5])
    if not symmetric(network):
        return {"PushDIGing": steps(PushDIGing, 0.125), "SONATA": plain}
    found = {name: steps(lambda step, order=order: GradientTracking(step, order)) for name, order in ORDERS.items()}
    return found | ({"ExactDiffusion": steps(ExactDiffusion)} if fixed(network) else {}) | {"NEXT": plain}


def of_gossip_in_few_bits(problem, network, order):
    """``{name: Grid}`` of solvers that send a few bits a number, tracking in this order; they run on static networks only."""
    if not fixed(network):
        return {}
    L = float(np.max(problem.lipschitz()))

    def tracking(bits):
        return lambda step, gamma: Compressed(GradientTracking(step, order), Quantize(bits), gamma)

    def lead(step, gamma):
        return LEAD(Quantize(6), step, gamma=within(0, gamma, 1))

    def tuned(make):
        axes = {"step_times_L": [0.25, 0.5], "gamma": [0.5, 1.0]}
        return Grid(lambda step_times_L, gamma: make(step_times_L / L, gamma), **axes)

    return {"tracking, 4 bits": tuned(tracking(4)), "tracking, 6 bits": tuned(tracking(6)), "LEAD, 6 bits": tuned(lead)}


def _approximation(network):
    solver = NEXT if symmetric(network) else SONATA
    return lambda tau, step: solver(PartialLinearization(tau), step, tolerance=LOCAL)


def _wide(make):
    return Grid(lambda step_times_L: make(within(2**-6, step_times_L, 2**8)), step_times_L=[0.5, 1.0, 2.0])


def of_default(problem, network, L):
    """``{kind: {name: solver or Grid}}`` of the rivals of no solver at all that suit a problem and a network."""
    smooth, exact = problem.regularizer.quadratic, fixed(network)
    method, partial = NEXT if symmetric(network) else SONATA, _approximation(network)

    def steps(make):
        return _wide(lambda k: make(k / L))

    found = {f"{method.__name__}, full": _wide(lambda k: method(FullLinearization(L / k), 1.0))}
    if has_model(problem):
        found[f"{method.__name__}, partial"] = Grid(
            lambda tau_over_L, step: partial(within(1e-6, tau_over_L, 1) * L, within(2**-4, step, 1)),
            **{"tau_over_L": [1e-3, 3.16228e-3, 1e-2, 3.16228e-2], "step": [0.5, 1.0]},
        )
    if not symmetric(network):
        found["PushDIGing"] = steps(PushDIGing)
    elif smooth:
        found |= {f"tracking, {order}": steps(lambda s, order=order: GradientTracking(s, order)) for order in ORDERS.values()}
    if exact:
        names = ("EXTRA", "ExactDiffusion") if smooth else ("NIDS", "PGEXTRA")
        found |= {name: steps(getattr(solvers, name)) for name in names}
        theory = ["AutoGT", *(["KGT"] if known(problem.lipschitz) is not None else [])] if smooth else []
        found |= {name: getattr(solvers, name)() for name in theory}
    untuned = by_theory(problem) if exact else ()
    return {"float": found, "untuned": {name: getattr(solvers, name)() for name in untuned}}


def of_default_in_4_bits(problem, network, L, plain, settings):
    """``{name: Grid}``: NEXT and tracking with their best ``settings`` in float, gamma tuned, and LEAD."""
    if not fixed(network):
        return {}

    def short(solver):
        return Grid(lambda gamma: Compressed(solver, Quantize(4), within(2**-3, gamma, 1)), gamma=[0.5, 1.0])

    found = {
        f"{name}, {setting}": short(at(grid, setting))
        for name, grid in plain.items()
        if name.startswith("NEXT") or name == "tracking, atc"
        for setting in settings[name]
    }
    if problem.regularizer.quadratic:
        found["LEAD"] = _wide(lambda k: LEAD(Quantize(4), k / L))
    return found


def at(grid, setting):
    """The solver of a setting in words."""
    return grid.solver(tuple(float(part.partition(" = ")[2]) for part in setting.split(", ")))


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
