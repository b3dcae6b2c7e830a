"""The history of a run."""

import hashlib
import logging
import os
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from consensus import _checks
from consensus._arrays.files import whole
from consensus._columns import check_name, check_value, fits, numbers, plain

if TYPE_CHECKING:
    import pandas

_SHOWN = 4  # columns in its text
_SEAL = b"# sha256 "  # how the line of a CSV file's checksum begins


class History(dict[str, np.ndarray]):
    """Columns by name, one entry a recorded round; row 0 is the start.

    ``history["objective"]`` is an array (rows,), or (rows, agents) for a quantity recorded for every agent. Columns of a
    run are listed at :func:`consensus.solve`. It grows by :meth:`append` alone.

    It is a mapping of names to columns: iteration, ``keys()`` and ``len`` agree. An index gives a copy of a column;
    ``values()``, ``items()`` and ``dict(history)`` give read-only arrays. In the tables of :meth:`to_csv` and :meth:`to_frame`
    a quantity that was recorded for every agent has a column for each: ``agent_objective_0``, ``agent_objective_1``, ..., or
    with their names ``agent_objective_Oslo``, ...

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

    # It is a dict because pandas.DataFrame takes no other mapping by its columns. The dict's own entries are views of buffers
    # with room to grow; the values as they were appended are kept beside them.

    def __init__(self, labels: tuple[Hashable, ...] | None = None) -> None:
        super().__init__()
        self.labels = labels
        self._columns: dict[str, list[Any]] = {}
        self._buffers: dict[str, np.ndarray] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._columns, self.labels)

    @property
    def rows(self) -> int:
        """Number of recorded rounds."""
        return len(next(iter(self._columns.values()), ()))

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
        if not row or (self._columns and row.keys() != self._columns.keys()):
            raise ValueError(f"a row must have the columns {list(self._columns) or 'of a run'}; got {list(row)}")
        for name, value in row.items():
            before = self._columns.get(name)
            if before is None:
                check_name(name)
            if not (before and type(value) is type(before[-1]) and plain(value)):  # these are right, and the most frequent
                check_value(name, value, before[0] if before else None)
        for name, value in row.items():
            if isinstance(value, np.ndarray):
                value = value.copy()  # the caller may go on working in place
                value.flags.writeable = False
            self._columns.setdefault(name, []).append(value)
            self._extend(name)

    def _extend(self, name: str) -> None:
        """Write the newest value into the column's array."""
        values, buffer = self._columns[name], self._buffers.get(name)
        rows, new = len(values), values[-1]
        if buffer is None or rows > len(buffer) or not fits(new, buffer.dtype):
            array = np.array(values)
            self._buffers[name] = buffer = np.empty((2 * rows, *array.shape[1:]), array.dtype)
            buffer[:rows] = array
        buffer[rows - 1] = new
        self._show(name, rows)

    def _show(self, name: str, rows: int) -> None:
        view = self._buffers[name][:rows]
        view.flags.writeable = False
        super().__setitem__(name, view)

    def last(self) -> dict[str, Any]:
        """Return the newest row; ``ValueError`` if there is none.

        Returns
        -------
        dict
            The quantities by name.
        """
        self._need_rows()
        return {name: column[-1] for name, column in self._columns.items()}

    def drop_last(self) -> None:
        """Remove the newest row; ``ValueError`` if there is none."""
        self._need_rows()
        for name, column in self._columns.items():
            column.pop()
            self._show(name, len(column))

    def _need_rows(self) -> None:
        if not self.rows:
            raise ValueError("the history has no rows yet")

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._columns)}")
        return super().__getitem__(name).copy()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # as dict.get
        return super().get(name, default) if name in self else default

    def copy(self) -> "History":
        return _restored(self._columns, self.labels)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raise ``TypeError``: a history grows by :meth:`append` alone.

        Parameters
        ----------
        *_, **__ : object
            Not used.
        """
        raise TypeError("a History grows by append(row) alone; dict(history) gives a dictionary to change")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse
    # A record of one run, not a dictionary of values: a dict has no hash.
    __eq__, __ne__, __hash__ = object.__eq__, object.__ne__, object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = list(self._columns)
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
    """Make a history from copies of these lists of values, up to the last complete row."""
    history, rows = History(labels), min(map(len, columns.values()), default=0)
    for name in columns:
        check_name(name)
    history._columns = {name: values[:rows] for name, values in columns.items()}
    for name, values in history._columns.items():
        history._buffers[name] = np.array(values)
        history._show(name, len(values))
    return history
