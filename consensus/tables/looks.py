"""Recognition of cells of text: numbers, missing values, numbers in another notation and the option that reads them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import cache
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

MISSING = ("", "?", "na", "n/a", "nan", "-nan", "null", "<na>", "#n/a")  # in lower case; "none" may well be a class
MISSING_SPELLINGS = (*(form for one in MISSING for form in (one, one.upper(), one.capitalize())), "NaN", "-NaN")
BOOLEANS = {"True": True, "true": True, "TRUE": True, "False": False, "false": False, "FALSE": False}
_GROUPED = re.compile(r"[+-]?(0|[1-9]\d{0,2}(\.\d{3})?)")
_PLAIN = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d+)?")  # numbers with one text each; 007 is a code


@cache
def number_in(decimal: str = ".", thousands: str | None = None) -> Callable[[str], float | None]:
    """Return the function that reads a number, written with this decimal point; it returns None for other text."""
    point, group = re.escape(decimal), f"(?:{re.escape(thousands)}\\d{{3}})*" if thousands else ""
    written = re.compile(rf"[+-]?(\d+{group}({point}\d*)?|{point}\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)", re.IGNORECASE)

    def number(cell: str) -> float | None:
        text = cell.strip()
        if text.lower() in MISSING:
            return math.nan
        if not text.isascii() or not written.fullmatch(text):
            return None
        return float((text.replace(thousands, "") if thousands else text).replace(decimal, "."))

    return number


def is_number(cell: object) -> bool:
    """Return whether a cell is a number, as text or not, or missing."""
    if cell is None or isinstance(cell, str):
        return cell is None or number_in()(cell) is not None
    return isinstance(cell, Real | np.bool_) or hasattr(cell, "as_tuple")  # decimal.Decimal


def text_of(value: object) -> str:
    """Return the text by which a category is known: 1, 1.0 and "1" are one, and so are True and "TRUE"."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        number = float(value)
        return str(int(number)) if number.is_integer() else str(value)
    text = str(value)
    if text in BOOLEANS:
        return str(BOOLEANS[text])
    found = _PLAIN.fullmatch(text.strip())
    if not found:
        return text
    whole, fraction = found[0].lstrip("+").partition(".")[::2]
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole.replace("-0", "0") if whole == "-0" else whole


def label_of(value: object) -> str:
    """Return the text by which a class is known: that of a category, but that booleans are 0 and 1."""
    text = text_of(value)
    return str(int(text == "True")) if isinstance(value, bool | np.bool_) else text


def written(cells: Iterable[str], sep: str) -> str | None:
    """Return what cells that are read as numbers look like, and how they are read as that; None if they are numbers only.

    Whole numbers of three digits or more with leading zeros are codes; between semicolons, where commas are decimal ones,
    points before exactly three digits in all numbers stand between thousands.
    """
    there = [cell for cell in cells if cell.lower() not in MISSING]
    if there and all(map(str.isdecimal, there)):
        padded = next((cell for cell in there if cell[0] == "0" and len(cell) > 2), None)
        return padded and f"{padded!r} looks like a code: categories=[{{0!r}}] keeps it, drop=[{{0!r}}] leaves it out"
    if sep != ";" or not all(map(_GROUPED.fullmatch, there)):
        return None
    first, *more = [cell for cell in there if "." in cell] or [""]
    return f"{first!r} looks like a number with a point before thousands: decimal=',', thousands='.'" if more else None


def stand_in(numbers: np.ndarray) -> int | None:
    """Return the number that seems to stand for missing ones, such as -999; None if there is none.

    It is the only one below 0, whole, and of nines alone, or twice there and far from the others.
    """
    there = numbers[np.isfinite(numbers)]
    below, others = there[there < 0], there[there >= 0]
    if not len(below) or below.min() < below.max() or below[0] > -9 or below[0] % 1 or 2 * len(others) < len(there):
        return None  # others below 0 as well, or most of them are missing
    nines, far = set(str(int(-below[0]))) == {"9"}, len(below) > 1 and 2 * others.max() < -below[0]
    return int(below[0]) if nines or far else None


class Look(NamedTuple):
    """Description of numbers in another notation, and of the option that reads them."""

    what: str
    option: str  # of the reader; "" if it has none
    frame: str  # of a data frame: the same in pandas, of a column called {0}


