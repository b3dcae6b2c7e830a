"""From data frames to a model's inputs, and from its outputs to predictions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.data import readers, tables
from consensus.data.frames import Classes, Columns, codes, is_frame

if TYPE_CHECKING:
    import pandas

Given: TypeAlias = "pandas.DataFrame | str | os.PathLike[str]"  # a data frame, or the file of one


@dataclass(frozen=True, eq=False)
class Pipeline:
    """How a table becomes the inputs of a model, and the model's outputs predictions in original units.

    Inputs are ``(x - mean) / scale``. Targets that are numbers become ``(y - shift) / spread``, classes their codes.

    Parameters
    ----------
    columns : Columns
        The columns of features, and their categories.
    target : str
        The column that is predicted.
    mean, scale : ndarray (features,)
        The scaler of the features.
    shift, spread : float
        The scaler of a target of numbers; 0 and 1 for classes.
    classes : tuple or None
        The C classes behind the codes 0 .. C - 1; None if the target is numbers.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from consensus.data import Columns, Pipeline
    >>> pipeline = Pipeline(Columns(("age",), {}), "days", np.array([40.0]), np.array([10.0]), shift=5.0, spread=2.0)
    >>> pipeline.transform(pd.DataFrame({"age": [30, 60]}))
    array([[-1.],
           [ 2.]])
    >>> pipeline.original(np.array([[-1.0], [2.0]]))
    array([3., 9.])
    """

    columns: Columns
    target: str
    mean: np.ndarray
    scale: np.ndarray
    shift: float = 0.0
    spread: float = 1.0
    classes: Classes | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Columns):
            raise TypeError(f"columns must be Columns, as Columns.of(frame) returns; got {_checks.shown(self.columns)}")
        if not isinstance(self.target, str):
            raise TypeError(f"target must be the name of a column; got {_checks.shown(self.target)}")
        features = (len(self.columns.features),)
        for name in ("mean", "scale"):
            numbers = _checks.floats(name, getattr(self, name))
            if numbers.shape != features or not np.isfinite(numbers).all() or (name == "scale" and (numbers <= 0).any()):
                wanted = f"{features[0]} finite numbers{' above 0' * (name == 'scale')}, one for each feature"
                raise ValueError(f"{name} must be {wanted}; got {_checks.shown(getattr(self, name))}")
            object.__setattr__(self, name, numbers)
        _checks.number("shift", self.shift)
        _checks.number("spread", self.spread, above=0)
        if self.classes is not None and (not isinstance(self.classes, tuple) or len(self.classes) < 2):
            raise ValueError(f"classes must be a tuple of at least 2 classes, or None; got {_checks.shown(self.classes)}")

    def transform(self, frame: Given) -> np.ndarray:
        """Return the model's inputs.

        Parameters
        ----------
        frame : pandas.DataFrame or path
            A table with these columns in any order, or its file. The target may be there, and is not read.

        Returns
        -------
        ndarray (samples, features)
            The inputs.

        Raises
        ------
        TypeError
            If it is neither a data frame nor a path.
        ValueError
            If a column is missing or unknown, is neither numbers nor categories, or has an unknown category.
        """
        table = self._table(frame)
        found = self.columns.transform(table.drop(columns=[name for name in table.columns if str(name) == self.target]))
        if not np.isfinite(found).all():
            row, place = np.argwhere(~np.isfinite(found))[0]
            raise ValueError(
                f"frame must have finite numbers; {self.columns.features[place]!r} is {found[row, place]} in row {row} (the "
                "first is 0)"
            )
        return np.asarray((found.astype(float, copy=False) - self.mean) / self.scale)

    def targets(self, frame: Given) -> np.ndarray:
        """Return the model's targets.

        Parameters
        ----------
        frame : pandas.DataFrame or path
            A table with the target.

        Returns
        -------
        ndarray (samples, 1)
            Standardised numbers, or codes of classes.

        Raises
        ------
        TypeError
            If it is neither a data frame nor a path.
        ValueError
            If there is no such column, or its values are no finite numbers, or none of the classes.
        """
        table = self._table(frame)
        where = [place for place, name in enumerate(table.columns) if str(name) == self.target]
        if len(where) != 1:
            raise ValueError(f"frame must have the column {self.target!r} once; it has {list(map(str, table.columns))}")
        column = table.iloc[:, where[0]]
        if self.classes is not None:
            texts = tuple(map(str, self.classes))
            return codes(f"column {self.target!r}", column.astype(object), texts)[:, None].astype(float)
        numbers = _checks.floats(f"column {self.target!r}", readers.values(column, isinstance(frame, str | os.PathLike)))
        if not np.isfinite(numbers).all():
            raise ValueError(f"column {self.target!r} must have finite numbers; got {numbers[~np.isfinite(numbers)][0]}")
        return np.asarray((numbers - self.shift) / self.spread)[:, None]

    def original(self, outputs: ArrayLike) -> np.ndarray:
        """Return predictions of numbers in original units.

        Parameters
        ----------
        outputs : array_like (samples, 1)
            A model's outputs.

        Returns
        -------
        ndarray (samples,)
            ``shift + spread outputs``.

        Raises
        ------
        ValueError
            If they have another shape.
        """
        numbers = _checks.floats("outputs", outputs)
        if numbers.ndim != 2 or numbers.shape[1] != 1:
            raise ValueError(f"outputs must have shape (samples, 1); got {numbers.shape}")
        return np.asarray(self.shift + self.spread * numbers[:, 0])

    def _table(self, frame: Any) -> pandas.DataFrame:  # noqa: ANN401  # frames of any library
        if is_frame(frame):
            return frame
        if not isinstance(frame, str | os.PathLike):
            raise TypeError(f"frame must be a data frame, or the path of a file; got {_checks.shown(frame)}")
        path = Path(frame).expanduser()
        table = tables.opened(path, words=bool(self.columns.categories))
        is_text, numbers = tables.is_text(path), {}
        for place, (name, column) in enumerate(table.items()):
            if str(name) in self.columns.names and str(name) not in self.columns.categories:
                numbers[place] = readers.values(column, is_text)
        for place, column in numbers.items():
            table.isetitem(place, column)
        return table
