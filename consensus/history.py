"""What a run recorded."""

import csv
from collections.abc import Mapping

import numpy as np


class History(Mapping):
    """Columns by name, one entry a recorded round; row 0 is the start.

    ``history["objective"]`` is an array (rows,), or (rows, agents) for a quantity recorded for every agent. Columns of a
    run are listed at :func:`consensus.solve`.

    Examples
    --------
    >>> history = History()
    >>> history.append({"round": 0, "objective": 2.5})
    >>> history.append({"round": 10, "objective": 0.5})
    >>> history["objective"]
    array([2.5, 0.5])
    >>> list(history), history.rows
    (['round', 'objective'], 2)
    """

    def __init__(self):
        self._columns = {}

    @property
    def rows(self):
        """Number of recorded rounds."""
        return len(next(iter(self._columns.values()), ()))

    def append(self, row):
        """Add a recorded round: a mapping with the same keys every time."""
        if self._columns and set(row) != set(self._columns):
            raise ValueError(f"a row must have the columns {list(self._columns)}; got {list(row)}")
        for name, value in row.items():
            kept = value.copy() if isinstance(value, np.ndarray) else value  # the caller may go on working in place
            self._columns.setdefault(name, []).append(kept)

    def last(self):
        """The newest row, a dictionary."""
        return {name: column[-1] for name, column in self._columns.items()}

    def drop_last(self):
        """Forget the newest row."""
        for column in self._columns.values():
            column.pop()

    def __getitem__(self, name):
        if name not in self._columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._columns)}")
        return np.array(self._columns[name])

    def __iter__(self):
        return iter(self._columns)

    def __len__(self):
        return len(self._columns)

    __eq__, __hash__ = object.__eq__, object.__hash__  # a record of one run, not a dictionary of values

    def __repr__(self):
        return f"History({self.rows} rows of {', '.join(self._columns)})"

    def to_csv(self, path):
        """Write a header and one line a row. Floats read back to the same bits; per-agent columns become name_0, ..."""
        arrays = {name: self[name].reshape(self.rows, -1) for name in self._columns}
        header = [
            name if np.ndim(self._columns[name][0]) == 0 else f"{name}_{agent}"
            for name, array in arrays.items()
            for agent in range(array.shape[1])
        ]
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            for row in range(self.rows):
                writer.writerow([value for array in arrays.values() for value in array[row].tolist()])

    @classmethod
    def from_csv(cls, path):
        """Read what :meth:`to_csv` wrote (per-agent columns stay separate)."""
        history = cls()
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                history.append({name: _number(text) for name, text in row.items()})
        return history


def _number(text):
    try:
        return int(text)
    except ValueError:
        return float(text)
