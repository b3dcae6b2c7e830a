"""The best point of a run, by a column of its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float


class Best(NamedTuple):
    """The recorded round at which a column of the history was least, the first of several.

    Attributes
    ----------
    column : str
        The column.
    value : float
        Its value.
    round : int
        Number of rounds done.
    mean : ndarray (P,)
        Mean of the agents, or of the honest ones if some are Byzantine.
    """

    column: str
    value: float
    round: int
    mean: Float[np.ndarray, " P"]


def packed(best: Best | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what a file says about the best point, if there is one, and its arrays: see :mod:`consensus.storage`."""
    if best is None:
        return {}, {}
    return {"best": {"column": best.column, "value": best.value, "round": best.round}}, {"best.mean": best.mean}


def unpacked(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Best | None:
    """Return the best point in a file, if there is one."""
    return Best(**about["best"], mean=arrays["best.mean"]) if "best" in about else None
