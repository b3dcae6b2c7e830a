"""The default of ``solve`` against rivals that are tuned for each case and measure, and against others without settings.

Measured are exchanges, and bytes in the whole network, until the objective at the agents' mean is within a part of the gap
between the start's and the least that L-BFGS, or accelerated proximal steps, find with all costs in one place, and stays there;
where costs are not known to be convex L-BFGS has 100 iterations. A run ends when it has been there for a while. Models, and
messages that are not rounded, are in float32, costs given by functions in float64; rivals of few bits send four a number. They
have eight times the exchanges in which the default gets there, or as many as there are. Who does not get there counts as all of
them, and the bytes sent in them; where neither the default nor a rival does, there is no ratio.
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from tqdm import tqdm

import consensus
from consensus import solvers
from consensus.compression import Quantize
from consensus.problems import has_model
from consensus.solvers import NEXT, SONATA, Compressed, GradientTracking
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared import tuning
from experiments.shared.tables import Table
from experiments.shared.tuning import Axis, Family
from experiments.untuned.default_cases import make
from experiments.untuned.gossip import Outcome, measured

PARTS = (1e-2, 1e-4)  # of the gap
EXCHANGES, QUICK = 400, 40
MORE = 8  # times the default's exchanges, for rivals
SETTLED = 10  # rows at the last level, after which a run ends
LOST = 1e3  # times the start's objective: a run that gets there is stopped
LOCAL = 0.01  # tolerance of NEXT's local solves
STEP = (Axis("step times L", (0.5, 1.0, 2.0), least=2**-6, most=2**8),)
KINDS = ("float", "4 bits", "untuned")


class Found(NamedTuple):
    """A case: the default, its outcome, its highest objective over the start's; exchanges and outcomes of rivals by kind."""

    solver: object
    own: Outcome
    peak: float
    rivals: dict


def outcome(problem, network, solver, start, levels, most, best=None):
    """The outcome of a run, its highest objective over the first, and the solver with its settings.

    It stops where the ``best`` reached all levels that it is above in fewer exchanges and bytes: it is no better there.
    """

    def stopped(seen):
        row, objective = seen.row, seen.history["objective"]
        if row["objective"] > LOST * abs(objective[0]) or (objective[-SETTLED:] <= levels[-1]).sum() == SETTLED:
            return "there, or lost"
        above = row["objective"] > np.asarray(levels)
        late = best is not None and above.any() and ((best[0] < row["exchanges"]) & (best[1] < row["bytes"]))[above].all()
        return "no better" if late else None

    options = {"rounds": most, "exchanges": most, "record_every": 1, "start": start.astype(problem.dtype)}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # rivals for convex costs warn
        try:
            result = consensus.solve(problem, network, solver, callbacks=[stopped], **options)
        except consensus.DivergenceError as error:
            result = error.result
    found = measured(result.history, levels, most, stays=True)
    peak = float(np.nanmax(result.history["objective"]) / result.history["objective"][0])
    return found._replace(sent=float(result.history["bytes"][-1])), peak, result.solver


def least(problem, start):
    """The least objective that a solver with all costs in one place finds from the start."""
    r, start = problem.regularizer, np.asarray(start, float)
    if r.quadratic:
        size = max(1.0, float(np.linalg.norm(start)) / len(start) ** 0.5)

        def both(z):
            return float(problem.objective(size * z)), size * (problem.total_gradient(size * z) + r.gradient(size * z[None])[0])

        most = 100 if known(problem.strong_convexity) is None else 20000  # iterations
        options = {"maxiter": most, "maxfun": 40000, "gtol": 1e-14, "ftol": 1e-16, "maxcor": 40}
        return float(minimize(both, start / size, jac=True, method="L-BFGS-B", options=options).fun)
    point = ahead = start
    best, momentum, L = problem.objective(start), 1.0, lipschitz(problem, start)
    for _ in range(3000):
        new = r.prox((ahead - problem.total_gradient(ahead) / L)[None], 1 / L)[0]
        value = problem.objective(new)
        if value > best:  # restart; where there is nothing to restart, the step was too long
            ahead, momentum, L = point, 1.0, L * (2 if momentum == 1 else 1)
            continue
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead, point, momentum, best = new + (momentum - 1) / following * (new - point), new, following, value
    return float(best)


def lipschitz(problem, w):
    """The largest curvature of an agent's A g_i at w, by power iteration on differences of gradients."""
    A, e = problem.agents, 1e-5 * (float(np.linalg.norm(w)) or 1.0)
    V, found = np.random.default_rng(0).standard_normal((A, len(w))), 1e-300
    for _ in range(30):
        V /= np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300)
        V = A * (problem.gradient(w + e * V) - problem.gradient(w - e * V)) / (2 * e)
        found = float(np.linalg.norm(V, axis=1).max())
    return max(found, 1e-300)


def families(problem, network, L):
    """``{kind: {name: Family}}`` of the rivals that suit a problem and a network."""
    W = network.weights(network.key(0))
    symmetric, smooth = abs(W - W.T).max() < 1e-12, problem.regularizer.quadratic
    fixed = network.static and symmetric
    tau, part = Axis("tau / L", (1e-3, 1e-2), 10**0.5, least=1e-6, most=1.0), Axis("step", (0.5, 1.0), least=2**-4, most=1.0)
    method = NEXT if symmetric else SONATA

    def steps(make):
        return Family(lambda k: make(k / L), STEP)

    found = {f"{method.__name__}, full": Family(lambda k: method(FullLinearization(L / k), 1.0), STEP)}
    if has_model(problem):
        partial = Family(lambda t, a: method(PartialLinearization(t * L), a, tolerance=LOCAL), (tau, part))
        found[f"{method.__name__}, partial"] = partial
    if not symmetric:
        found["PushDIGing"] = steps(solvers.PushDIGing)
    elif smooth:
        found |= {f"tracking, {order}": steps(lambda s, order=order: GradientTracking(s, order)) for order in ("atc", "cta")}
    if fixed:
        names = ("EXTRA", "ExactDiffusion") if smooth else ("NIDS", "PGEXTRA")
        found |= {name: steps(getattr(solvers, name)) for name in names}
        theory = ["AutoGT", *(["KGT"] if known(problem.lipschitz) is not None else [])] if smooth else []
        found |= {name: Family(getattr(solvers, name)) for name in theory}
    untuned = untuned_of(problem) if fixed else ()
    return {"float": found, "untuned": {name: Family(getattr(solvers, name)) for name in untuned}}


