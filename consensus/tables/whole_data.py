"""Data that are to be cut into training and test parts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.data.owners import numbered
from consensus.data.samples import features as samples_features
from consensus.data.samples import weights_of
from consensus.tables.dataset import Dataset, unpacked
from consensus.tables.frames import Columns, Labelled, Target, features_of, labels


class WholeData(NamedTuple):
    """The data to be cut."""

    X: np.ndarray
    y: np.ndarray
    classification: bool
    columns: Columns | None
    target: Target
    groups: np.ndarray | None
    weights: np.ndarray | None
    time: np.ndarray | None


def whole_data(
    X: ArrayLike | Dataset,
    y: ArrayLike | None,
    classification: bool | None,
    groups: ArrayLike | None,
    weights: ArrayLike | None = None,
    time: ArrayLike | None = None,
) -> WholeData:
    """Return data as arrays; raise ``ValueError`` if shapes disagree, or classes are said to be none."""
    X, y, groups, weights, time = unpacked(X, y, groups=groups, weights=weights, time=time)
    if classification is not None:
        _checks.flag("classification", classification)
    X, columns = features_of("X", X)
    X = samples_features("X", X)
    names = y.about.names if isinstance(y, Labelled) and isinstance(y.about, Target) else ()
    name = getattr(y, "name", None)
    names = names or ((name,) if isinstance(name, str) else ())
    y, classes = labels("y", y)
    if classes is not None and classification is False:
        raise ValueError(f"y has the classes {classes}: classification=False would take their codes for numbers")
    classification = classes is not None if classification is None else classification
    y = _checks.dense("y", y) if classification else _checks.array("y", y)
    if X.ndim != 2 or y.ndim not in (1, 2) or X.shape[0] != len(y):
        raise ValueError(
            f"X must have shape (samples, features), and y (samples,) or (samples, outputs); got {X.shape} and {y.shape}"
        )
    for name, array in (("X", X), ("y", y)):  # missing ones may be filled in
        numbers = np.asarray(array.data if sp.issparse(array) else array)
        largest = np.nanmax(np.abs(numbers), initial=0) if numbers.dtype.kind == "f" else 0
        if largest > np.finfo(float).max ** 0.5:
            raise ValueError(f"{name} must have numbers whose squares are finite; it has {largest:g}: take another unit")
    if groups is not None:
        numbered(groups, len(y))  # raises an error for invalid groups
        groups = np.asarray(groups)
    if weights is not None:
        weights = weights_of(weights, len(y), np.dtype(float), "weights")
    if time is not None:
        time = np.asarray(time)
        if time.shape != (len(y),) or time.dtype.kind not in "fiuMm" or np.isnan(time).any():
            raise ValueError(f"time must be {len(y)} numbers or dates, one for each row of X; got {_checks.shown(time)}")
    return WholeData(X, y, classification, columns, Target(names, classes), groups, weights, time)
