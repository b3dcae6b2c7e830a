"""The history of a run."""

import hashlib
import logging
import os
from collections.abc import Hashable, Iterator, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from consensus import _checks
from consensus._arrays.files import whole
from consensus._columns import check_name, check_value, numbers, plain

if TYPE_CHECKING:
    import pandas

_SHOWN = 4  # columns in its text
_SEAL = b"# sha256 "  # how the line of a CSV file's checksum begins


class History(Mapping[str, np.ndarray]):
    """Columns by name, one entry a recorded round; row 0 is the start.

    ``history["objective"]`` is an array (rows,), or (rows, agents) for a quantity recorded for every agent. Columns of a
    run are listed at :func:`consensus.solve`. It grows by :meth:`append` alone.

    It is a mapping of names to columns: iteration, ``keys()`` and ``len`` agree, and each column is a new array. In the tables
    of :meth:`to_csv` and :meth:`to_frame` a quantity that was recorded for every agent has a column for each:
    ``agent_objective_0``, ``agent_objective_1``, ..., or with their names ``agent_objective_Oslo``, ...

    Parameters
    ----------
    labels : tuple, optional
        The names of the agents whose quantities are recorded, if they have some.

    Examples
    --------
    >>> from consensus import History
    >>> history = History()
    >>> history.append({"round": 0, "objective": 2.5})
    >>> history.append({"round": 10, "objective": 0.5})
    >>> history["objective"]
    array([2.5, 0.5])
    >>> list(history), history.rows
    (['round', 'objective'], 2)
    """

    def __init__(self, labels: tuple[Hashable, ...] | None = None) -> None:
        self.labels = labels
        self._names: tuple[str, ...] = ()
        self._rows: list[tuple[Any, ...]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, ({name: list(values) for name, values in zip(self._names, zip(*self._rows))}, self.labels)

    @property
    def rows(self) -> int:
        """Number of recorded rounds."""
        return len(self._rows)

    def append(self, row: Mapping[str, float | np.ndarray]) -> None:
        """Add a recorded round.

        Parameters
        ----------
        row : mapping of str to float or ndarray (agents,)
            The quantities by name; the same names in every row. None begins with ``=``, ``+``, ``-`` or ``@``, by which
            spreadsheets know a formula.
        """
        if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
            raise TypeError(f"row must be a mapping of names to numbers, such as {{'round': 0}}; got {_checks.shown(row)}")
        names = self._names or tuple(row)
        if not row or row.keys() != set(names):
            raise ValueError(f"a row must have the columns {list(self._names) or 'of a run'}; got {list(row)}")
        before: tuple[Any, ...] = self._rows[-1] if self._rows else (None,) * len(names)
        values = []
        for name, last in zip(names, before, strict=True):
            value = row[name]
            if last is None:
                check_name(name)
            if not (type(value) is type(last) and plain(value)):  # these are right, and the most frequent
                check_value(name, value, last)
            if isinstance(value, np.ndarray):
                value = value.copy()  # the caller may go on working in place
                value.flags.writeable = False
            values.append(value)
        self._names = names
        self._rows.append(tuple(values))  # at once: ctrl-C finds whole rows

    def row(self, number: int) -> dict[str, Any]:
        """Return a row.

        Parameters
        ----------
        number : int
            From 0, the start; from the end if negative.

        Returns
        -------
        dict
            The quantities by name.

        Raises
        ------
        TypeError, ValueError
            If there is no row of that number.

        Examples
        --------
        >>> import consensus
        >>> history = consensus.History()
        >>> history.append({"round": 0, "objective": 2.5})
        >>> history.row(0)
        {'round': 0, 'objective': 2.5}
        """
        if not isinstance(number, Integral) or isinstance(number, bool):
            raise TypeError(f"number must be that of a row, 0 for the start, -1 for the newest; got {_checks.shown(number)}")
        if not self._rows:
            raise ValueError("the history has no rows yet")
        if not -self.rows <= number < self.rows:
            raise ValueError(
                f"number must be from {-self.rows} to {self.rows - 1}, as there are {self.rows} rows; got {number}"
            )
        return dict(zip(self._names, self._rows[number], strict=True))

    def last(self) -> dict[str, Any]:
        """Return the newest row; ``ValueError`` if there is none.

        Returns
        -------
        dict
            The quantities by name.
        """
        return self.row(-1)

    def drop_last(self) -> None:
        """Remove the newest row; ``ValueError`` if there is none."""
        self.row(-1)
        self._rows.pop()

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._names)}")
        place = self._names.index(name)
        return np.array([row[place] for row in self._rows])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._names

    def copy(self) -> "History":
        """Return a copy that grows by itself.

        Returns
        -------
        History
            With the same rows.
        """
        other = History(self.labels)
        other._names, other._rows = self._names, self._rows.copy()
        return other

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Raise ``TypeError``: pandas.DataFrame(history) and numpy.array(history) would take the names for data."""
        raise TypeError("a History has columns: take history.to_frame() for a pandas.DataFrame, history[name] for an array")

    # A record of one run, not a dictionary of values.
    __eq__, __hash__ = object.__eq__, object.__hash__

    def __repr__(self) -> str:
        names = self._names
        more = f", ... ({len(names)} columns)" if len(names) > _SHOWN else ""
        return f"History({self.rows} rows of {', '.join(names[:_SHOWN])}{more})"

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line with a checksum, a header and one line a row.

        Floats read back to the same bits; per-agent columns become name_0, ... The file is written as a whole: whenever the
        machine stops, there is the one from before or the new one. The first line, ``# sha256`` and the digest of all that
        follows, is a comment for other programs: ``pandas.read_csv(path, comment="#")``,
        ``numpy.genfromtxt(path, delimiter=",", names=True, skip_header=1)``.

        Parameters
        ----------
        path : path
            The file.
        """
        frame = self.to_frame()
        narrow = frame.columns[frame.dtypes == np.float32]  # written as the same numbers in float64
        table = frame.astype(dict.fromkeys(narrow, float)).to_csv(index=False, na_rep="nan", lineterminator="\r\n").encode()
        with whole(_checks.path("path", path)) as file:
            file.write(_seal(table) + table)

    def to_frame(self) -> "pandas.DataFrame":
        """Return a copy as a pandas DataFrame: one row per recorded round, the columns of :meth:`to_csv`.

        Returns
        -------
        pandas.DataFrame (rows, columns)
            The table.

        Examples
        --------
        >>> import numpy as np
        >>> from consensus import History
        >>> history = History()
        >>> history.append({"round": 0, "objective": 2.5, "agent_objective": np.array([2.0, 3.0])})
        >>> history.append({"round": 10, "objective": 0.5, "agent_objective": np.array([0.5, 0.5])})
        >>> history.to_frame()
           round  objective  agent_objective_0  agent_objective_1
        0      0        2.5                2.0                3.0
        1     10        0.5                0.5                0.5
        >>> int(history.to_frame().set_index("round")["objective"].idxmin())
        10
        """
        import pandas

        flat: dict[str, np.ndarray] = {}
        for name in self:
            several = np.ndim(self[name]) > 1
            flat |= {f"{name}_{agent}": part for agent, part in self.of_agents(name).items()} if several else {name: self[name]}
        return pandas.DataFrame(flat)

    def of_agents(self, column: str) -> dict[Hashable, np.ndarray]:
        """Return the values of each agent in a column, by the agents' names, or numbers where they have none.

        Parameters
        ----------
        column : str
            A column (rows, agents), such as ``"agent_objective"``.

        Returns
        -------
        dict of ndarray (rows,)
            One for each agent.

        Raises
        ------
        ValueError
            If it is no such column.

        Examples
        --------
        >>> import numpy as np, consensus
        >>> history = consensus.History(labels=("Oslo", "Rome"))
        >>> history.append({"round": 0, "agent_objective": np.array([2.0, 3.0])})
        >>> history.of_agents("agent_objective")
        {'Oslo': array([2.]), 'Rome': array([3.])}
        """
        values = np.asarray(self[column]) if isinstance(column, str) and column in self else np.empty(0)
        if values.ndim != 2:
            known = [name for name in self if np.ndim(self[name]) == 2]
            raise ValueError(f"column must have a number for each agent, one of {known}; got {_checks.shown(column)}")
        count = len(values.T)
        names = self.labels if self.labels is not None and len(self.labels) == count else range(count)
        return dict(zip(names, values.T, strict=True))

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str]) -> "History":
        """Read what :meth:`to_csv` wrote (per-agent columns stay separate).

        A table without the line of the checksum, as earlier versions wrote it, is read as it is, and the log says so.

        Parameters
        ----------
        path : path
            The file.

        Raises
        ------
        FileNotFoundError
        ValueError
            If the file is no such table, or has columns but no rows: the message says where. If it is not what was written.
        """
        table = _checks.path("path", path).read_bytes()
        if table.startswith(_SEAL):
            seal, end, table = table.partition(b"\n")
            if seal + end != _seal(table):
                raise ValueError(
                    f"{path} is damaged: its checksum is not that of its contents (if it was changed on purpose, remove line 1)"
                )
        else:
            logging.getLogger("consensus").warning("%s has no checksum: nobody can tell whether it is what was written", path)
        if table in (b"\n", b"\r\n"):  # a history without rows has no columns, but an empty line for them
            return cls()
        try:
            return _restored(numbers(table))
        except ValueError as error:  # of which text in no encoding is one
            raise ValueError(f"{path} is no history as to_csv writes it: {error}") from error


def _seal(table: bytes) -> bytes:
    """Return the first line of a file with this ``table``."""
    return _SEAL + hashlib.sha256(table).hexdigest().encode() + b"\r\n"


def _restored(columns: Mapping[str, list[Any]], labels: tuple[Hashable, ...] | None = None) -> History:
    """Make a history of these columns, up to the last complete row."""
    for name in columns:
        check_name(name)
    history = History(labels)
    history._names, history._rows = tuple(columns), list(zip(*columns.values()))
    return history
