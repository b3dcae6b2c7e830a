"""What a part of the campaign finds."""

from typing import NamedTuple


class Outcome(NamedTuple):
    """How many cases were tried, what was found in words, and a remark."""

    cases: int
    findings: list
    remark: str = ""
