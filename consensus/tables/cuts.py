"""Splits of rows into training and test rows: by time, or by whole groups."""

from __future__ import annotations

import numpy as np


def later(time: np.ndarray, test_size: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows for training and for the test: the last share by ``time`` (samples,), its first moment whole."""
    count = len(time)
    first = np.sort(time)[count - min(max(1, round(test_size * count)), count - 1)]
    tested = time >= first
    if tested.all():
        raise ValueError(
            f"time must leave rows for training; the last {test_size:.0%} of rows begin at its first moment, {first}"
        )
    return np.flatnonzero(~tested), np.flatnonzero(tested)


def apart(groups: np.ndarray, test_size: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows for training and for the test: whole ``groups`` (samples,), drawn until they have the share of rows."""
    names, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise ValueError(f"groups must be at least 2, so that one is for the test; all rows are of {names.tolist()[0]!r}")
    order = rng.permutation(len(names))
    taken = 1 + int(np.searchsorted(np.cumsum(sizes[order]), test_size * len(groups)))
    tested = np.isin(group, order[: min(taken, len(names) - 1)])
    return np.flatnonzero(~tested), np.flatnonzero(tested)
