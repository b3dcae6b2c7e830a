"""The report's plots: which curves there are, how they are named, what they show of repeated runs, and how they look."""

import json
import math
from collections import Counter, defaultdict
from html import escape
from itertools import chain
from textwrap import wrap
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd

from consensus import _extras, plotting
from experiments.report.runs import AXES, QUANTITIES, tally

graph_objects = _extras.module("plotly.graph_objects", "this script", "experiments")
WIDTH = 1.6  # of lines in pixels, the unit of Matplotlib's dashes
BEYOND = 10  # times the highest value of the curves that stay in the frame: where the others are drawn
SYMBOLS = {
    "o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down", "P": "cross", "X": "x", "*": "star",
}  # fmt: skip
AXIS = {
    "type": "log",
    "tickformat": "~g",
    "gridcolor": "#e3e3e3",
    "linecolor": "#777",
    "mirror": True,
    "zeroline": False,
    "nticks": 7,
}
LAYOUT = {"template": "none", "height": 600, "hovermode": "x unified", "margin": {"l": 70, "r": 10, "t": 130, "b": 50}}


class Curve(NamedTuple):
    """Runs with the same settings but for the seed; ``view`` says with which others they are seen, ``shown`` if at first."""

    view: str
    name: str
    shown: bool
    runs: list

    @property
    def note(self):
        diverged = sum(run.reason.startswith("diverged") for run in self.runs)
        return f"{len(self.runs)} run{'s' * (len(self.runs) > 1)}" + f", {diverged} diverged" * (diverged > 0)


def plot(runs, words):
    """The figure of an experiment's runs; None where there is nothing to draw.

    The reader chooses the quantities of both axes and, where settings cross all others as the data sets do, their values.
    ``words``, the cells of the tables, have values of settings in the order in which they are to come.
    """
    drawn = curves(runs, words)
    if not drawn:
        return None
    tables, views = [points(curve.runs) for curve in drawn], list(dict.fromkeys(curve.view for curve in drawn))
    traces, number = [], Counter()
    for curve in drawn:
        line = look(number[curve.view])
        number[curve.view] += 1
        shared = {"legendgroup": f"{curve.view} {curve.name}"}
        band = {"mode": "none", "fill": "toself", "fillcolor": line["line"]["color"], "opacity": 0.14, "hoverinfo": "skip"}
        name = "<br>".join(escape(part, quote=False) for part in wrap(f"{curve.name} ({curve.note})", 36))
        values = "%{customdata[0]:.4~g} [%{customdata[1]:.4~g}, %{customdata[2]:.4~g}]"
        line |= {"mode": "lines+markers", "name": name, "hovertemplate": values}
        traces += [graph_objects.Scatter(showlegend=False, **band, **shared), graph_objects.Scatter(**line, **shared)]
    figure = graph_objects.Figure(traces, LAYOUT | {"xaxis": AXIS, "yaxis": AXIS | {"automargin": True}})
    menus = []
    for axis, names, make in (("y", QUANTITIES, _y), ("x", AXES, _x)):
        labels = {name: plotting.LABELS.get(name, name) for name in names if any(name in table for table in tables)}
        title = f"{axis}axis.title.text"
        menus.append([(label, make(drawn, tables, name), {title: label}) for name, label in labels.items()])
    visible = {view: [(curve.shown or "legendonly") if curve.view == view else False for curve in drawn] for view in views}
    menus += [[(view, {"visible": list(np.repeat(np.array(seen, object), 2))}, {}) for view, seen in visible.items()]]
    for choices in menus:
        _, data, title = choices[0]
        figure.update(layout={name.replace(".", "_"): text for name, text in title.items()})
        for name, columns in data.items():
            for trace, column in zip(figure.data, columns, strict=True):
                trace[name] = column
    return figure.update_layout(updatemenus=[*(_menu(*one) for one in enumerate(menus)), *map(_switch, "yx")])


def curves(runs, words):
    """The curves of the runs.

    Settings that vary name a curve; those that cross all others name its view. Where one solver was tried with several
    settings, those with most repeats are shown first, the others on demand.
    """
    found = defaultdict(list)
    for run, settings in zip(runs, _told_apart(runs), strict=True):
        if not run.columns.keys().isdisjoint(QUANTITIES):
            found[tuple(sorted((name, json.dumps(value)) for name, value in settings.items()))].append(run)
    order = {word: number for number, word in reversed(list(enumerate(words)))}
    known = {name: None for run in runs for name in run.settings} | {name: None for key in found for name, _ in key}
    dimensions = {}
    for name in known:
        values = {dict(key).get(name, "null") for key in found}
        if len(values) > 1 or (name == "solver" and values > {"null"}):
            dimensions[name] = sorted(values, key=lambda value: _rank(json.loads(value), order))
    places = {key: tuple(values.index(dict(key).get(name, "null")) for name, values in dimensions.items()) for key in found}
    fixed = _fixed(list(dimensions), set(places.values()))

    def words_of(key, wanted):
        words = (_word(name, json.loads(dict(key).get(name, "null"))) for name in dimensions if name in wanted)
        return ", ".join(filter(None, words))

    most = defaultdict(int)
    kin = {key: words_of(key, {*fixed, "solver"}) for key in found}
    for key, repeats in found.items():
        most[kin[key]] = max(most[kin[key]], len(repeats))
    drawn = []
    for key in sorted(found, key=places.__getitem__):
        view, name = words_of(key, fixed), words_of(key, dimensions.keys() - fixed)
        drawn.append(Curve(view, name or view or "all runs", len(found[key]) == most[kin[key]], found[key]))
    return sorted(drawn, key=lambda curve: not curve.shown)


