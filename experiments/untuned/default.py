"""The default of ``solve`` against rivals that are tuned for each case and measure, and against others without settings.

Measured are exchanges, and bytes in the whole network, until the objective at the agents' mean is within a part of the gap
between the start's and the least that L-BFGS, or accelerated proximal steps, find with all costs in one place, and stays there;
where costs are not known to be convex L-BFGS has 100 iterations. A run ends when it has been there for a while. Models, and
messages that are not rounded, are in float32, costs given by functions in float64; rivals of few bits send four a number. They
have eight times the exchanges in which the default gets there, or as many as there are. Who does not get there counts as all of
them, and the bytes sent in them; where neither the default nor a rival does, there is no ratio.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from tqdm import tqdm

from consensus import solvers
from experiments.shared import tuning
from experiments.shared.tables import Table
from experiments.untuned import rivals
from experiments.untuned.cases import make
from experiments.untuned.counting import Outcome, exchanging, levels, measured

PARTS = (1e-2, 1e-4)  # of the gap
EXCHANGES, QUICK = 400, 40
MORE = 8  # times the default's exchanges, for rivals
SETTLED = 10  # rows at the last level, after which a run ends
LOST = 1e3  # times the start's objective: a run that gets there is stopped
KINDS = ("float", "4 bits", "untuned")


class Found(NamedTuple):
    """A case: the default, its outcome, its highest objective over the start's; exchanges and outcomes of rivals by kind."""

    solver: object
    own: Outcome
    peak: float
    rivals: dict


def outcome(problem, network, solver, start, goals, most, best=None):
    """The outcome of a run, its highest objective over the first, and the solver with its settings.

    It stops where the ``best`` reached all levels that it is above in fewer exchanges and bytes: it is no better there.
    """

    def stopped(seen):
        row, objective = seen.row, seen.history["objective"]
        if row["objective"] > LOST * abs(objective[0]) or (objective[-SETTLED:] <= goals[-1]).sum() == SETTLED:
            return "there, or lost"
        above = row["objective"] > np.asarray(goals)
        late = best is not None and above.any() and ((best[0] < row["exchanges"]) & (best[1] < row["bytes"]))[above].all()
        return "no better" if late else None

    history, ran = exchanging(problem, network, solver, start, most, stopped)
    found = measured(history, goals, most, stays=True)
    peak = float(np.nanmax(history["objective"]) / history["objective"][0])
    return found._replace(sent=float(history["bytes"][-1])), peak, ran


def least(problem, start):
    """The least objective that a solver with all costs in one place finds from the start."""
    r, start = problem.regularizer, np.asarray(start, float)
    if r.quadratic:
        size = max(1.0, float(np.linalg.norm(start)) / len(start) ** 0.5)

        def both(z):
            return float(problem.objective(size * z)), size * (problem.total_gradient(size * z) + r.gradient(size * z[None])[0])

        most = 100 if rivals.known(problem.strong_convexity) is None else 20000  # iterations
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


def merits(found, key, one):
    """To each level in exchanges and bytes; among runs that did not get there, the lower one is better."""
    counts = zip(PARTS * 2, (*one.exchanges, *one.bytes), strict=True)
    return {place: (float(value), one.lowest) for place, (_, value) in enumerate(counts)}


def compared(double, single, network, start, most=EXCHANGES, *, quick=False):
    """What is :class:`Found` on a problem, of which ``single`` is the same in float32 if it has a model."""
    goals = levels(float(double.objective(np.asarray(start, float))), least(double, start), PARTS)
    own, peak, solver = outcome(single, network, solvers.Auto(), start, goals, most)
    limit, L = int(min(most, MORE * own.exchanges[-1])), lipschitz(double, np.asarray(start, float))

    def tuned(some):
        best = np.full((2, len(PARTS)), np.inf)

        def attempt(key, point):
            one = outcome(single, network, some[key].make(*point), start, goals, limit, best)[0]
            best[:] = np.minimum(best, [one.exchanges, one.bytes])
            return one

        return tuning.tuned(lambda points: {at: attempt(*at) for at in points}, some, merits, quick=quick)

    plain = rivals.of_default(single, network, L)
    done = {kind: tuned(some) for kind, some in plain.items()}
    done["4 bits"] = tuned(rivals.of_default_in_4_bits(single, network, L, plain["float"], done["float"], merits))
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
