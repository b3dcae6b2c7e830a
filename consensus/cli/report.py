"""A table and a figure that compare several runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from consensus import plotting
from consensus.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = {
    "objective": "objective",
    "stationarity": "stationarity",
    "disagreement": "disagreement",
    "test_error": "test error",
    "exchanges": "exchanges",
    "bytes": "megabytes sent",
    "seconds": "seconds",
}
FORMATS = {"exchanges": "{:d}".format, "bytes": lambda sent: f"{sent / 1e6:,.3f}", "seconds": "{:.2f}".format}


def table(histories: Mapping[str, History], ends: Mapping[str, str]) -> str:
    """Return the last rows of all runs, aligned; ``ends`` has the end of every solver's run, with or without a history."""
    rows = [["solver", *COLUMNS.values(), "ended"]]
    for name, end in ends.items():
        last = histories[name].last() if name in histories else {}
        cells = [FORMATS.get(column, "{:.3g}".format)(last[column]) if last else "-" for column in COLUMNS]
        rows.append([name, *cells, end])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{row[0]:<{widths[0]}}" + "".join(f"  {cell:>{w}}" for cell, w in zip(row[1:], widths[1:])) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def figure(histories: Mapping[str, History]) -> Figure:
    """Draw objective, stationarity and disagreement against exchanges."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(12.5, 4), layout="constrained")  # without pyplot, which would keep it, and ask for a screen
    axes = canvas.subplots(1, 3)
    for ax, quantity in zip(axes, ("objective", "stationarity", "disagreement"), strict=True):
        plotting.convergence(histories, y=quantity, x="exchanges", ax=ax)
        ax.get_legend().remove()
    canvas.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=min(4, len(histories)), frameon=False)
    return canvas