def few_bits(problem, network, L, plain, done):
    """``{name: Family}`` in 4 bits: NEXT and tracking with the best settings in float and gamma tuned, and LEAD."""
    if "ExactDiffusion" not in plain and "PGEXTRA" not in plain:  # the network changes or is directed
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
        found["LEAD"] = Family(lambda k: solvers.LEAD(Quantize(4), k / L), STEP)
    return found


def untuned_of(problem):
    """The methods with steps by theory that suit convex costs: none where these are not known to be convex."""
    mu, r = known(problem.strong_convexity), problem.regularizer
    if mu is None or known(problem.lipschitz) is None or mu.min() < 0:
        return ()
    return ("EXTRA", "NIDS", *(["OPAPC"] if mu.min() > 0 else [])) if r.smooth else ("PGEXTRA", "NIDS")


def known(declared):
    """What a problem declares; None if it does not."""
    try:
        return declared()
    except TypeError:
        return None


def merits(found, key, one):
    """To each level in exchanges and bytes; among runs that did not get there, the lower one is better."""
    counts = zip(PARTS * 2, (*one.exchanges, *one.bytes), strict=True)
    return {place: (float(value), one.lowest) for place, (_, value) in enumerate(counts)}


def compared(double, single, network, start, most=EXCHANGES, *, quick=False):
    """What is :class:`Found` on a problem, of which ``single`` is the same in float32 if it has a model."""
    low, first = least(double, start), float(double.objective(np.asarray(start, float)))
    levels = [low + part * (first - low) for part in PARTS]
    own, peak, solver = outcome(single, network, solvers.Auto(), start, levels, most)
    limit, L = int(min(most, MORE * own.exchanges[-1])), lipschitz(double, np.asarray(start, float))

    def tuned(some):
        best = np.full((2, len(PARTS)), np.inf)

        def run(points):
            found = {}
            for key, point in points:
                one = found[key, point] = outcome(single, network, some[key].make(*point), start, levels, limit, best)[0]
                best[:] = np.minimum(best, [one.exchanges, one.bytes])
            return found

        return tuning.tuned(run, some, merits, quick=quick) if some else {}

    plain = families(single, network, L)
    done = {kind: tuned(some) for kind, some in plain.items()}
    done["4 bits"] = tuned(few_bits(single, network, L, plain["float"], done["float"]))
    return Found(solver, own, peak, {kind: (limit, found) for kind, found in done.items()})


def ratio(own, rivals, what, part, most):
    """The default's exchanges or bytes over the least of all rivals', and its name; None where there is no ratio."""
    limit, found = rivals
    counts = {name: min(getattr(one, what)[part] for one in runs.values()) for name, runs in found.items()}
    name = min(counts, key=counts.get, default=None)
    if name is None or np.isinf(min(counts[name], getattr(own, what)[part])):
        return None
    sent = max(one.sent for runs in found.values() for one in runs.values())
    needed = min(counts[name], limit if what == "exchanges" else sent)
    mine = min(getattr(own, what)[part], most if what == "exchanges" else own.sent)
    return mine / needed, name if np.isfinite(counts[name]) else "none"


def tables(found, most=EXCHANGES):
    """Exchanges and ratios case by case, and the shares of cases within 1.2, 1.5, 2 and 4, by kind of rivals and measure."""
    measures = [(kind, what, part) for kind in KINDS for what in ("exchanges", "bytes") for part in range(len(PARTS))]
    title = {m: f"{m[1]} to {PARTS[m[2]]:.2%}, {m[0]}" for m in measures}
    each = Table(
        {"case": "", "takes": "", "to 1%": ".0f", "to 0.01%": ".0f", "highest over start": ".3g"}
        | dict.fromkeys(title.values(), ".2f")
        | {"best to 1%": ""}
    )
    every = {m: [] for m in measures}
    for name, one in found.items():
        row = {m: ratio(one.own, one.rivals[m[0]], *m[1:], most) for m in measures}
        for m, value in row.items():
            every[m] += [] if value is None else [value[0]]
        values = [np.nan if value is None else value[0] for value in row.values()]
        takes = type(one.solver.solver).__name__
        each.add(name, takes, *one.own.exchanges, one.peak, *values, (row[measures[0]] or (0, "none"))[1])
    within = (1.2, 1.5, 2, 4)
    summary = Table({"measure": "", "cases": ".0f", "mean": ".2f", **{f"within {x}": ".0%" for x in within}, "worst": ".1f"})
    for m, values in every.items():
        if values:
            x = np.array(values)
            summary.add(title[m], len(x), np.exp(np.log(x).mean()), *(np.mean(x <= most) for most in within), x.max())
    return {"Cases": each, "Summary": summary}


def run(cases, *, quick=False):
    """The tables of the cases."""
    most = QUICK if quick else EXCHANGES
    return tables({str(case): compared(*make(case), most, quick=quick) for case in tqdm(cases, disable=None)}, most)