DATES = {"M": Look("dates", "", "{0}.dt.dayofyear"), "m": Look("durations", "", "{0}.dt.total_seconds()")}  # by kind of dtype
_N = r"[+-]?(?:\d+(?:[.,]\d+)*|[.,]\d+)"
_MONEY = r"[$€£¥₹]|USD|EUR|GBP|CHF"
_DAY_FIRST = "pandas.to_datetime({0}, format='mixed', dayfirst=True).dt.dayofyear"  # or dayfirst=False
_LOOKS = tuple(
    (re.compile(pattern), Look(what, option, frame))
    for pattern, what, option, frame in (
        (r"[+-]?\d{1,3}(\.\d{3})+,\d+", "decimal commas and points between thousands", "decimal=',', thousands='.'", ""),
        (r"[+-]?\d{1,3}(\.\d{3}){2,}", "points between thousands", "thousands='.', decimal=','", ""),
        (r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", "commas between thousands", "thousands=','", ""),
        (r"[+-]?\d*,\d+([eE][+-]?\d+)?", "decimal commas", "decimal=','", ""),
        (r"[+-]?\d{1,3}([ \u00a0\u202f]\d{3})+([.,]\d+)?", "blanks between thousands", "thousands=' '", ""),
        (r"[+-]?\d{1,3}(['’]\d{3})+(\.\d+)?", "apostrophes between thousands", 'thousands="\'"', ""),
        (rf"{_N}\s?%", "percentages", "", "{0}.str.rstrip('% ').astype(float)"),
        (
            rf"-?({_MONEY})\s?{_N}|{_N}\s?({_MONEY})",
            "amounts of money",
            "",
            r"{0}.str.replace(r'[^\d.+-]', '', regex=True).astype(float)",
        ),
        (rf"\({_N}\)", "numbers in brackets", "", r"{0}.str.replace(r'\((.*)\)', r'-\1', regex=True).astype(float)"),
        (r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2}([ T].*)?)?", "dates", "", "pandas.to_datetime({0}).dt.dayofyear"),
        (r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}([ T].*)?", "dates", "", _DAY_FIRST),
        (r"\d{1,2}:\d{2}", "times of day", "", "pandas.to_timedelta({0} + ':00').dt.total_seconds()"),
        (r"\d{1,2}:\d{2}:\d{2}(\.\d+)?", "times of day", "", "pandas.to_timedelta({0}).dt.total_seconds()"),
        (rf"[<>≤≥]=?\s?{_N}", "bounds of numbers", "", r"{0}.str.replace(r'[<>≤≥=\s]', '', regex=True).astype(float)"),
        (
            r"[+-]?(\d+\.\d*|\.\d+)[dD][+-]?\d+",
            "numbers of Fortran",
            "",
            "{0}.str.replace('[dD]', 'e', regex=True).astype(float)",
        ),
        (
            r"[+-]?\d{1,2}(,\d\d)+,\d{3}(\.\d+)?",
            "commas between lakhs and thousands",
            "",
            "{0}.str.replace(',', '').astype(float)",
        ),
        (r"\d+(_\d+)+", "numbers with underscores", "", "{0}.str.replace('_', '').astype(float)"),
        (
            r"[−–]\d+(\.\d+)?",
            "numbers with a dash for a minus sign",
            "",
            "{0}.str.replace('[−–]', '-', regex=True).astype(float)",
        ),
    )
)
_UNIT = re.compile(rf"{_N}\s?([A-Za-zµ°][\w°/²³]*)")


def look(cells: Iterable[object]) -> Look | None:
    """Return what text looks like if nearly all of it is numbers that are written otherwise; None for other text.

    Plain numbers may stand between them, but not alone.
    """
    texts = [
        cell.strip()
        for cell in dict.fromkeys(one for one in cells if isinstance(one, str))
        if cell.strip().lower() not in MISSING
    ]
    others = [text for text in texts if number_in()(text) is None]
    if not others:
        return None
    units = [found[1] for text in others if (found := _UNIT.fullmatch(text))]
    if len(units) == len(others) and len(set(units)) == 1 and len(others) > 1:
        return Look(f"numbers with the unit {units[0]!r}", "", f"{{0}}.str.removesuffix({units[0]!r}).astype(float)")
    best, most = None, 0.0
    for pattern, one in _LOOKS:
        share = sum(pattern.fullmatch(text) is not None for text in others) / len(others)
        if share > most:
            best, most = one, share
    if best is None or most * len(others) + (len(texts) - len(others)) < 0.9 * len(texts) or most < 0.5:
        return None
    return best


def remedy(found: Look, name: object, from_file: bool) -> str:
    """Return what to pass, or to write, so that the column is read as numbers."""
    if found.option and from_file:
        return found.option
    column = f"frame[{name!r}]"
    if found.frame:
        return f"{column} = {found.frame.format(column)}" + (
            " in the data frame that pandas.read_csv returns" if from_file else ""
        )
    return f"read the file by pandas.read_csv(..., {found.option})"
