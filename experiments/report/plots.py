"""The data of the report's plots: which curves there are, how they are named, and how a curve looks."""

import json
import math
from collections import defaultdict

import matplotlib

from consensus import plotting
from experiments.report.runs import AXES, QUANTITIES, tally

WIDTH = 1.6  # of lines in pixels, the unit of Matplotlib's dashes
SYMBOLS = {
    "o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down", "P": "cross", "X": "x", "*": "star",
}  # fmt: skip


def plot(runs, words):
    """What the page's script has plotly draw of the runs.

    A curve is every run with the same settings but for the seed. The settings that vary are the plot's ``dimensions``: the
    reader fixes one at a value or shows all; at the start those are fixed of which every value comes with the same of the
    others. Where one solver was tried with several settings, the curves with most repeats are shown first. Values come in the
    order of ``words``, the cells of the tables. Columns that runs share are kept once, numbers with six digits.
    """
    curves, columns = defaultdict(list), {}
    for run, settings in zip(runs, _told_apart(runs), strict=True):
        if not run.columns.keys().isdisjoint(QUANTITIES):
            curves[tuple(sorted((name, json.dumps(value)) for name, value in settings.items()))].append(run)
    order = {word: number for number, word in reversed(list(enumerate(words)))}
    known = {name: None for run in runs for name in run.settings} | {name: None for key in curves for name, _ in key}
    dimensions = []
    for name in known:
        values = {dict(key).get(name, "null") for key in curves}
        if len(values) > 1 or (name == "solver" and values > {"null"}):
            dimensions.append((name, sorted(values, key=lambda value: _rank(json.loads(value), order))))
    names = [name for name, _ in dimensions]
    places = {key: tuple(values.index(dict(key).get(name, "null")) for name, values in dimensions) for key in curves}
    fixed = _fixed(names, set(places.values()))
    kin = {
        key: tuple(place[i] for i, name in enumerate(names) if name in fixed or name == "solver")
        for key, place in places.items()
    }
    most = {part: max(len(curves[key]) for key in curves if kin[key] == part) for part in set(kin.values())}
    drawn = []
    for key in sorted(curves, key=lambda key: (len(curves[key]) < most[kin[key]], places[key])):
        repeats = [
            {
                "folder": run.folder,
                "diverged": run.reason.startswith("diverged"),
                "columns": {name: columns.setdefault(_numbers(column), len(columns)) for name, column in run.columns.items()},
            }
            for run in curves[key]
        ]
        drawn.append({"place": places[key], "shown": len(repeats) == most[kin[key]], "runs": repeats})
    there = {name for runs in curves.values() for run in runs for name in run.columns}
    return {
        "dimensions": [
            {"name": name, "values": [_word(name, json.loads(value)) for value in values], "fixed": name in fixed}
            for name, values in dimensions
        ],
        "curves": drawn,
        "columns": list(columns),
        "x": [name for name in AXES if name in there],
        "y": [name for name in QUANTITIES if name in there],
    }


def _told_apart(runs):
    """The settings of each run without the seed; with what else differs where runs have these and the seed in common."""
    curves = [{name: value for name, value in run.settings.items() if name != "seed"} for run in runs]
    alike, more = defaultdict(list), defaultdict(set)
    for run, settings in zip(runs, curves, strict=True):
        alike[json.dumps(settings), run.settings.get("seed")].append(run.config)
    for (key, _), configs in alike.items():
        more[key] |= {name for config in configs for name in config if len(tally(configs, name)) > 1}
    return [
        settings | {name: run.config.get(name) for name in sorted(more[json.dumps(settings)])}
        for run, settings in zip(runs, curves, strict=True)
    ]


def _fixed(names, places):
    """The dimensions that the page begins with one value of: the data set, and what is crossed with all others."""
    fixed = set()
    for i, name in enumerate(names):
        others = defaultdict(set)
        for place in places:
            others[place[i]].add(place[:i] + place[i + 1 :])
        if name == "dataset" or (name != "solver" and all(part == others[0] for part in others.values())):
            fixed.add(name)
    return fixed - set(names[-1:]) if len(fixed) == len(names) else fixed


def _rank(value, order):
    number = value if isinstance(value, int | float) else math.inf
    return order.get(str(value), len(order)), number, str(value)


def _word(name, value):
    return "" if value is None else value if isinstance(value, str) else f"{name} {json.dumps(value)}"


def _numbers(column):
    return tuple(None if not math.isfinite(v) else v if isinstance(v, int) else float(f"{v:.6g}") for v in column.tolist())


def look():
    """The colours, line styles and markers of :mod:`consensus.plotting` as plotly calls them."""
    named = {"-": (), "--": "lines.dashed_pattern", "-.": "lines.dashdot_pattern", ":": "lines.dotted_pattern"}
    patterns = [named[dash] if isinstance(dash, str) else dash[1] for dash in plotting.DASHES]
    lengths = [matplotlib.rcParams[pattern] if isinstance(pattern, str) else pattern for pattern in patterns]
    return {
        "colours": plotting.COLOURS,
        "dashes": [",".join(f"{WIDTH * length:.3g}px" for length in pattern) or "solid" for pattern in lengths],
        "symbols": [SYMBOLS[marker] for marker in plotting.MARKERS],
    }
