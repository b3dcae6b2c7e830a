"""The table of one owner, as it is read there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from consensus import _checks
from consensus.data import tables
from consensus.data.frames import Classes, Columns, is_category, is_frame

if TYPE_CHECKING:
    import pandas

_SHOWN = 8  # names in a line
Kinds: TypeAlias = tuple[str, list[str], bool, float | None]  # target, categories, whether it is classes, share of test rows


@dataclass(frozen=True, eq=False)
class OwnTable:
    """An owner's table: what of it others learn first, and what stays.

    Parameters
    ----------
    names : tuple of str or None
        Names of all columns; None if the table cannot be read.
    target : str
        The name of the target.
    categories : dict of str to tuple of str
        The categories of each column that has some.
    classes : tuple or None
        The classes of the target; None if it is numbers.
    features : pandas.DataFrame
        The columns of features, checked.
    y : ndarray (samples,)
        The target as numbers, or codes of ``classes``.
    test_size : float or None
        The share of its rows that are test rows.
    error : Exception or None
        Why the table is rejected.
    """

    names: tuple[str, ...] | None
    target: str = ""
    categories: dict[str, tuple[str, ...]] | None = None
    classes: Classes | None = None
    features: pandas.DataFrame = None  # of a table that is rejected there is none
    y: np.ndarray = None  # type: ignore[assignment]
    test_size: float | None = None
    error: Exception | None = None

    @classmethod
    def of(
        cls,
        name: str,
        table: object,
        target: str | int,
        categories: Sequence[str | int],
        classification: bool | None,
        test_size: float | None,
    ) -> OwnTable:
        """Return what is in a table, the argument ``name``; an error is kept, so that other owners hear that there is one."""
        names = None
        try:
            if not isinstance(categories, list | tuple):
                raise TypeError(f"categories must be a list of columns, by name or index; got {_checks.shown(categories)}")
            where, frame, words = _opened(name, table, bool(categories))
            names = tuple(map(str, frame.columns))
            if len(set(names)) < len(names):
                raise ValueError(f"columns of {where} must have names of their own; got {_listed(names)}")
            columns, label, y, features = tables.parts(where, frame, target, categories, words)
            goal = columns[tables.position_of(where, "target", columns, target)]
            if len(features) == 0:
                raise ValueError(f"{where} has no features besides the target")
            checked = tables.checked_frame(where, columns, features)
            if classification is None and is_category(frame[goal]):
                classification = True
            y, classes = tables.target_of(where, label, y, classification)
            found = Columns.of(checked, str(where))
            assert found is not None, "it is a data frame"
            if test_size is not None and len(y) < 2:
                raise ValueError(f"{where} must have at least 2 rows, one of them for the test; got {len(y)}")
            return cls(names, str(goal), found.categories, classes, checked, y, test_size)
        except Exception as error:  # whatever reading a file raises
            return cls(names, error=error)

    @property
    def kinds(self) -> Kinds | None:
        """What others learn of its columns; None if the table is rejected."""
        if self.categories is None:
            return None
        return self.target, sorted(self.categories), self.classes is not None, self.test_size


def announced(table: OwnTable, owners: int, alone: bool) -> str:
    """Return what is said before anything is sent, of the first of the ``owners`` here, who are all if they are ``alone``."""
    one = f"{owners} owners agree in this process: nothing leaves it. On ranks each would send to all others, as the first one:"
    lines = [one if alone else "consensus.data.own sends to all other owners, who learn what each one sends:"]
    lines.append(f"  columns     names of columns: {_listed(table.names or ['none, as the table is rejected'])}")
    if table.kinds is None:
        return "\n".join([*lines, "  kinds       that the table is rejected, and nothing of what is in it"])
    target, categories, classification, test_size = table.kinds
    what = "classes" if classification else "numbers"
    lines.append(f"  kinds       categories are {_listed(categories) or 'none'}; the target is {target!r}, of {what}")
    for name in categories:
        assert table.categories is not None, "there are some"
        lines.append(f"  categories  {name!r}: {_listed(table.categories[name])}")
    if table.classes is not None:
        lines.append(f"  classes     {target!r}: {_listed(table.classes)}")
    goal = "" if classification else ", and for the target"
    apart = "" if test_size is None else f", and how many of them are put aside for the test, about {test_size:.0%}"
    lines.append(f"  rows        number of rows: {len(table.y)}{apart}")
    lines.append(f"  sums        a sum over these rows for each number and each category{goal}")
    return "\n".join([*lines, "  squares     a sum of squared distances to the common mean for each of these"])


def _opened(name: str, table: object, categories: bool) -> tuple[Path | str, pandas.DataFrame, bool]:
    """Return what a table is called, the table, and whether its text may be numbers."""
    if is_frame(table):
        if not len(table):
            raise ValueError(f"{name} has no rows")
        return name, table, False
    if not isinstance(table, str | os.PathLike):
        raise TypeError(f"{name} must be a data frame, or the path of a file; got {_checks.shown(table)}")
    path = Path(table).expanduser()
    if path.suffix.lower() not in (".csv", ".tsv", ".parquet"):
        raise ValueError(f"{name} must be a file that ends in .csv, .tsv or .parquet; got {str(path)!r}")
    if not path.exists():
        raise FileNotFoundError(f"{name} must be a file that exists; got {str(path)!r}")
    return path, tables.opened(path, categories), tables.is_text(path)


def _listed(names: Iterable[object]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:_SHOWN]) + (f", ... ({len(shown)} in all)" if len(shown) > _SHOWN else "")
