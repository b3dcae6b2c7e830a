"""Maps from tables to a model's inputs, and from its outputs to predictions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._arrays.sparse import scaled
from consensus.data.samples import features
from consensus.tables import looks, readers, svmlight
from consensus.tables.frames import Classes, Columns, Reading, as_frame, codes, filled, is_frame, listed, numbers_of
from consensus.tables.readers import ReadingOptions

if TYPE_CHECKING:
    import pandas

Given: TypeAlias = "pandas.DataFrame | str | os.PathLike[str]"  # a data frame, or the file of one


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Map from a table to the inputs of a model, and from the model's outputs to predictions in original units.

    Inputs are ``(x - mean) / scale``. Targets that are numbers become ``(y - shift) / spread``, classes their codes.

    Parameters
    ----------
    columns : Columns or None
        The columns of features, and their categories; None for data that are arrays (samples, features).
    mean, scale : ndarray (features,)
        The scaler of the features.
    target : str, tuple of str or None
        The column that is predicted, or several, if they have names.
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
    target: str | tuple[str, ...] | None = None
    shift: float | np.ndarray = 0.0
    spread: float | np.ndarray = 1.0
    classes: Classes | None = None

    def __post_init__(self) -> None:
        if self.columns is not None and not isinstance(self.columns, Columns):
            raise TypeError(
                f"columns must be Columns, as Columns.of(frame) returns, or None; got {_checks.shown(self.columns)}"
            )
        names = (self.target,) if isinstance(self.target, str | None) else self.target
        if not isinstance(names, tuple) or not all(isinstance(name, str | None) for name in names):
            raise TypeError(f"target must be the name of a column, a tuple of names, or None; got {_checks.shown(self.target)}")
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

    def transform(self, data: Given | ArrayLike, **reading: Unpack[ReadingOptions]) -> np.ndarray:
        """Return the model's inputs.

        Parameters
        ----------
        data : pandas.DataFrame, path or array_like (samples, features)
            A table with these columns in any order, or its file; the other columns of the training data may be there, and are
            not read. An array, of which a warning says that its columns are taken in order; with categories it must be a table.
        **reading
            How its file is read, if not as that of the training data: ``sep``, ``decimal`` and so on, as by
            :func:`consensus.datasets.load`.

        Returns
        -------
        ndarray (samples, features)
            The inputs.

        Raises
        ------
        TypeError
            If it is neither a data frame, a path nor an array.
        ValueError
            If a column is missing or unknown, is neither finite numbers nor categories, has an unknown category, or values that
            are missing and were in no row of the training data.
        """
        return self._inputs(self._table(data, reading))

    def targets(self, data: Given, **reading: Unpack[ReadingOptions]) -> np.ndarray:
        """Return the model's targets.

        Parameters
        ----------
        data : pandas.DataFrame or path
            A table with the target, or its file.
        **reading
            As for :meth:`transform`.

        Returns
        -------
        ndarray (samples, outputs)
            Standardised numbers, or codes of classes.

        Raises
        ------
        TypeError
            If it is neither a data frame nor a path.
        ValueError
            If there is no such column, or its values are no finite numbers, or none of the classes.
        """
        return self._targets(self._table(data, reading))

    def both(self, data: Given, **reading: Unpack[ReadingOptions]) -> tuple[np.ndarray, np.ndarray]:
        """Return the model's inputs and targets, of a table that is read once.

        Parameters
        ----------
        data : pandas.DataFrame or path
            As for :meth:`targets`.
        **reading
            As for :meth:`transform`.

        Returns
        -------
        tuple of ndarray
            Inputs (samples, features), and targets (samples, outputs).
        """
        table = self._table(data, reading)
        return self._inputs(table), self._targets(table)

    def _inputs(self, table: pandas.DataFrame | np.ndarray) -> np.ndarray:
        if sp.issparse(table):
            return cast(np.ndarray, self._sparse_inputs(table))  # which stands in for one
        names = [f"feature {place}" for place in range(len(self.mean))]
        if is_frame(table) and self.columns is not None:
            names = list(map(repr, self.columns.features))
            targets = (self.target,) if isinstance(self.target, str) else self.target or ()
            known = [str(name) not in targets or str(name) in self.columns.names for name in table.columns]
            found = self.columns.transform(table.loc[:, known], "data")
        else:
            found = _checks.floats("data", table)
            if found.ndim != 2 or found.shape[1] != len(self.mean):
                raise ValueError(f"data must have shape (samples, {len(self.mean)}); got {found.shape}")
        if not np.isfinite(found).all():
            row, place = np.argwhere(~np.isfinite(found))[0]
            raise ValueError(f"data must be finite; {names[place]} is {found[row, place]} in row {row} (the first is 0)")
        return np.asarray((found.astype(float, copy=False) - self.mean) / self.scale)

    def _sparse_inputs(self, table: Any) -> sp.csr_array:  # noqa: ANN401  # of any format of SciPy's
        found = features("data", table)
        if found.shape[1] != len(self.mean):
            raise ValueError(f"data must have shape (samples, {len(self.mean)}); got {found.shape}")
        if self.mean.any():
            raise TypeError(
                "data must be dense, as the training data were: their means are subtracted, which leaves no zeros. Pass "
                "data.toarray()"
            )
        if not np.isfinite(found.data).all():
            raise ValueError("data must be finite; some of its numbers are not")
        return scaled(found.astype(float), self.scale)

    def _targets(self, table: pandas.DataFrame | np.ndarray) -> np.ndarray:
        if self.target is None:
            raise ValueError("target must be the name of a column, so that it is found; this pipeline has none")
        if not is_frame(table):
            raise TypeError(f"data must be a data frame with the target {self.target!r}, or its file; got an array")
        names, found = list(map(str, table.columns)), []
        for target in (self.target,) if isinstance(self.target, str) else self.target:
            if names.count(target) != 1:
                raise ValueError(f"data must have the column {target!r} once; got the columns {names}")
            column = table.iloc[:, names.index(target)]
            if self.classes is not None:
                found.append(codes(f"column {target!r}", column.astype(object), self.classes, key=looks.label_of).astype(float))
                continue
            numbers = numbers_of(column)
            if numbers is None:
                raise ValueError(f"column {target!r} must have numbers, as in training; got {_checks.shown(column.iloc[0])}")
            if not np.isfinite(numbers).all():
                row = int(np.argmin(np.isfinite(numbers)))
                raise ValueError(
                    f"column {target!r} must have finite numbers; got {numbers[row]} in row {row} (the first is 0)"
                )
            found.append(numbers)
        return np.asarray((np.stack(found, axis=1) - self.shift) / self.spread)

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

    def _table(self, data: Any, reading: ReadingOptions) -> pandas.DataFrame | np.ndarray:  # noqa: ANN401  # of any library
        columns = self.columns
        data = as_frame(data)
        if not isinstance(data, str | os.PathLike):
            if reading:
                raise ValueError(f"{', '.join(reading)} say how a file is read, and go with no data frame or array")
            if columns is None or is_frame(data):
                return data
            if columns.categories or columns.indicators:
                raise TypeError(
                    f"data must be a data frame with the columns {list(columns.names)}, or its file; got {_checks.shown(data)}"
                )
            found = _checks.floats("data", data)
            if found.ndim == 2 and found.shape[1] == len(columns.names):
                _checks.warn(f"data have no names of columns: taken as {listed(columns.names)}, in this order")
            return found if columns.fill is None or found.ndim != 2 else filled(found, columns.fill)
        path = _checks.path("data", data)
        if columns is None:
            remedy = f": pass consensus.datasets.load({str(path)!r}, features={len(self.mean)}).X"
            raise TypeError(
                f"data must be an array, as the training data, which had no names of columns; got {str(path)!r}"
                f"{remedy if svmlight.is_svmlight(path) else ''}"
            )
        if not path.exists():
            raise FileNotFoundError(f"data must be a file that exists; got {str(path)!r}")
        how = Reading(**{**vars(columns.reading or Reading()), **reading})
        return readers.opened(path, how, list(columns.categories))[0]
