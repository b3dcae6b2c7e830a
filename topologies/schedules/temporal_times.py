"""Times of contacts: numbers in any unit, or dates, which count in seconds."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_SECOND = np.timedelta64(1, "s")
_KINDS = "numbers, or dates: datetime.datetime, numpy.datetime64 or pandas.Timestamp"


def moments(times: ArrayLike) -> tuple[np.ndarray, bool]:
    """Return times as an array of floats, and whether they are dates, which become seconds since 1970.

    Dates are those of `datetime`, numpy and pandas (a Timestamp is a `datetime`). Those with a time zone count in UTC; those
    without one are taken as they are.

    Raises
    ------
    TypeError
        If they are neither numbers nor dates.
    ValueError
        If some dates have a time zone and others have none.

    Examples
    --------
    >>> from datetime import datetime
    >>> from topologies.schedules.temporal_times import moments
    >>> moments(["1970-01-02", "1970-01-01T00:00:01"])
    Traceback (most recent call last):
        ...
    TypeError: times must be numbers, or dates: datetime.datetime, numpy.datetime64 or pandas.Timestamp; got str
    >>> moments([datetime(1970, 1, 2), datetime(1970, 1, 1, 0, 0, 1)])
    (array([8.64e+04, 1.00e+00]), True)
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


def _seconds(dates):
    """Seconds since 1970, of an array; NaN for NaT."""
    import pandas

    try:
        stamps = pandas.to_datetime(dates.ravel(), utc=True)
    except ValueError as error:  # of which dates out of bounds are one
        raise ValueError(f"times are out of range ({error})") from None
    return ((stamps - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(1, "s")).to_numpy().reshape(dates.shape)


def moment(name: str, value: Any, dates: bool) -> float:
    """Return one time as `moments` does; TypeError if it is a date and the others are not, or the other way round."""
    kind = _kind(value)
    if dates and kind in ("aware", "naive"):
        value = moments([value])[0][0]
    elif kind != "number" or dates:
        wanted = "a date, as times are" if dates else "a finite number, as times are"
        raise (ValueError if kind == "number" else TypeError)(f"{name} must be {wanted}; got {value!r}")
    return _finite(name, value)


def duration(name: str, value: Any, dates: bool) -> float:
    """Return a stretch of time in the unit of `moments`: a number, or for dates a timedelta of `datetime`, numpy or pandas.

    Examples
    --------
    >>> import numpy as np
    >>> from datetime import timedelta
    >>> from topologies.schedules.temporal_times import duration
    >>> duration("window", timedelta(minutes=1), dates=True), duration("window", np.timedelta64(250, "ms"), dates=True)
    (60.0, 0.25)
    """
    if isinstance(value, timedelta | np.timedelta64):
        if not dates:
            raise TypeError(f"{name} must be a number in the unit of times, which are no dates; got {value!r}")
        try:
            value = value.total_seconds() if isinstance(value, timedelta) else float(value / _SECOND)
        except TypeError:  # numpy's months and years
            raise ValueError(f"{name} must be of a certain length, as days and seconds are; got {value!r}") from None
    elif _kind(value) != "number":
        if dates:
            raise TypeError(f"{name} must be a number of seconds, or a timedelta; got {value!r}")
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    seconds = _finite(name, value)
    if seconds <= 0:
        raise ValueError(f"{name} must be above 0, got {value!r}")
    return seconds


def _kind(value):
    if isinstance(value, datetime):
        return "naive" if value.tzinfo is None else "aware"
    if isinstance(value, date | np.datetime64):
        return "naive"
    return "number" if isinstance(value, Real) and not isinstance(value, bool) else None


def _finite(name, value):
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return number
