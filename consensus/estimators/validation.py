"""Features and targets as scikit-learn checks them, and data frames with categories."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from consensus import _checks
from consensus.data import Columns
from consensus.data.owners import numbered
from consensus.data.samples import weights_of
from consensus.tables.frames import is_category, is_frame


def validated(
    estimator: BaseEstimator, X: ArrayLike, *y: ArrayLike, reset: bool = True, **options: bool
) -> tuple[np.ndarray, ...]:
    """Return ``X``, and ``y`` if given, as scikit-learn checks them; the estimator keeps the number and names of columns.

    A data frame with columns of ``category`` dtype gets a feature for every category, by the columns of the fit; ``reset`` says
    whether this is one. ``options`` are those of scikit-learn's ``validate_data``.
    """
    columns = None if reset else estimator.columns_
    frame: Any = X
    if reset and is_frame(X) and any(is_category(column) for _, column in frame.items()):
        columns = Columns.of(X, "X")
    if columns is None:
        checked = _checked(estimator, X, *y, reset=reset, **options)
    else:
        codes: Any = frame.copy() if is_frame(X) else columns.transform(X, "X")  # which rejects anything but a frame
        for name in frame.columns:
            if str(name) in columns.categories:  # scikit-learn sees a column of zeros
                codes[name] = np.zeros(len(frame))
        checked = _checked(estimator, codes, *y, reset=reset, **options)
        checked = (columns.transform(X, "X"), *checked[1:])
    estimator.columns_ = columns
    return checked


def _checked(estimator: BaseEstimator, *data: ArrayLike, **options: object) -> tuple[np.ndarray, ...]:
    options = {"dtype": np.float64} | options
    for name, values in zip("Xy", data, strict=False):
        if isinstance(values, np.ma.MaskedArray):  # scikit-learn takes what is under the mask
            _checks.dense(name, values)
        if name == "X" or "y_numeric" in options:
            _check_kind(name, values)
    try:
        try:
            from sklearn.utils.validation import validate_data
        except ImportError:  # a method before 1.6
            found = estimator._validate_data(*data, **options)
        else:
            found = validate_data(estimator, *data, **options)
    except (TypeError, ValueError):
        for name, values in zip("Xy", data, strict=False):
            _refuse(name, values, numbers=name == "X" or "y_numeric" in options)
        raise
    return found if isinstance(found, tuple) else (found,)


_KINDS = {  # of dtypes whose numbers, if NumPy makes some of them, are others than those that are meant
    "c": "Complex data not supported: {} must hold real numbers; give such, as np.real({}) and np.imag({}) are",
    "M": "{} must hold real numbers; got dates: give times since one of them, such as ({} - start) / np.timedelta64(1, 'D')",
    "m": "{} must hold real numbers; got lengths of time: give their number, such as {} / np.timedelta64(1, 'D')",
    "V": "{} must hold real numbers; got records: give a data frame, such as pandas.DataFrame(np.ravel({}))",
}


def _check_kind(name: str, values: Any) -> None:  # noqa: ANN401
    """Raise ``ValueError`` if an array, or a column of a data frame, holds no real numbers by its dtype."""
    if is_frame(values):
        parts = [(f"{name}[{column!r}]", part.dtype) for column, part in values.items()]
    else:
        try:
            found = values if hasattr(values, "dtype") else np.asarray(values)
        except ValueError:  # ragged, of which scikit-learn says more
            return
        parts = [(name, found.dtype)]
        if not found.ndim:
            return
        if found.dtype.kind == "O" and any(isinstance(value, complex) for value in np.ravel(found)):
            parts = [(name, np.dtype(complex))]
    for what, dtype in parts:
        if (kind := getattr(dtype, "kind", "")) in _KINDS:
            raise ValueError(_KINDS[kind].format(*[what] * 3))


def _refuse(name: str, values: ArrayLike, numbers: bool) -> None:
    """Raise an error that names the argument where scikit-learn's error does not."""
    found = _checks.dense(name, values)
    if values is not None and found.ndim == 0 and found.dtype.kind in "Oc":
        raise TypeError(f"{name} must be an array; got {_checks.shown(values)}")
    if numbers and found.dtype.kind in "OSU":
        if hasattr(values, "columns"):
            _checks.array(name, values)  # names the columns
        try:
            found.astype(float)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name} must hold real numbers: {error}") from error


def weighed(
    X: np.ndarray, y: np.ndarray, groups: ArrayLike | None, sample_weight: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, ArrayLike | None, np.ndarray | None]:
    """Return features, targets, groups and weights of the samples whose weight is above 0; all if there are no weights."""
    if sample_weight is None:
        return X, y, groups, None
    weights = weights_of(sample_weight, len(X), np.dtype(np.float64))
    there = weights > 0
    owners = None if groups is None else numbered(groups, len(X))[1][there]
    return X[there], y[there], owners, weights[there]
