"""Exchanges and bytes of AdaptiveNEXT over those of the best rival, each of them tuned case by case and measure by measure.

Measured is how many exchanges, and bytes in the whole network, it takes until the objective at the agents' mean is within a
part of the gap between the start's and the lowest that AdaptiveNEXT and one plain NEXT reach in as many exchanges as there are.
A run that never gets there is counted with all of these exchanges, and the bytes sent in them. All bytes of a rival
are those of its exchanges times the same number, so that the setting that is best by exchanges is best by bytes, too.
"""

import warnings
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

import consensus
from consensus.solvers import AdaptiveNEXT
from experiments.shared import tuning
from experiments.shared.tables import Table
from experiments.untuned import rivals
from experiments.untuned.gossip_cases import make

PARTS = (0.1, 0.03, 0.01)  # of the gap
EXCHANGES, QUICK = 1000, 60
LOST = 10.0  # times the start's objective: a run that gets there is stopped


class Outcome(NamedTuple):
    """Exchanges and bytes to each level, infinite where it was not reached; the lowest objective; all bytes, if run in full."""

    exchanges: np.ndarray
    bytes: np.ndarray
    lowest: float
    sent: float


def measured(history, levels, most, *, stays=False):
    """The :class:`Outcome` of a history in its first ``most`` exchanges; ``stays``: where it is at a level from then on."""
    inside = history["exchanges"] <= most
    objective = np.where(np.isfinite(history["objective"]), history["objective"], np.inf)[inside]
    there = objective <= np.asarray(levels)[:, None]
    there = np.logical_and.accumulate(there[:, ::-1], axis=1)[:, ::-1] if stays else there
    row = there.argmax(axis=1)
    counts = [np.where(there.any(axis=1), history[name][inside][row], np.inf) for name in ("exchanges", "bytes")]
    sent = history["bytes"][inside][-1] if history["exchanges"][-1] >= most else np.inf
    return Outcome(*counts, float(objective.min()), float(sent))


def history_of(problem, network, solver, start, most, stop=None):
    """The history of a run of ``most`` exchanges, of one that diverged up to there."""

    def stopped(seen):
        lost = seen.row["objective"] > LOST * seen.history["objective"][0]
        return "lost" if lost else stop(seen.row) if stop else None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rivals for convex costs warn
        try:
            return consensus.solve(
                problem,
                network,
                solver,
                rounds=most,
                record_every=1,
                exchanges=most,
                start=start.astype(problem.dtype),
                callbacks=[stopped],
            ).history
        except consensus.DivergenceError as error:
            return error.result.history


def no_better(best, levels):
    """Stops a run when it has reached all levels, or can no longer reach another one in fewer exchanges than ``best``."""
    left = dict(enumerate(levels))

    def stop(row):
        for part in [part for part, level in left.items() if row["objective"] <= level]:
            del left[part]
        return None if any(row["exchanges"] <= best[part] for part in left) else "no better"

    return stop


def merits(found, key, outcome):
    """To the parts of the gap in exchanges; among runs that did not get there, the lower one is better."""
    return {f"{part:.0%}": (float(value), outcome.lowest) for part, value in zip(PARTS, outcome.exchanges, strict=True)}


def adaptive(case, most):
    """The outcome of AdaptiveNEXT, and the levels."""
    double, single, network, start = make(case)
    own = history_of(double, network, AdaptiveNEXT(), start, most)
    plain = history_of(single, network, rivals.reference(case), start, most)
    first = own["objective"][0]
    least = min(measured(run, [], most).lowest for run in (own, plain))
    levels = [least + part * (first - least) for part in PARTS]
    return measured(own, levels, most), levels