def points(runs):
    """The median, the lowest and the highest of every column of the repeats ``runs``, by round.

    They go as far as all repeats that did not diverge; those that did count as infinite from there on.
    """
    tables = [pd.DataFrame(run.columns) for run in runs]
    tables = [table.set_index(table.get("round", table.index)) for table in tables]
    ended = [table.index.max() for table, run in zip(tables, runs, strict=True) if not run.reason.startswith("diverged")]
    rounds = np.unique(np.concatenate([table.index for table in tables]))
    rounds = rounds[rounds <= min(ended, default=math.inf)]
    parts = []
    for table in tables:
        part = table.reindex(np.union1d(table.index, rounds)).interpolate("index", limit_area="inside").loc[rounds]
        lost = part.index > table.index.max()
        parts.append(part.assign(**{name: part[name].mask(lost, math.inf) for name in QUANTITIES if name in part}))
    return pd.concat(parts).rename_axis("at").groupby("at").agg(["median", "min", "max"])


def highest(columns):
    """The highest value of the curves that stay in the frame; infinite if all do.

    Those that end a thousand times above their start and the others leave it.
    """
    sizes = [np.abs(column[np.isfinite(column) & (column != 0)]) for column in columns]
    sizes = [size for size in sizes if len(size)]
    usual = min(map(np.median, sizes), default=0.0)
    kept = [size.max() for size in sizes if size.max() <= 1e3 * max(size[0], usual) or size[-1] <= 1e-3 * size.max()]
    return max(kept) if 0 < len(kept) < len(sizes) else math.inf


def _x(drawn, tables, name):
    columns = [_column(table, name, "median") for table in tables]
    return {"x": list(chain.from_iterable((_numbers([*x, *x[::-1]]), _numbers(x)) for x in columns))}


def _y(drawn, tables, name):
    """The bands and the lines, within the frame, and the numbers that are shown at the pointer."""
    spreads = [[_column(table, name, part) for part in ("median", "min", "max")] for table in tables]
    found = {"y": [], "customdata": []}
    for curve, (middle, low, high) in zip(drawn, spreads, strict=True):
        together = [spread for other, spread in zip(drawn, spreads, strict=True) if other.view == curve.view and other.shown]
        top = BEYOND * highest([column for median, _, highs in together for column in (median, highs)])
        found["y"] += [_numbers(np.minimum(column, top)) for column in ([*high, *low[::-1]], middle)]
        found["customdata"] += [[], [_numbers(row) for row in np.transpose([middle, low, high])]]
    return found


def _column(table, name, part):
    return table[name, part].to_numpy(float) if name in table else np.full(len(table), np.nan)


def _menu(number, choices):
    buttons = [{"label": label, "method": "update", "args": [data, title]} for label, data, title in choices]
    place = {"x": 0, "xanchor": "left", "y": 1.02 + 0.09 * number, "yanchor": "bottom"}
    return {"buttons": buttons, "visible": len(choices) > 1, **place}


def _switch(axis):
    """A button that makes an axis linear, and logarithmic again."""
    kinds = [{f"{axis}axis.type": kind} for kind in ("linear", "log")]
    button = {"label": f"linear {axis}", "method": "relayout", "args": [kinds[0]], "args2": [kinds[1]]}
    place = {"x": 1.02 if axis == "y" else 1.14, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    return {"type": "buttons", "buttons": [button], "active": -1, **place}


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
    """Numbers as JSON has them, to six digits."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in column]


def look(index):
    """The colour, line style and marker of the figures' curve ``index``, as plotly calls them."""
    turn, colour = divmod(index, len(plotting.COLORS))
    named = {"-": (), "--": "lines.dashed_pattern", "-.": "lines.dashdot_pattern", ":": "lines.dotted_pattern"}
    dash = plotting.DASHES[(index + turn) % len(plotting.DASHES)]
    pattern = named[dash] if isinstance(dash, str) else dash[1]
    lengths = matplotlib.rcParams[pattern] if isinstance(pattern, str) else pattern
    dash = ",".join(f"{WIDTH * length:.3g}px" for length in lengths) or "solid"
    colour = plotting.COLORS[colour]
    marker = {"color": colour, "size": 7, "maxdisplayed": 8, "symbol": SYMBOLS[plotting.MARKERS[index % len(plotting.MARKERS)]]}
    return {"line": {"color": colour, "width": WIDTH, "dash": dash}, "marker": marker}
