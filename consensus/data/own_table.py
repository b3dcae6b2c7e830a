"""The table of one owner, as it is read there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from consensus import _checks
from consensus.data import readers, tables
from consensus.data.frames import Columns, as_frame, is_frame
from consensus.data.readers import Reading
from consensus.data.tables import Roles, Table

_SHOWN = 8  # names in a line


class Kinds(NamedTuple):
    """What others learn of an owner's columns."""

    target: tuple[str, ...]
    categories: list[str]  # columns
    classification: bool
    test_size: float | None
    others: list[str]  # columns that are neither features nor the target
    missing: str  # how missing cells are treated
    indicators: list[str]  # columns that have some, if that becomes a feature
    unknown: str  # how unknown categories are treated
    weighted: bool


@dataclass(frozen=True, eq=False)
class OwnTable:
    """An owner's table: what of it others learn first, and what stays.

    Parameters
    ----------
    names : tuple of str or None
        Names of all columns; None if the table cannot be read.
    table : Table or None
        The features and target, checked; None if the table is rejected.
    test_size : float or None
        The share of its rows that are test rows.
    error : Exception or None
        Why the table is rejected.
    """

    names: tuple[str, ...] | None
    table: Table | None = None
    test_size: float | None = None
    error: Exception | None = None

    @classmethod
    def of(cls, name: str, data: object, roles: Callable[[], Roles], reading: Reading, test_size: float | None) -> OwnTable:
        """Return what is in a table, the argument ``name``; an error is kept, so that other owners hear that there is one."""
        names = None
        try:
            settings, where, frame, read = roles(), name, as_frame(data), None
            if not is_frame(frame):
                path = _file(name, data)
                where, (frame, read) = str(path), tables.opened(path, settings, reading)
            names = tuple(map(str, frame.columns))
            table = tables.table_of(where, frame, settings, read)
            if test_size is not None and len(table.y) < 2:
                raise ValueError(f"{where} must have at least 2 rows, one of them for the test; got {len(table.y)}")
            return cls(names, table, test_size)
        except Exception as error:  # whatever reading a file raises
            return cls(names, error=error)

    @property
    def there(self) -> Table:
        """The table, which is not rejected."""
        assert self.table is not None, "owners of rejected tables have stopped"
        return self.table

    @property
    def columns(self) -> Columns:
        """The columns of the features."""
        assert self.there.columns is not None, "tables have columns"
        return self.there.columns

    @property
    def kinds(self) -> Kinds | None:
        """What others learn of its columns; None if the table is rejected."""
        if self.table is None:
            return None
        own, table = self.columns, self.table
        others = sorted({*own.others} - {*table.names})
        kinds = table.names, sorted(own.categories), table.classes is not None, self.test_size
        return Kinds(*kinds, others, own.missing, sorted(own.indicators), own.unknown, table.weights is not None)


def announced(table: OwnTable, owners: int, alone: bool) -> str:
    """Return what is said before anything is sent, of the first of the ``owners`` here, who are all if they are ``alone``."""
    one = f"{owners} owners agree in this process: nothing leaves it. On ranks each would send to all others, as the first one:"
    lines = [one if alone else "consensus.data.own sends to all other owners, who learn what each one sends:"]
    lines.append(f"  columns     names of columns: {_listed(table.names or ['none, as the table is rejected'])}")
    if table.kinds is None:
        return "\n".join([*lines, "  kinds       that the table is rejected, and nothing of what is in it"])
    kinds, target = table.kinds, _listed(table.kinds.target)
    what, categories, test_size = "classes" if kinds.classification else "numbers", kinds.categories, kinds.test_size
    lines.append(f"  kinds       categories are {_listed(categories) or 'none'}; the target is {target}, of {what}")
    if kinds.indicators:
        lines.append(f"  missing     columns with missing values: {_listed(kinds.indicators)}")
    for name in categories:
        lines.append(f"  categories  {name!r}: {_listed(table.columns.categories[name])}")
    if (classes := table.there.classes) is not None:
        lines.append(f"  classes     {target}: {_listed(classes)}")
    goal = "" if kinds.classification else ", and for the target"
    if kinds.missing == "mean":
        goal += ", and how many of each are there"
    if kinds.weighted:
        goal += ", and for the weights of rows"
    apart = "" if test_size is None else f", and how many of them are put aside for the test, about {test_size:.0%}"
    lines.append(f"  rows        number of rows: {len(table.there.y)}{apart}")
    lines.append(f"  sums        a sum over these rows for each number and each category{goal}")
    return "\n".join([*lines, "  squares     a sum of squared distances to the common mean for each of these"])


def _file(name: str, data: object) -> Path:
    """Return the file of a table."""
    if not isinstance(data, str | os.PathLike):
        raise TypeError(f"{name} must be a data frame, or the path of a file; got {_checks.shown(data)}")
    path = _checks.path(name, data)
    if readers.kind_of(path) not in readers.TABLES:
        raise ValueError(f"{name} must be a file that ends in {', '.join(readers.TABLES)}; got {str(path)!r}")
    if not path.exists():
        raise FileNotFoundError(f"{name} must be a file that exists; got {str(path)!r}")
    return path


def _listed(names: Iterable[object]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:_SHOWN]) + (f", ... ({len(shown)} in all)" if len(shown) > _SHOWN else "")
