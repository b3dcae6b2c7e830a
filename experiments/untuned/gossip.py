"""Exchanges and bytes of AdaptiveNEXT over those of the best rival, each of them tuned case by case and measure by measure.

Measured is how many exchanges, and bytes in the whole network, it takes until the objective at the agents' mean is within a
part of the gap between the start's and the lowest that AdaptiveNEXT and one plain NEXT reach in as many exchanges as there are.
A run that never gets there is counted with all of these exchanges, and the bytes sent in them. All bytes of a rival
are those of its exchanges times the same number, so that the setting that is best by exchanges is best by bytes, too.
"""

import numpy as np
from tqdm import tqdm

from consensus.solvers import AdaptiveNEXT
from experiments.shared import tuning
from experiments.shared.tables import Table
from experiments.untuned import rivals
from experiments.untuned.cases import trained
from experiments.untuned.counting import exchanging, levels, measured

PARTS = (0.1, 0.03, 0.01)  # of the gap
EXCHANGES, QUICK = 1000, 60
LOST = 10.0  # times the start's objective: a run that gets there is stopped


def history_of(problem, network, solver, start, most, stop=None):
    """The history of a run of ``most`` exchanges, of one that is lost up to there."""

    def stopped(seen):
        lost = seen.row["objective"] > LOST * seen.history["objective"][0]
        return "lost" if lost else stop(seen.row) if stop else None

    return exchanging(problem, network, solver, start, most, stopped)[0]


def no_better(best, goals):
    """Stops a run when it has reached all levels, or can no longer reach another one in fewer exchanges than ``best``."""
    left = dict(enumerate(goals))

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
    double, single, network, start = trained(case)
    own = history_of(double, network, AdaptiveNEXT(), start, most)
    plain = history_of(single, network, rivals.reference(network), start, most)
    least = min(measured(run, [], most).lowest for run in (own, plain))
    goals = levels(own["objective"][0], least, PARTS)
    return measured(own, goals, most), goals


def tuned(case, families, goals, most, bar, *, quick):
    """All outcomes of the families, ``{key: {point: outcome}}``."""
    _, single, network, start = trained(case)
    best = {key: np.full(len(PARTS), np.inf) for key in families}

    def attempt(key, point):
        bar.set_postfix_str(f"{key[-1]}, {families[key].shown(point)}")
        history = history_of(single, network, families[key].make(*point), start, most, no_better(best[key], goals))
        found = measured(history, goals, most)
        best[key] = np.minimum(best[key], found.exchanges)
        return found

    return tuning.tuned(lambda points: {at: attempt(*at) for at in points}, families, merits, quick=quick)


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
            _, single, network, _ = trained(case)
            own, goals = adaptive(case, most)
            tables["AdaptiveNEXT"].add(str(case), single.parameters, *own.exchanges, *own.bytes, own.sent)
            plain = {(str(case), name): family for name, family in rivals.of_gossip(single, network).items()}
            done = tuned(case, plain, goals, most, bar, quick=quick)
            orders = {order: done[str(case), name] for name, order in rivals.ORDERS.items() if (str(case), name) in done}
            quicker = min(orders, key=lambda order: _least(orders[order]), default=None)
            bits = {
                (str(case), name): family for name, family in rivals.of_gossip_in_few_bits(single, network, quicker).items()
            }
            few = tuned(case, bits, goals, most, bar, quick=quick) if bits else {}
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
