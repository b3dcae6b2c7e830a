"""Data that are to be cut into training and test parts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.data.frames import Classes, Columns, labels
from consensus.data.owners import numbered


class WholeData(NamedTuple):
    """The data to be cut."""

    X: np.ndarray
    y: np.ndarray
    classification: bool
    columns: Columns | None
    classes: Classes | None
    groups: np.ndarray | None


def whole_data(X: ArrayLike, y: ArrayLike, classification: bool, groups: ArrayLike | None) -> WholeData:
    """Return data as arrays; raise ``ValueError`` if shapes disagree or classes are not said to be some."""
    classification, columns = _checks.flag("classification", classification), Columns.of(X, "X")
    X = _checks.array("X", X) if columns is None else columns.transform(X, "X")
    y, classes = labels("y", y)
    if classes is not None and not classification:
        raise ValueError(f"y has the categories {classes}: pass classification=True; got {classification}")
    y = _checks.dense("y", y) if classification else _checks.array("y", y)
    if X.ndim != 2 or y.ndim not in (1, 2) or len(X) != len(y):
        raise ValueError(
            f"X must have shape (samples, features), and y (samples,) or (samples, outputs); got {X.shape} and {y.shape}"
        )
    if groups is not None:
        numbered(groups, len(X))  # raises an error for invalid groups
        groups = np.asarray(groups)
    return WholeData(X, y, classification, columns, classes, groups)
