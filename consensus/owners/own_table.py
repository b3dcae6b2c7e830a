"""The table of one owner, as it is read there."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from consensus import _checks
from consensus.tables import looks, readers, svmlight, tables
from consensus.tables.frames import Columns, Reading, as_frame, is_frame
from consensus.tables.svmlight import Counted
from consensus.tables.tables import Roles, Table

if TYPE_CHECKING:
    import pandas

_SHOWN = 8  # names in a line
_SEVERAL = 5  # texts, of which two rows each may be chance
_PREFIX = 20  # characters of a cell, of which messages may show a part,
_WORD = 4  # and those of a cell that is not in other words by chance


class Kinds(NamedTuple):
    """Facts about an owner's columns that the others learn."""

    target: tuple[str, ...]
    categories: list[str]  # columns
    classification: bool
    test_size: float | None
    others: list[str]  # columns that are neither features nor the target
    missing: str  # how missing cells are treated
    indicators: list[str]  # columns that have some, if that becomes a feature
    unknown: str  # how unknown categories are treated
    weighted: bool
    counted: Counted | None = None  # how features are counted in a file of svmlight

    def sent(self) -> tuple[object, ...]:
        """Return what a message has of these: plain values."""
        return (*self[:-1], *(self.counted or ()))

    @classmethod
    def received(cls, plain: Sequence[Any]) -> Self:
        """Return the kinds that another owner sent."""
        count = len(cls._fields) - 1
        return cls(*plain[:count])._replace(counted=Counted(*plain[count:]) if len(plain) > count else None)


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
    counted : Counted or None
        Numbering of the features in a file of svmlight; columns of X are the indices in the file.
    """

    names: tuple[str, ...] | None
    table: Table | None = None
    test_size: float | None = None
    error: Exception | None = None
    counted: Counted | None = None

    @classmethod
    def of(
        cls,
        name: str,
        data: object,
        roles: Callable[[], Roles],
        reading: Reading,
        test_size: float | None,
        discreet: bool = False,
    ) -> OwnTable:
        """Return what is in a table, the argument ``name``; an error is kept, so that other owners hear that there is one.

        It warns of categories that say too much. Errors of a ``discreet`` owner show no cell: others may read what it prints.
        """
        names, where, frame = None, name, None
        try:
            settings, frame, read = roles(), as_frame(data), None
            if svmlight.is_svmlight(data):
                where = str(data)
                table, counted = svmlight.read(_file(name, data), settings, reading)
                table = table._replace(columns=Columns((), {}), names=("target",))
                _check_rows(where, table, test_size)
                _warn_of_categories(where, table)
                return cls((), table, test_size, counted=counted)
            if not is_frame(frame):
                path = _file(name, data)
                where, (frame, read) = str(path), tables.opened(path, settings, reading)
            names = tuple(map(str, frame.columns))
            table = tables.table_of(where, frame, settings, read)
            _check_rows(where, table, test_size)
            _warn_of_categories(where, table)
            return cls(names, table, test_size)
        except Exception as error:  # whatever reading a file raises
            return cls(names, error=without_cells(error, where, frame) if discreet else error)

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
        """The facts about its columns that the others learn; None if the table is rejected."""
        if self.table is None:
            return None
        own, table = self.columns, self.table
        others = sorted({*own.others} - {*table.names})
        kinds = table.names, sorted(own.categories), table.classes is not None, self.test_size
        return Kinds(*kinds, others, own.missing, sorted(own.indicators), own.unknown, table.weights is not None, self.counted)


def announced(table: OwnTable, owners: int, alone: bool, names: Iterable[object] | None = None) -> str:
    """Return what is said before anything is sent, of the first of the ``owners`` here, who are all if they are ``alone``."""
    one = f"{owners} owners agree in this process: nothing leaves it. On ranks each would send to all others, as the first one:"
    lines = [one if alone else "consensus.data.own sends to all other owners, who learn what each one sends:"]
    if names is not None:
        lines.append(f"  names       names of owners: {_listed(names)}")
    lines.append(f"  columns     names of columns: {_listed(table.names or [_none(table)])}")
    if table.kinds is None:
        return "\n".join([*lines, "  kinds       that the table is rejected, and nothing of what is in it"])
    kinds, target = table.kinds, _listed(table.kinds.target)
    what, categories, test_size = "classes" if kinds.classification else "numbers", kinds.categories, kinds.test_size
    if kinds.counted is None:
        lines.append(f"  kinds       categories are {_listed(categories) or 'none'}; the target is {target}, of {what}")
    else:
        lines.append(f"  kinds       the largest index of a feature, and whether there is a feature 0; the target is {what}")
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
    each = "number and each category" if kinds.counted is None else "feature"
    lines.append(f"  sums        a sum over these rows for each {each}{goal}")
    return "\n".join([*lines, "  squares     a sum of squared distances to the common mean for each of these"])


def _none(table: OwnTable) -> str:
    return "none, as the table is rejected" if table.table is None else "none, as files of svmlight have none"


def _check_rows(where: str, table: Table, test_size: float | None) -> None:
    if test_size is not None and len(table.y) < 2:
        raise ValueError(f"{where} must have at least 2 rows, one of them for the test; got {len(table.y)}")


def _column(table: Table, name: str) -> pandas.Series:
    assert table.frame is not None, "tables with columns have a frame"
    return table.frame[name]


def _warn_of_categories(where: str, table: Table) -> None:
    """Warn of categories and classes of one row each, whose texts all other owners get."""
    assert table.columns is not None, "tables have columns"
    told = {f"the column {name!r} of {where}": _column(table, name) for name in table.columns.categories}
    remedies = {what: f"drop=[{name!r}] leaves it out" for what, name in zip(told, table.columns.categories, strict=True)}
    counted = {what: Counter(map(looks.text_of, cells.dropna())) for what, cells in told.items()}
    if table.classes is not None:
        what = f"the target of {where}"
        counted[what], remedies[what] = Counter(table.classes[code] for code in table.y), "take another target"
    for what, counts in counted.items():
        rows, alone = counts.total(), [text for text, count in counts.items() if count == 1]
        if 2 * len(alone) > rows or (len(counts) > _SEVERAL and 2 * len(counts) >= rows):
            _checks.warn(
                f"{what} nearly identifies rows: it has {len(counts)} different texts in {rows} rows, and consensus.data.own "
                f"sends each text to all other owners: {remedies[what]}, or give its rows a few common ones"
            )
        elif alone:
            _checks.warn(
                f"{what} has texts of one row each, {_listed(alone)}, and consensus.data.own sends them to all other owners: "
                f"give such rows a common one, such as 'other', or {remedies[what]}"
            )


def without_cells(error: Exception, where: str, frame: object) -> Exception:
    """Return the error of a table with dots for the texts of its cells: the owner looks at the columns and rows it names."""
    if isinstance(error, FileNotFoundError | TypeError):  # of arguments
        return error
    if is_frame(frame):
        message = str(error)
        columns = [column for _, column in frame.items() if column.dtype.kind not in "biuf"]
        cells = {str(cell) for column in columns for cell in column.unique()} - {*map(str, frame.columns)}
        for cell in sorted(cells, key=len, reverse=True):
            message = message.replace(repr(cell), "'...'")
        rest = message.replace(where, "")
        if not any(cell[:_PREFIX] in rest for cell in cells if len(cell) >= _WORD):
            return UserWarning(message) if isinstance(error, UserWarning) else ValueError(message)
    return ValueError(
        f"{where} is rejected, and this error shows no cell of it, as other owners may read what ranks print: "
        "consensus.data.own([...]) with this table alone, in a process without ranks, says why"
    )


def _file(name: str, data: object) -> Path:
    """Return the file of a table."""
    if not isinstance(data, str | os.PathLike):
        raise TypeError(f"{name} must be a data frame, or the path of a file; got {_checks.shown(data)}")
    path = _checks.path(name, data)
    if readers.kind_of(path) not in (known := (*readers.TABLES, *svmlight.SUFFIXES)):
        raise ValueError(f"{name} must be a file that ends in {', '.join(known)}; got {str(path)!r}")
    if not path.exists():
        raise FileNotFoundError(f"{name} must be a file that exists; got {str(path)!r}")
    return path


def _listed(names: Iterable[object]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:_SHOWN]) + (f", ... ({len(shown)} in all)" if len(shown) > _SHOWN else "")
