"""Results of the robustness experiment: the measures that choose settings, tables, the figure."""

import math

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from consensus import plotting
from experiments.shared.tables import Table

plt.rcParams["pdf.fonttype"] = 42  # TrueType: journals refuse Type 3 fonts

MARKS = (10, 20, 30, 50, 70, 100, 140, 200, 300, 400, 500, 600, 700, 800, 900, 1000)  # exchanges
SHOWN = (50, 200, 1000)  # of them in the tables
BYTES = tuple(round(10 ** (k / 2)) for k in range(10, 19))  # sent in the whole network
EQUAL = BYTES[2::2]  # of them in the table at equal bytes
MEASURES = (*SHOWN, *(f"{mark}_bytes" for mark in EQUAL))  # each is shown at the setting that is best by it
BLOWN_UP = 1e3  # what a run that diverged, or ended far above its start, counts as


def ratios(rows, mark):
    """Objective over L-BFGS's optimum at ``mark``, such as 200 (exchanges) or "100000_bytes", of every run."""
    values = np.array([row[f"at_{mark}"] / row["optimum"] for row in rows])
    return np.where(values < BLOWN_UP, values, BLOWN_UP)


def mean_ratio(rows, mark):
    """Its geometric mean."""
    return float(np.exp(np.log(ratios(rows, mark)).mean()))


def merits(found, key, rows):
    """``{measure: value}``, the less the better: what :func:`experiments.shared.tuning.tuned` chooses settings by."""
    return {mark: mean_ratio(rows, mark) for mark in MEASURES}


def summary(done, settings):
    """A row a solver: how far it is after so many exchanges, each at its best setting, and what went wrong at the last one's.

    ``done`` is ``{solver: {measure: rows}}``, ``settings`` has the setting's name for each last measure of exchanges.
    """
    names = {f"at {m}": ".2f" for m in SHOWN[:-1]} | {"at 1000": ".3f", "worst at 200": ".2f", "worst at 1000": ".2f"}
    table = Table(
        {"solver": "", "setting at 1000": "", **names, "ever above": ".0f", "ended above": ".0f", "runs": ".0f", "bytes": ".2e"}
    )
    for solver, rows in done.items():
        last = rows[SHOWN[-1]]
        means = [mean_ratio(rows[mark], mark) for mark in SHOWN]
        worst = [ratios(rows[mark], mark).max() for mark in SHOWN[1:]]
        above = [sum(not row[name] <= 1.05 * row["start"] for row in last) for name in ("highest", "end")]
        table.add(solver, settings[solver], *means, *worst, *above, len(last), float(np.median([row["bytes"] for row in last])))
    return table


def at_equal_bytes(done):
    """A row a solver: how far it is once so many bytes went, each at its best setting, and how many runs had ended before.

    Bytes are those of the whole network. Runs end at the last mark of exchanges, and count with their last objective.
    """
    names = {f"at {mark:.0e} bytes": ".2f" for mark in EQUAL} | {f"ended before {mark:.0e}": ".0%" for mark in EQUAL}
    table = Table({"solver": "", **names})
    for solver, rows in done.items():
        own = [(mark, rows[f"{mark}_bytes"]) for mark in EQUAL]
        means = [mean_ratio(some, f"{mark}_bytes") for mark, some in own]
        table.add(solver, *means, *(ended_before(some, mark) for mark, some in own))
    return table


def ended_before(rows, mark):
    """The part of the runs that had ended with fewer bytes, and did not diverge."""
    return float(np.mean([row["bytes"] < mark and math.isfinite(row[f"at_{mark}_bytes"]) for row in rows]))


def breakdown(rows):
    """AdaptiveNEXT's ``rows`` by data set, topology, agents and shards."""
    table = Table({"runs with": "", "at 50": ".2f", "at 200": ".2f", "at 1000": ".3f", "worst at 1000": ".2f", "runs": ".0f"})
    for name in ("dataset", "topology", "agents", "shards"):
        for value in sorted({row[name] for row in rows}):
            some = [row for row in rows if row[name] == value]
            shown = f"{value:.0f} agents" if name == "agents" else str(value).replace("_", " ")
            table.add(shown, *(mean_ratio(some, m) for m in SHOWN), ratios(some, 1000).max(), len(some))
    return table


def case_of(row):
    """The case of a run."""
    return row["dataset"], row["topology"], int(row["agents"]), row["shards"], int(row["seed"])


def figure(done):
    """Geometric means, with the runs' middle 80%, over exchanges and over bytes, and AdaptiveNEXT by topology.

    Curves are of the settings that are best at the middle mark. A curve over bytes ends where half of the runs had ended. The
    first legend serves the second part, too.
    """
    canvas, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained", sharey=True)
    for index, (solver, rows) in enumerate(done.items()):
        _curve(left, rows[SHOWN[1]], MARKS, MARKS, solver, index, band=True)
        own = rows[f"{EQUAL[1]}_bytes"]
        sent = [mark for mark in BYTES if ended_before(own, mark) <= 0.5]
        _curve(middle, own, sent, [f"{mark}_bytes" for mark in sent], solver, index, band=True)
    own = done["AdaptiveNEXT"][SHOWN[1]] if "AdaptiveNEXT" in done else []
    for index, topology in enumerate(sorted({row["topology"] for row in own})):
        some = [row for row in own if row["topology"] == topology]
        _curve(right, some, MARKS, MARKS, topology.replace("_", " "), index, band=False)
    titles = "all cases: geometric mean, middle 80%", "the same, at equal bytes", "AdaptiveNEXT by topology"
    for ax, title, across in zip((left, middle, right), titles, ("exchanges", "bytes", "exchanges"), strict=True):
        ax.set(xscale="log", yscale="log", xlabel=plotting.LABELS[across], title=title, ylim=(0.85, 40))
        ax.set_yticks([1, 2, 5, 10, 20], labels=["1", "2", "5", "10", "20"])
        ax.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
        ax.axhline(1, color="0.6", linewidth=0.8)
        ax.grid(True, color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
    left.legend(frameon=False)
    if own:
        right.legend(frameon=False)
    left.set_ylabel("objective over L-BFGS's optimum")
    return canvas


def _curve(ax, rows, across, marks, label, index, band):
    values = np.array([ratios(rows, mark) for mark in marks]).reshape(len(marks), len(rows))
    shape = (index + index // 5) % 5  # the colours that come a second time have other dashes and markers
    colour, dash = plotting.COLORS[index % 5], plotting.DASHES[shape]
    means = np.exp(np.log(values).mean(axis=1))
    ax.plot(across, means, linestyle=dash, color=colour, marker=plotting.MARKERS[shape], markersize=4, label=label)
    if band:
        ax.fill_between(across, *np.quantile(values, (0.1, 0.9), axis=1), color=colour, alpha=0.12, linewidth=0)