def tuned(case, families, levels, most, bar, *, quick):
    """All outcomes of the families, ``{key: {point: outcome}}``."""
    _, single, network, start = make(case)
    best = {key: np.full(len(PARTS), np.inf) for key in families}

    def run(points):
        found = {}
        for key, point in points:
            bar.set_postfix_str(f"{key[-1]}, {families[key].shown(point)}")
            solver = families[key].make(*point)
            history = history_of(single, network, solver, start, most, no_better(best[key], levels))
            found[key, point] = measured(history, levels, most)
            best[key] = np.minimum(best[key], found[key, point].exchanges)
        return found

    return tuning.tuned(run, families, merits, quick=quick)


def ratios(own, found, most):
    """Exchanges and bytes of AdaptiveNEXT over the fewest of all runs ``found``, (2, levels), and the names of those."""
    values, names = np.empty((2, len(PARTS))), []
    for row, what in enumerate(("exchanges", "bytes")):
        for part in range(len(PARTS)):
            counts = {key[-1]: min(_count(one, what, part, most) for one in runs.values()) for key, runs in found.items()}
            name = min(counts, key=counts.get)
            values[row, part] = _count(own, what, part, most)[1] / counts[name][1]
            names.append(name if np.isfinite(counts[name][0]) else "none")
    return values, names


def _count(outcome, what, part, most):
    """Return the amount needed, twice; or infinity and all of it, which is counted: a rival that gets there comes first."""
    needed = getattr(outcome, what)[part]
    everything = most if what == "exchanges" else outcome.sent
    return (needed, needed) if np.isfinite(needed) else (np.inf, everything)


def run(cases, *, quick=False):
    """``{title: table}``: ratios to the best float32 rival and to the best in few bits, and the grids."""
    most = QUICK if quick else EXCHANGES
    measures = [f"{what}, {part:.0%}" for what in ("exchanges", "bytes") for part in PARTS]
    tables = {
        "AdaptiveNEXT": Table({"case": "", "P": ".0f", **dict.fromkeys(measures, ".4g"), "bytes in all": ".3g"}),
        "Over the best rival that sends float32": Table({"case": "", **dict.fromkeys(measures, ".3f"), "best to 1%": ""}),
        "Over the best rival that sends 4 or 6 bits": Table({"case": "", **dict.fromkeys(measures, ".3f"), "best to 1%": ""}),
    }
    means = {title: [] for title in list(tables)[1:]}
    missed, everything, families = {title: np.zeros(len(measures)) for title in means}, {}, {}
    with tqdm(cases, disable=None) as bar:
        for case in bar:
            single = make(case)[1]
            own, levels = adaptive(case, most)
            tables["AdaptiveNEXT"].add(str(case), single.parameters, *own.exchanges, *own.bytes, own.sent)
            plain = {(str(case), name): family for name, family in rivals.plain(case, single).items()}
            done = tuned(case, plain, levels, most, bar, quick=quick)
            orders = {order: done[str(case), name] for name, order in rivals.ORDERS.items() if (str(case), name) in done}
            quicker = min(orders, key=lambda order: _least(orders[order]), default=None)
            bits = {(str(case), name): family for name, family in rivals.few_bits(case, single, quicker).items()}
            few = tuned(case, bits, levels, most, bar, quick=quick) if bits else {}
            families, everything = families | plain | bits, everything | done | few
            for title, found in zip(means, (done, few), strict=True):
                if found:
                    values, names = ratios(own, found, most)
                    means[title].append(values.ravel())
                    missed[title] += np.array(names) == "none"
                    tables[title].add(str(case), *values.ravel(), " / ".join(dict.fromkeys((names[len(PARTS) - 1], names[-1]))))
    for title, found in means.items():
        if found:
            tables[title].add("geometric mean", *np.exp(np.mean(np.log(found), axis=0)), "")
            tables[title].add("cases that all rivals missed", *missed[title].tolist(), "")
    return tables | {"Grids": tuning.grids(everything, families, merits, ("case", "rival"))}


def _least(runs):
    """The least merit to the last of the levels."""
    return min((outcome.exchanges[-1], outcome.lowest) for outcome in runs.values())
