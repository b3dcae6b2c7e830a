"""Stop rules as text, such as ``"test_error <= 0.08"``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from consensus import _checks

_TEXT = re.compile(r"\s*([^\W\d]\w*)\s*(<=|>=|<|>)\s*(\S+)\s*")


@dataclass(frozen=True)
class StopRule:
    """A ``column`` of the history, a ``sign`` and a ``bound``: a run stops at the first recorded round where it holds.

    The text is taken apart by :meth:`parse`, and is never evaluated.
    """

    column: str
    sign: str
    bound: float

    signs: ClassVar[Mapping[str, Callable[[float, float], bool]]] = {
        "<=": operator.le,
        ">=": operator.ge,
        "<": operator.lt,
        ">": operator.gt,
    }

    @classmethod
    def parse(cls, text: object) -> StopRule:
        """Return the rule of a text; raise ``ValueError`` if it is not a column, a sign and a number."""
        wanted = "stop must be a column of the history, one of <=, >=, < and >, and a number, as 'test_error <= 0.08'"
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f"{wanted}; got {_checks.shown(text)}")
        column, sign, number = found.groups()
        try:
            bound = float(number)
        except ValueError:
            bound = math.nan
        if not math.isfinite(bound):
            raise ValueError(f"{wanted}; got {_checks.shown(text)}, where {number} is no finite number")
        return cls(column, sign, bound)

    def reason(self, row: Mapping[str, Any]) -> str | None:
        """Return the reason to stop after a recorded ``row``, or None."""
        value = row[self.column]
        if not self.signs[self.sign](value, self.bound):
            return None
        return f"{self.column} {self.sign} {self.bound:g}: it is {value:.6g} at round {row['round']}"


def checked_column(name: str, column: object, columns: Collection[str]) -> None:
    """Raise ``ValueError`` unless ``column``, of the argument ``name``, is one of the ``columns`` of a run's history."""
    if not isinstance(column, str) or column not in columns:
        hint = "; a test error needs test=(X, y)" if str(column).startswith("test_error") else ""
        raise ValueError(f"{name} must have a column of the history, {', '.join(columns)}; got {_checks.shown(column)}{hint}")
