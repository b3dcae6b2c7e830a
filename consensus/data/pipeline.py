"""From tables to a model's inputs, and from its outputs to predictions."""

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
    columns : Columns or None
        The columns of features, and their categories; None for data that are arrays (samples, features).
    mean, scale : ndarray (features,)
        The scaler of the features.
    target : str or None
        The column that is predicted, if it has a name.
    shift, spread : float, or ndarray (outputs,)
        The scaler of targets that are numbers; 0 and 1 for classes.
    classes : tuple or None
        The C classes behind the codes 0 .. C - 1; None if the target is numbers.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from consensus.data import Columns, Pipeline
    >>> pipeline = Pipeline(Columns(("age",), {}), np.array([40.0]), np.array([10.0]), "days", shift=5.0, spread=2.0)
    >>> pipeline.transform(pd.DataFrame({"age": [30, 60]}))
    array([[-1.],
           [ 2.]])
    >>> pipeline.original(np.array([[-1.0], [2.0]]))
    array([3., 9.])
    """

    columns: Columns | None
    mean: np.ndarray
    scale: np.ndarray
    target: str | None = None
    shift: float | np.ndarray = 0.0
    spread: float | np.ndarray = 1.0
    classes: Classes | None = None

    def __post_init__(self) -> None:
        if self.columns is not None and not isinstance(self.columns, Columns):
            raise TypeError(
                f"columns must be Columns, as Columns.of(frame) returns, or None; got {_checks.shown(self.columns)}"
            )
        if self.target is not None and not isinstance(self.target, str):
            raise TypeError(f"target must be the name of a column, or None; got {_checks.shown(self.target)}")
        for name in ("mean", "scale", "shift", "spread"):
            numbers = _checks.floats(name, getattr(self, name))
            positive = name in ("scale", "spread")
            fits = numbers.ndim < 2 and numbers.size > 0
            if name in ("mean", "scale"):
                fits = numbers.ndim == 1 and numbers.shape == (
                    (len(self.columns.features),) if self.columns else np.shape(self.mean)
                )
            if not fits or not np.isfinite(numbers).all() or (positive and (numbers <= 0).any()):
                each = "feature" if name in ("mean", "scale") else "output"
                wanted = f"finite numbers{' above 0' * positive}, one for each {each}"
                raise ValueError(f"{name} must be {wanted}; got {_checks.shown(getattr(self, name))}")
            object.__setattr__(self, name, numbers if numbers.ndim else float(numbers))
        if self.classes is not None and (not isinstance(self.classes, tuple) or len(self.classes) < 2):
            raise ValueError(f"classes must be a tuple of at least 2 classes, or None; got {_checks.shown(self.classes)}")

    def transform(self, data: Given | ArrayLike) -> np.ndarray:
        """Return the model's inputs.

        Parameters
        ----------
        data : pandas.DataFrame, path or array_like (samples, features)
            A table with these columns in any order, or its file; the target may be there, and is not read. An array if there
            are no columns.

        Returns
        -------
        ndarray (samples, features)
            The inputs.

        Raises
        ------
        TypeError
            If it is neither a data frame nor a path, although there are columns.
        ValueError
            If a column is missing or unknown, is neither finite numbers nor categories, or has an unknown category.
        """
        if self.columns is None:
            found, names = _checks.floats("data", data), [f"feature {place}" for place in range(len(self.mean))]
            if found.ndim != 2 or found.shape[1] != len(self.mean):
                raise ValueError(f"data must have shape (samples, {len(self.mean)}); got {found.shape}")
        else:
            table, names = self._table(data), list(map(repr, self.columns.features))
            known = [str(name) != self.target or self.target in self.columns.names for name in table.columns]
            found = self.columns.transform(table.loc[:, known], "data")
        if not np.isfinite(found).all():
            row, place = np.argwhere(~np.isfinite(found))[0]
            raise ValueError(f"data must be finite; {names[place]} is {found[row, place]} in row {row} (the first is 0)")
        return np.asarray((found.astype(float, copy=False) - self.mean) / self.scale)

    def targets(self, data: Given) -> np.ndarray:
        """Return the model's targets.

        Parameters
        ----------
        data : pandas.DataFrame or path
            A table with the target, or its file.

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
        if self.target is None:
            raise ValueError("target must be the name of a column, so that it is found; this pipeline has none")
        table = self._table(data)
        where = [place for place, name in enumerate(table.columns) if str(name) == self.target]
        if len(where) != 1:
            raise ValueError(f"data must have the column {self.target!r} once; got the columns {list(map(str, table.columns))}")
        column = table.iloc[:, where[0]]
        if self.classes is not None:
            texts = tuple(map(str, self.classes))
            return codes(f"column {self.target!r}", column.astype(object), texts)[:, None].astype(float)
        numbers = _checks.floats(f"column {self.target!r}", readers.values(column, isinstance(data, str | os.PathLike)))
        if not np.isfinite(numbers).all():
            raise ValueError(f"column {self.target!r} must have finite numbers; got {numbers[~np.isfinite(numbers)][0]}")
        return np.asarray((numbers - self.shift) / self.spread)[:, None]

    def original(self, outputs: ArrayLike) -> np.ndarray:
        """Return predictions of numbers in original units.

        Parameters
        ----------
        outputs : array_like (samples, outputs)
            A model's outputs.

        Returns
        -------
        ndarray (samples,) or (samples, outputs)
            ``shift + spread outputs``; the first shape for one output.

        Raises
        ------
        ValueError
            If they have another shape.
        """
        numbers = _checks.floats("outputs", outputs)
        count = max(np.size(self.shift), np.size(self.spread))
        if numbers.ndim != 2 or (count > 1 and numbers.shape[1] != count):
            raise ValueError(f"outputs must have shape (samples, {count if count > 1 else 'outputs'}); got {numbers.shape}")
        found = np.asarray(self.shift + self.spread * numbers)
        return found[:, 0] if found.shape[1] == 1 else found

    def _table(self, data: Any) -> pandas.DataFrame:  # noqa: ANN401  # frames of any library
        if is_frame(data):
            return data
        names = self.columns.names if self.columns else ()
        if not isinstance(data, str | os.PathLike):
            raise TypeError(f"data must be a data frame with the columns {list(names)}, or its file; got {_checks.shown(data)}")
        path = Path(data).expanduser()
        categories = self.columns.categories if self.columns else {}
        table = tables.opened(path, words=bool(categories))
        for place, name in enumerate(map(str, table.columns)):
            if name in names and name not in categories:
                table.isetitem(place, readers.values(table.iloc[:, place], tables.is_text(path)))
        return table
