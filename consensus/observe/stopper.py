"""When a run has done what was asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Stopper:
    """Stops at the first recorded round that reaches one of these bounds.

    Parameters
    ----------
    tolerance : float, optional
        For stationarity and disagreement, both.
    exchanges : int, optional
        At least so many were made.
    seconds : float, optional
        At least so many were spent in rounds.

    Examples
    --------
    >>> from consensus.observe.stopper import Stopper
    >>> Stopper(seconds=2.0).reason({"round": 40, "seconds": 2.1})
    'time budget of 2 s used up at round 40'
    """

    tolerance: float | None = None
    exchanges: int | None = None
    seconds: float | None = None

    def reason(self, row: Mapping[str, Any]) -> str | None:
        """Why to stop after this recorded ``row``, or None."""
        round = row["round"]
        if self.tolerance is not None and max(row["stationarity"], row["disagreement"]) <= self.tolerance:
            return f"stationarity and disagreement at most {self.tolerance:g} at round {round}"
        if self.exchanges is not None and row["exchanges"] >= self.exchanges:
            return f"{row['exchanges']} exchanges done at round {round}"
        if self.seconds is not None and row["seconds"] >= self.seconds:
            return f"time budget of {self.seconds:g} s used up at round {round}"
        return None
