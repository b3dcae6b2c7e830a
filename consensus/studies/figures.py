"""Figures of a study."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from consensus._arrays.files import whole
from consensus._arrays.progress import in_notebook
from consensus.plotting.runs import COLORS, DASHES, convergence, keep_in_view, literal, new_axes
from consensus.studies.measure import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS, _SIZE, _ROOM = 3, (3.3, 2.9), 0.6  # panels in a row; inches of a panel, and for the legend
_POINTS = 400  # of a curve
_WIDE = 100  # largest over least x, beyond which it is logarithmic
_GAP = "part of the gap to the lowest"


def bands(
    cells: Sequence[Mapping[str, Sequence[Outcome]]], names: Sequence[str], column: str, x: str, log: bool, log_x: bool | None
) -> Figure:
    """Draw medians with bands between the quartiles, a panel for each case; x is logarithmic by default if it spans decades."""
    from matplotlib.figure import Figure

    log_x = _wide(cells, x) if log_x is None else log_x

    wide = min(_COLUMNS, len(cells))
    rows = -(-len(cells) // wide)
    figure = Figure(figsize=(max(6.4, _SIZE[0] * wide), _SIZE[1] * rows + _ROOM), layout="constrained")
    panels = figure.subplots(rows, wide, squeeze=False)
    for ax in panels.flat[len(cells) :]:
        ax.remove()
    order = list(dict.fromkeys(label for cell in cells for label in cell))
    legend: dict[str, Any] = {}
    for place, (ax, cell, name) in enumerate(zip(panels.flat, cells, names)):
        _panel(ax, {label: cell.get(label, ()) for label in order}, column, x, log, log_x)
        ax.set_title(literal(name), fontsize="medium")
        legend |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        if place % wide:
            ax.set_ylabel("")
        if column == "gap":
            ax.set_ylabel("" if place % wide else _GAP)
    if legend:
        figure.legend(
            legend.values(),
            legend,
            loc="outside upper center",
            ncols=min(len(legend), int(figure.get_figwidth() / 1.9)),
            frameon=False,
            handlelength=3,
        )
    return figure


def _wide(cells: Sequence[Mapping[str, Sequence[Outcome]]], x: str) -> bool:
    """Return whether the positive values of x span more than two decades in any case."""
    for cell in cells:
        columns = [run.history[x] for runs in cell.values() for run in runs if x in run.history]
        values = np.concatenate([np.empty(0), *columns])
        positive = values[np.isfinite(values) & (values > 0)]
        if len(positive) and positive.max() > _WIDE * positive.min():
            return True
    return False


def _panel(ax: Axes, solvers: Mapping[str, Sequence[Outcome]], column: str, x: str, log: bool, log_x: bool) -> None:
    lowest = _lowest(solvers) if column == "gap" else None
    curves: dict[str, dict[str, np.ndarray]] = {}
    for label, outcomes in solvers.items():
        runs = [outcome for outcome in outcomes if outcome.history.rows]
        for what, name in {"x": x, "column": "objective" if lowest is not None else column}.items():
            for outcome in runs:
                if name not in outcome.history:
                    columns = ", ".join(outcome.history)
                    raise ValueError(f"{what} must be a column of the histories, {columns}; {label!r} has no {name!r}")
                if outcome.history[name].ndim > 1:
                    raise ValueError(f"{what} must have one number a row; {name!r} has one for each agent")
                if what == "x" and np.any(np.diff(outcome.history[name]) < 0):
                    raise ValueError(f"x must be a column that never falls, such as 'exchanges'; {name!r} falls with {label!r}")
        curves[label] = _quartiles(runs, column, x, lowest) if runs else {x: np.empty(0), column: np.empty(0)}
    drawn = {label: {name: values[name] for name in (x, column)} for label, values in curves.items()}
    convergence(cast(Any, drawn), y=column, x=x, ax=ax, log=log, log_x=log_x)
    for line, curve in zip(ax.get_lines(), curves.values(), strict=True):
        if "low" in curve:
            there = curve[x] > (0 if log_x else -np.inf)  # from zero on a band would reach over decades without a row
            across, low, high = (curve[name][there] for name in (x, "low", "high"))
            ax.fill_between(across, low, high, color=line.get_color(), alpha=0.18, linewidth=0)
    keep_in_view(ax, [values for curve in curves.values() for name, values in curve.items() if name != x])
    if ax.get_legend():
        ax.get_legend().remove()  # type: ignore[union-attr]  # it is there


def _lowest(solvers: Mapping[str, Sequence[Outcome]]) -> dict[int, float]:
    """Return for each seed the lowest objective of any solver."""
    found: dict[int, float] = {}
    for run in (run for runs in solvers.values() for run in runs if run.history.rows):
        found[run.seed] = min(found.get(run.seed, np.inf), float(np.nanmin(run.history["objective"])))
    return found


def _quartiles(outcomes: Sequence[Outcome], column: str, x: str, lowest: Mapping[int, float] | None) -> dict[str, np.ndarray]:
    """Return the median of runs and their quartiles on a common grid of x, on which each run is interpolated."""
    ends = [float(outcome.history[x][-1]) for outcome in outcomes]
    grid = np.unique(np.concatenate([outcome.history[x] for outcome in outcomes]).astype(float))
    if len(grid) > _POINTS:
        grid = grid[np.unique(np.linspace(0, len(grid) - 1, _POINTS).astype(int))]
    values = []
    for outcome, end in zip(outcomes, ends, strict=True):
        heights = outcome.history["objective" if lowest is not None else column].astype(float)
        if lowest is not None:
            least = lowest[outcome.seed]
            heights = (heights - least) / (heights[0] - least)
        found = np.interp(grid, outcome.history[x], heights)
        values.append(np.where(outcome.failed & (grid > end), np.inf, found))
    ordered = np.sort(np.array(values), axis=0)
    low, middle, high = (_quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    return {x: grid, column: np.where(np.isfinite(middle), middle, np.nan), "low": low, "high": np.minimum(high, 1e300)}


def _quantile(ordered: np.ndarray, share: float) -> np.ndarray:
    place = share * (len(ordered) - 1)
    low, high = ordered[int(np.floor(place))], ordered[int(np.ceil(place))]
    part = place - np.floor(place)
    with np.errstate(invalid="ignore"):
        between = (1 - part) * low + part * high
    found: np.ndarray = np.where(low == high, low, between)
    return found


def profile(ratios: Mapping[str, np.ndarray], what: str, cases: int, seeds: int, ax: Axes | None) -> Axes:
    """Draw performance profiles."""
    ax = ax or new_axes((6.4, 4.0))
    finite = np.concatenate([values[np.isfinite(values)] for values in ratios.values()])
    most = 1.1 * max(2.0, float(finite.max(initial=1.0)))
    for index, (label, values) in enumerate(ratios.items()):
        reached = np.sort(values[np.isfinite(values)])
        shares = np.arange(1, len(reached) + 1) / len(values)
        across, heights = np.array([1.0, *reached, most]), np.array([0.0, *shares, shares[-1] if len(shares) else 0.0])
        dashes = DASHES[(index + index // len(COLORS)) % len(DASHES)]
        ax.step(across, heights, where="post", color=COLORS[index % len(COLORS)], linestyle=dashes, label=literal(label))
    ax.set(xscale="log", xlim=(1, most), ylim=(0, 1.03), xlabel=f"factor of the best: {what}")
    ax.set_ylabel(f"share of {cases * seeds} problems ({cases} case{'s' if cases > 1 else ''}, {seeds} seeds)")
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 1000, 10_000) if tick <= most]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()
    ax.grid(True, color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, handlelength=3)
    return ax


class Live:
    """A figure that is drawn again and again: in a notebook, in a window, or, where there is no screen, into a file."""

    def __init__(self, path: Path) -> None:
        self.path, self.last = path, 0.0
        self._display: Any = None

    def due(self, every: float) -> bool:
        """Return whether the last drawing is so many seconds ago."""
        return time.monotonic() - self.last >= every

    def show(self, draw: Callable[[], Figure]) -> None:
        """Draw."""
        figure = draw()
        if in_notebook():
            display = import_module("IPython.display").display

            if self._display is None:
                self._display = display(figure, display_id=True)
            else:
                self._display.update(figure)
        else:
            with whole(self.path) as file:
                figure.savefig(file, format="png", dpi=120)
            self._window()
        self.last = time.monotonic()

    def _window(self) -> None:
        """Show the file in a window, if there is a screen for one."""
        import matplotlib
        import matplotlib.pyplot as plt
        from matplotlib.backends.registry import BackendFilter, backend_registry

        if matplotlib.get_backend().lower() not in backend_registry.list_builtin(BackendFilter.INTERACTIVE):
            return
        picture = plt.imread(self.path)
        if self._display is None:
            self._display = plt.figure("study", figsize=(picture.shape[1] / 120, picture.shape[0] / 120))
        self._display.clear()
        ax = self._display.add_axes((0, 0, 1, 1))
        ax.imshow(picture)
        ax.axis("off")
        plt.pause(0.01)

    def wait(self, seconds: float) -> None:
        """Wait for so many seconds."""
        time.sleep(seconds)
