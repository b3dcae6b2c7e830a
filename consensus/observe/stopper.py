"""Bounds at which a run stops."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consensus.observe.stop_rule import StopRule


@dataclass(frozen=True)
class Stopper:
    """Stops a run at the first recorded round that reaches one of these bounds.

    `tolerance` bounds stationarity and disagreement from above, `exchanges` and `seconds` in rounds from below; `rule` bounds
    any column.
    """

    tolerance: float | None = None
    exchanges: int | None = None
    seconds: float | None = None
    rule: StopRule | None = None

    def reason(self, row: Mapping[str, Any]) -> str | None:
        """Return the reason to stop after a recorded `row`, or None."""
        round = row["round"]
        if self.tolerance is not None and max(row["stationarity"], row["disagreement"]) <= self.tolerance:
            return f"stationarity and disagreement at most {self.tolerance:g} at round {round}"
        if self.exchanges is not None and row["exchanges"] >= self.exchanges:
            return f"{row['exchanges']} exchanges done at round {round}"
        if self.seconds is not None and row["seconds"] >= self.seconds:
            return f"time budget of {self.seconds:g} s used up at round {round}"
        return None if self.rule is None else self.rule.reason(row)
