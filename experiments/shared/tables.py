"""Tables of results as CSV, Markdown and LaTeX (booktabs)."""

import functools
import math
import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from consensus import _extras

for package in ("jinja2", "tabulate"):  # by which pandas writes LaTeX and Markdown: missed before the runs, not after
    _extras.module(package, "this script", "studies")


class Spread(NamedTuple):
    """A quantity over repeats: the median, the smallest and the largest."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values):
        """The spread of ``values``: infinite ones, of repeats that never got there, are larger than all others."""
        values = np.array(list(values), dtype=float)
        return cls(*(float(part(values)) for part in (np.median, np.min, np.max)))  # one that is NaN makes all NaN


def last(outcomes, column, unit=1.0):
    """The spread over repeats of a column's last value, in a ``unit``; infinite in those that diverged."""
    return Spread.of(math.inf if outcome.diverged else outcome.history[column][-1] / unit for outcome in outcomes)


def own_objectives(outcomes, join):
    """U at the agents' own copies at the end, of which ``join`` makes one number; the spread over repeats.

    The mean of the copies, whose objective histories have, is a point that no agent holds.
    """
    ends = [[outcome.problem.objective(w) for w in outcome.w] for outcome in outcomes]
    return Spread.of(join(values) if values else math.inf for values in ends)


def of_first(column):
    """A column for :func:`ends`: the last value in the first repeat, a whole number that all repeats share."""
    return lambda outcomes: int(outcomes[0].history[column][-1])


OWN = {
    "agents' own, mean": (functools.partial(own_objectives, join=np.mean), ".3g"),
    "agents' own, worst": (functools.partial(own_objectives, join=np.max), ".3g"),
}
END = {"stationarity": ("stationarity", ".1e"), "disagreement": ("disagreement", ".1e"), "test error": ("test_error", ".3g")}


def ends(found, named, columns):
    """A table with a row for each curve, of what its repeats have at the end.

    ``found`` has the outcomes by curve, tuples of settings, whose formats are ``named``. ``columns`` are pairs by name: a
    column of the histories, or a function of the outcomes, and a format.
    """
    rows = Table(named | {name: form for name, (_, form) in columns.items()})
    for curve, outcomes in found.items():
        rows.add(*curve, *(what(outcomes) if callable(what) else last(outcomes, what) for what, _ in columns.values()))
    return rows


class Table:
    """Rows under named columns.

    CSV has the numbers in full, a spread as three columns; the others show them by the column's format, a spread as
    ``median [smallest, largest]``, a missing number as a dash and an infinite one as ``never``. Where there are spreads, all
    say over how many seeds.

    Parameters
    ----------
    formats : dict of str to str
        The columns' names, and how their numbers are shown, such as ``".3g"``; ``""`` for text.
    seeds : int
        Those of spreads.

    Examples
    --------
    >>> table = Table({"solver": "", "exchanges": ".0f", "gap, %": ".2g"}, seeds=3)
    >>> table.add("NEXT", Spread(20.0, 10.0, 25.0), 0.0123)
    >>> print(table.markdown(), end="")
    median [smallest, largest] of 3 seeds
    <BLANKLINE>
    | solver   |   exchanges |   gap, % |
    |:---------|------------:|---------:|
    | NEXT     | 20 [10, 25] |    0.012 |
    """

    def __init__(self, formats, seeds=1):
        self.formats, self.seeds, self.rows = formats, seeds, []

    def add(self, *cells):
        """Append a row: text, numbers, None or spreads, one for each column."""
        if len(cells) != len(self.formats):
            raise ValueError(f"a row needs {len(self.formats)} cells, one for each of {list(self.formats)}; got {cells}")
        self.rows.append(cells)

    @property
    def caption(self):
        """What spreads are; empty if there are none."""
        over = any(isinstance(cell, Spread) for row in self.rows for cell in row)
        return f"median [smallest, largest] of {self.seeds} seed{'s' * (self.seeds > 1)}" if over else ""

    def csv(self):
        columns = {}
        for name, cells in zip(self.formats, self._columns(), strict=True):
            cells = ["" if cell is None else cell for cell in cells]
            if any(isinstance(cell, Spread) for cell in cells):
                spreads = [cell if isinstance(cell, Spread) else (cell, cell, cell) for cell in cells]
                names = name, f"{name}, smallest", f"{name}, largest"
                columns |= dict(zip(names, zip(*spreads, strict=True), strict=True))
            else:
                columns[name] = cells
        if self.caption:
            columns["seeds"] = len(self.rows) * [self.seeds]
        return pd.DataFrame(columns, dtype=object).to_csv(index=False, na_rep="nan", lineterminator="\n")

    def markdown(self):
        frame = self._frame(lambda text: text.replace("|", r"\|"))
        align = ["left" if text else "right" for text in self._text()]
        text = frame.to_markdown(index=False, disable_numparse=True, colalign=align if len(frame) else None) + "\n"
        return f"{self.caption}\n\n{text}" if self.caption else text

    def latex(self):
        align = "".join("l" if text else "r" for text in self._text())
        text = self._frame(latex_text).style.hide(axis="index").to_latex(hrules=True, column_format=align)
        below = rf"\multicolumn{{{len(align)}}}{{l}}{{\footnotesize {self.caption}}} \\" + "\n" if self.caption else ""
        return text.replace("\\end{tabular}", rf"{below}\end{{tabular}}")

    def write(self, folder, name):
        """Write it to three files in ``folder``, called ``name`` with the formats' suffixes."""
        for suffix, text in (("csv", self.csv()), ("md", self.markdown()), ("tex", self.latex())):
            (folder / f"{name}.{suffix}").write_text(text)

    def _columns(self):
        return list(zip(*self.rows, strict=True)) or [() for _ in self.formats]

    def _text(self):
        """Return for each column whether it holds text."""
        return [not form for form in self.formats.values()]

    def _frame(self, escaped):
        rows = [
            [escaped(_show(cell, form)) for cell, form in zip(row, self.formats.values(), strict=True)] for row in self.rows
        ]
        return pd.DataFrame(rows, columns=[escaped(name) for name in self.formats], dtype=object)


def _show(cell, form):
    if isinstance(cell, Spread):
        middle, low, high = (_show(value, form) for value in cell)
        return middle if low == high else f"{middle} [{low}, {high}]"
    if isinstance(cell, str):
        return cell
    if cell is None or math.isnan(cell):
        return "–"
    return format(cell, form) if math.isfinite(cell) else "never"


_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "<": "$<$", ">": "$>$"}


def latex_text(text):
    """``text`` with LaTeX's own characters escaped, and powers of ten as such."""
    text = re.sub(r"[\\~^–<>]|[&%$#_{}]", lambda match: _SPECIAL.get(match[0], f"\\{match[0]}"), text)
    return re.sub(r"(\d(?:\.\d+)?)e([+-]\d+)", lambda match: rf"${match[1]} \times 10^{{{int(match[2])}}}$", text)
