"""Figures of several repeats: the geometric mean as a line, all repeats within a band."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogFormatterSciNotation, NullLocator

from consensus import plotting
from consensus.plotting.runs import keep_in_view

plt.rcParams["font.size"] = 8  # of figures that a page shows in about their own size
plt.rcParams["pdf.fonttype"] = 42  # TrueType: journals refuse Type 3 fonts
COUNTS = ("round", "exchanges")
POINTS = 500  # of a curve
ROOM = 0.5  # inches that figures have for their legend
LEGEND = {"frameon": False, "handlelength": 3}  # long enough for the dashes to show


class Plain(LogFormatterSciNotation):
    """0.3 instead of 3 x 10^-1 at the ticks of a logarithmic axis, where that is as short."""

    def __call__(self, value, position=None):
        text = super().__call__(value, position)
        return f"{value:g}" if text and 1e-2 <= value < 1e3 else text


def common(outcomes, y, x):
    """The column ``y`` of repeats against ``x`` on a grid that they share: geometric mean, "low" and "high".

    The grid has the recorded x up to the smallest last one, of more than POINTS about so many, closer at first; in between,
    values are interpolated. A repeat that diverged counts as infinite from there on.
    """
    ends = [outcome.history[x][-1] for outcome in outcomes if not outcome.diverged]
    grid = np.unique(np.concatenate([outcome.history[x] for outcome in outcomes]))
    grid = grid[grid <= min(ends, default=np.inf)]
    if len(grid) > POINTS:
        grid = grid[np.unique(np.geomspace(1, len(grid), POINTS).astype(int)) - 1]
    values = np.stack([np.interp(grid, outcome.history[x], outcome.history[y], right=np.inf) for outcome in outcomes])
    with np.errstate(divide="ignore"):  # the logarithm of zero: agents that agree
        mean = np.exp(np.log(values).mean(axis=0))
    return {x: grid, y: mean, "low": values.min(axis=0), "high": values.max(axis=0)}


def draw(ax, repeats, y, x="exchanges", *, log=(True, True)):
    """Draw curves, each the mean of its repeats in a band from the lowest to the highest; keys are in the legend.

    ``log`` says whether the axes of x and of y are logarithmic. The first then begins at one where it counts rounds or
    exchanges, a curve at its first record from there.
    """
    curves = {name: common(outcomes, y, x) for name, outcomes in repeats.items()}
    if log[0]:
        ax.set_xscale("log")
        curves = {name: {k: v[curve[x] > 0] for k, v in curve.items()} for name, curve in curves.items()}
    plotting.convergence(curves, y=y, x=x, ax=ax, log=log[1])
    for line, curve in zip(ax.get_lines(), curves.values(), strict=True):
        ax.fill_between(curve[x], curve["low"], curve["high"], color=line.get_color(), alpha=0.15, linewidth=0)
    keep_in_view(ax, [curve[part] for curve in curves.values() for part in (y, "high")])
    ax.get_legend().remove()
    if not log[0] or x in COUNTS:
        ax.set_xlim(left=1 if log[0] else 0)
    for axis, is_log in zip((ax.xaxis, ax.yaxis), log, strict=True):
        if is_log:
            plain(axis)
    if not ax.get_subplotspec().is_first_col():
        ax.set_ylabel("")
    return ax


def after_start(outcomes):
    """Without the start, which logarithmic axes would put far to the left."""
    return [outcome._replace(history={name: outcome.history[name][1:] for name in outcome.history}) for outcome in outcomes]


def plain(axis):
    """Numbers that are short in plain digits at the ticks of a logarithmic axis."""
    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain(minor_thresholds=(1, 0.4)))


def panels(count, columns=3, size=(2.6, 2.3), share=False):
    """A figure with ``count`` panels in rows of at most ``columns``, and room for :func:`legend`; and a list of their axes.

    ``share`` says which of them have the same y axis: False, True or "row".
    """
    columns = min(columns, count)
    rows = -(-count // columns)
    shape = (max(4.5, size[0] * columns), size[1] * rows + ROOM)
    figure, axes = plt.subplots(rows, columns, figsize=shape, layout="constrained", squeeze=False, sharey=share)
    for ax in axes.flat[count:]:
        ax.remove()
    return figure, list(axes.flat[:count])


def legend(figure, ax, columns=None):
    """One legend for all panels, above them, of the curves in ``ax``; in ``columns``, or fewer where they have no room."""
    handles, labels = ax.get_legend_handles_labels()
    fitted_legend(figure, handles, labels, columns or int(figure.get_figwidth() / 2.2))


def fitted_legend(figure, handles, labels, columns):
    """A legend above all panels, in at most so many columns as the figure is wide enough for; a tall one makes it higher."""
    for count in range(columns, 0, -1):
        made = figure.legend(handles, labels, loc="outside upper center", ncols=count, **LEGEND)
        box = made.get_window_extent()
        if count == 1 or box.width <= figure.bbox.width:
            break
        made.remove()
    figure.set_figheight(figure.get_figheight() + max(0.0, box.height / figure.dpi - ROOM))


def own_legend(ax, columns=2):
    """A legend of this panel alone, above its title."""
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.1), ncols=columns, **LEGEND)


def ticks(axis, values):
    """Only these numbers at the ticks of a logarithmic axis."""
    axis.set_ticks(values, [f"{value:,}" for value in values])
    axis.set_minor_locator(NullLocator())


def by_panel(found, quantity, columns, title, x="exchanges"):
    """A figure with a panel for each beginning of the keys, tuples, which ``title`` has, and a curve for each of their ends."""
    places = list(dict.fromkeys(key[:-1] for key in found))
    canvas, axes = panels(len(places), columns, share="row")
    for ax, place in zip(axes, places, strict=True):
        draw(ax, {key[-1]: done for key, done in found.items() if key[:-1] == place}, quantity, x)
        ax.set_title(title.format(*place))
    legend(canvas, axes[0])
    return canvas


def points(ax, x, y, name, index):
    """Draw the curve number ``index`` through points: x and y are numbers, or spreads of quantities over repeats."""
    (x, x_error), (y, y_error) = _errors(x), _errors(y)
    style = {"color": plotting.COLORS[index], "linestyle": plotting.DASHES[index], "marker": plotting.MARKERS[index]}
    ax.errorbar(x, y, y_error, x_error, label=name, markersize=4, elinewidth=0.7, **style)
    ax.grid(True, color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)


def _errors(spreads):
    middle, low, high = np.array([each if isinstance(each, tuple) else 3 * (each,) for each in spreads], dtype=float).T
    return middle, (middle - low, high - middle)
