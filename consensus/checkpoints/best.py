"""The best point of a run, by a column of its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

_ROWS = "best of agents"  # no name of a state's field

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
    w : ndarray (agents, P) or None
        The agents' models, if they have models of their own.
    """

    column: str
    value: float
    round: int
    mean: Float[np.ndarray, " P"]
    w: Float[np.ndarray, "agents P"] | None = None


def packed(best: Best | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what a file says about the best point, if there is one, and its arrays."""
    if best is None:
        return {}, {}
    rows = {} if best.w is None else {"best.w": best.w}
    return {"best": {"column": best.column, "value": best.value, "round": best.round}}, {"best.mean": best.mean, **rows}


def unpacked(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Best | None:
    """Return the best point in a file, if there is one."""
    return Best(**about["best"], mean=arrays["best.mean"], w=arrays.get("best.w")) if "best" in about else None


def with_state(fields: dict[str, Any], best: Best | None) -> tuple[dict[str, Any], Best | None]:
    """Return the fields of a checkpoint's state with the models of the best point, which are rows of agents, too."""
    if best is None or best.w is None:
        return fields, best
    return fields | {_ROWS: best.w}, best._replace(w=None)


def from_state(fields: dict[str, Any], best: Best | None) -> tuple[dict[str, Any], Best | None]:
    """Return what was given to :func:`with_state`."""
    if best is None or _ROWS not in fields:
        return fields, best
    return {name: value for name, value in fields.items() if name != _ROWS}, best._replace(w=fields[_ROWS])
