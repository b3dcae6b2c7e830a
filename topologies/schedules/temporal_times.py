"""Times of contacts: numbers in any unit, or dates, which are converted to seconds."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

_SECOND = np.timedelta64(1, "s")
_KINDS = "numbers, or dates: datetime.datetime, numpy.datetime64 or pandas.Timestamp"

Span: TypeAlias = float | timedelta | np.timedelta64
Time: TypeAlias = float | datetime | np.datetime64


def moments(times: ArrayLike) -> tuple[np.ndarray, bool]:
    """Return times as an array of floats, and whether they are dates, which become seconds since 1970.

    Dates are those of `datetime`, numpy and pandas. Dates with a time zone are converted to UTC.
    """
    try:
        times = np.asarray(times)
    except ValueError:
        raise ValueError("times must have shape (contacts,), but are nested, with rows of different lengths") from None
    if times.dtype.kind == "M":
        return _seconds(times), True
    cells = times.ravel().tolist() if times.dtype.kind == "O" else []
    found = {_kind(cell) for cell in cells}
    if found == {"aware", "naive"}:
        raise ValueError("some times have a time zone and others have none: give all of them one, or none")
    if None in found or len(found) > 1 or times.dtype.kind in "SUc":
        wrong = next((cell for cell in cells or times.ravel().tolist() if _kind(cell) is None), None)
        raise TypeError(f"times must be {_KINDS}; got {'a mixture' if wrong is None else type(wrong).__name__}")
    if found & {"aware", "naive"}:
        return _seconds(times), True
    try:
        return times.astype(float), False
    except OverflowError:
        raise ValueError("times must be finite numbers; one is too large") from None


def _seconds(dates: np.ndarray) -> np.ndarray:
    """Return the seconds since 1970 of an array of dates; NaN for NaT."""
    import pandas

    try:
        stamps = pandas.to_datetime(dates.ravel(), utc=True)
    except ValueError as error:  # also if dates are out of bounds
        raise ValueError(f"times are out of range ({error})") from None
    seconds: np.ndarray = ((stamps - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(1, "s")).to_numpy()
    return seconds.reshape(dates.shape)


def moment(name: str, value: Time, dates: bool) -> float:
    """Return one time as `moments` does; raise an error unless it is a date if, and only if, `times` are."""
    kind = _kind(value)
    if dates and kind in ("aware", "naive"):
        value = moments(np.array([value], dtype=object))[0][0]
    elif kind != "number" or dates:
        wanted = "a date, as times are" if dates else "a finite number, as times are"
        raise (ValueError if kind == "number" else TypeError)(f"{name} must be {wanted}; got {value!r}")
    return _finite(name, value)


def duration(name: str, value: Span, dates: bool) -> float:
    """Return a length of time in the unit of `moments`: a number, or for dates a timedelta of `datetime`, numpy or pandas."""
    if isinstance(value, timedelta | np.timedelta64):
        if not dates:
            raise TypeError(f"{name} must be a number in the unit of times, which are not dates; got {value!r}")
        try:
            value = value.total_seconds() if isinstance(value, timedelta) else float(value / _SECOND)
        except TypeError:  # months and years of numpy
            raise ValueError(f"{name} must have a fixed length, such as days or seconds; got {value!r}") from None
    elif _kind(value) != "number":
        if dates:
            raise TypeError(f"{name} must be a number of seconds, or a timedelta; got {value!r}")
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    seconds = _finite(name, value)
    if seconds <= 0:
        raise ValueError(f"{name} must be above 0, got {value!r}")
    return seconds


def _kind(value: object) -> str | None:
    """Return "number", "naive" or "aware" (a date without or with a time zone), or None."""
    if isinstance(value, datetime):
        return "naive" if value.tzinfo is None else "aware"
    if isinstance(value, date | np.datetime64):
        return "naive"
    return "number" if isinstance(value, Real) and not isinstance(value, bool) else None


def _finite(name: str, value: Any) -> float:  # noqa: ANN401
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return number
