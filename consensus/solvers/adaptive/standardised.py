"""A warning of data on which networks train badly."""

import numpy as np

from consensus import _checks
from consensus._arrays.sparse import SparseRows
from consensus.data.shards import Shards

_FAR = 10.0  # standard deviations of features and targets that are far from one
_SMALL = 1e-3  # of features: smaller ones beside a bias of one take many rounds, and some 1e-5 do not move in hundreds
_BYTES = 1 << 24  # of samples that are copied at a time


def warn_if_not(shards: Shards, targets_too: bool) -> None:
    """Warn if features, or regression targets, are far from standardised."""
    real, far = shards.weights > 0, []
    for kind, values in [("feature", shards.features), ("target", shards.targets)][: 1 + targets_too]:
        if values.dtype.kind == "i" or isinstance(values, SparseRows):  # indices into a table; counts of words, which are rare
            continue
        means, spreads = _moments(values, real)
        odd = (spreads > _FAR) | (np.abs(means) > _FAR * np.maximum(spreads, 1.0))
        odd |= (spreads > 1e-12 * np.abs(means)) & (spreads < (1 / _FAR if kind == "target" else _SMALL))
        for place in map(tuple, np.argwhere(odd).tolist()):
            which = place if len(place) > 1 else place[0]  # of an image, channel, row and column
            far.append(f"{kind} {which} (mean {means[place]:.3g}, standard deviation {spreads[place]:.3g})")
    if far:
        shown = _checks.some(far, most=3)
        _checks.warn(
            f"data far from standardised: {shown}; networks train badly on them whatever the solver: "
            "consensus.datasets.split or scikit-learn's StandardScaler standardises"
        )


def _moments(values: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of the ``real`` samples, copied for a few agents at a time to save memory."""
    few = max(1, _BYTES // max(1, values[0].nbytes))
    blocks = [slice(first, first + few) for first in range(0, len(values), few)]
    count = np.count_nonzero(real)
    means = sum(values[rows][real[rows]].sum(axis=0, dtype=float) for rows in blocks) / count
    squares = sum(np.square(values[rows][real[rows]] - means).sum(axis=0) for rows in blocks)
    return means, np.sqrt(squares / count)
