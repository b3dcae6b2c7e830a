"""Times of contacts, exactly: numbers in any unit as whole multiples of a power of ten, and dates as nanoseconds."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from topologies._checks import unmasked

_NANO = Fraction(1, 10**9)
_LAST = 2**62  # larger whole numbers are Python's, not NumPy's
_DIGITS = 2.0**52  # up to here a whole number over a power of ten is the decimal that `repr` writes
_LONG = 17  # characters of a float with 16 digits: more come of calculations
_KINDS = "numbers, or dates: datetime.datetime, numpy.datetime64 or pandas.Timestamp"

Span: TypeAlias = float | Decimal | Fraction | timedelta | np.timedelta64
Time: TypeAlias = float | Decimal | Fraction | datetime | np.datetime64


class Moments(NamedTuple):
    """Times of contacts.

    Attributes
    ----------
    values : numpy array of float64
        Times, rounded to floating point; dates in seconds since 1970. Those that are not finite are of no use but to be named.
    ticks : numpy array of int64 or Python's integers
        Times in units of `unit`, exactly: floats are the decimals that ``repr`` writes. 0 where a time is not finite.
    unit : fraction
        A power of ten in most cases, and for dates a nanosecond.
    dates : bool
        Whether times are dates.
    rounded : bool
        Whether some are floats with more than 15 digits, as after a calculation.
    """

    values: np.ndarray
    ticks: np.ndarray
    unit: Fraction
    dates: bool = False
    rounded: bool = False


def moments(times: ArrayLike, name: str = "times") -> Moments:
    """Return times as numbers and exact ticks; dates with a time zone are converted to UTC."""
    try:
        times = np.asarray(unmasked(name, times, f"{name}[~{name}.mask], and of contacts the same rows"))
    except ValueError as error:
        if "masked" in str(error):
            raise
        raise ValueError(f"{name} must have shape (contacts,), but are nested, with rows of different lengths") from None
    if times.dtype.kind == "M":
        return _dates(times)
    cells = times.ravel().tolist() if times.dtype.kind == "O" else []
    found = {_kind(cell) for cell in cells}
    if found == {"aware", "naive"}:
        raise ValueError("some times have a time zone and others have none: give all of them one, or none")
    if None in found or len(found) > 1 or times.dtype.kind in "SUcmbTV":
        if times.dtype.kind == "m":
            raise TypeError(f"{name} must be {_KINDS}; got lengths of time: pass {name} / numpy.timedelta64(1, 's')")
        wrong = next((cell for cell in cells or times.ravel().tolist() if _kind(cell) is None), None)
        raise TypeError(f"{name} must be {_KINDS}; got {'a mixture' if wrong is None else type(wrong).__name__}")
    if found & {"aware", "naive"}:
        return _dates(times)
    if times.dtype.kind == "O":
        return _objects(times, cells, name)
    if times.dtype.kind in "iu":
        whole = (
            times.astype(np.int64) if times.max(initial=0) < _LAST and times.min(initial=0) > -_LAST else times.astype(object)
        )
        return Moments(times.astype(float), whole, Fraction(1))
    if times.dtype.itemsize < 8:  # the decimals that float32 writes
        times = times.astype(str).astype(float)
    return _floats(times.astype(float))


def _floats(times: np.ndarray) -> Moments:
    """Return floats as whole multiples of a power of ten: those of the decimals that ``repr`` writes."""
    finite = np.isfinite(times)
    kept = np.where(finite, times, 0.0)
    most, left = np.abs(kept).max(initial=0.0), kept.ravel()
    for digits in range(23):  # 10^22 is the last that floats hold
        scale = 10.0**digits
        if most * scale > _DIGITS:
            break
        left = left[np.rint(left * scale) / scale != left]
        if not left.size:
            return Moments(times, np.rint(kept * scale).astype(np.int64), Fraction(1, 10**digits))
    if not 0.5 < most < 2.0**61:
        found = _objects(times, [Decimal(repr(value)) for value in kept.ravel().tolist()], "times")
        return found._replace(values=times, rounded=True)
    digits = min(18, math.floor(math.log10(2.0**61 / most)))  # finer than what floats tell apart
    whole = np.floor(kept)
    ticks = whole.astype(np.int64) * 10**digits + np.rint((kept - whole) * 10.0**digits).astype(np.int64)
    return Moments(times, ticks, Fraction(1, 10**digits), rounded=True)


def _objects(times: np.ndarray, cells: list[Any], name: str) -> Moments:
    try:
        exact = [_exact(cell) if math.isfinite(cell) else None for cell in cells]
        values = np.array([math.nan if cell is None else float(cell) for cell in exact])
    except OverflowError:
        raise ValueError(f"{name} must be finite numbers; one is too large") from None
    unit = math.lcm(*{cell.denominator for cell in exact if cell is not None})
    ticks = [0 if cell is None else cell.numerator * (unit // cell.denominator) for cell in exact]
    small = all(-_LAST < tick < _LAST for tick in ticks)
    rounded = any(map(is_rounded, cells))
    whole = np.array(ticks, dtype=np.int64 if small else object).reshape(times.shape)
    return Moments(values.reshape(times.shape), whole, Fraction(1, unit), rounded=rounded)


def _exact(value: Any) -> Fraction:  # noqa: ANN401  # a number
    """Return a number as a fraction: of a float the decimal that it is written as."""
    if isinstance(value, Fraction | int | np.integer):
        return Fraction(int(value)) if isinstance(value, np.integer) else Fraction(value)
    if isinstance(value, Decimal):
        return Fraction(*value.as_integer_ratio())
    written = str(value) if isinstance(value, np.floating) else repr(float(value))
    return Fraction(*Decimal(written).as_integer_ratio())


def _dates(dates: np.ndarray) -> Moments:
    """Return nanoseconds since 1970 of an array of dates, and seconds; NaN for NaT."""
    import pandas

    try:
        stamps = pandas.to_datetime(dates.ravel(), utc=True).as_unit("ns")
    except ValueError as error:  # also if dates are out of bounds
        raise ValueError(f"times are out of range ({error})") from None
    missing = np.asarray(stamps.isna())
    ticks = np.where(missing, 0, stamps.asi8)
    seconds, rest = np.divmod(ticks, 10**9)
    values = np.where(missing, math.nan, seconds + rest / 1e9)
    return Moments(values.reshape(dates.shape), ticks.reshape(dates.shape), _NANO, dates=True)


def moment(name: str, value: Time, dates: bool) -> Fraction:
    """Return one time exactly; raise an error unless it is a date if, and only if, `times` are."""
    kind = _kind(value)
    if dates and kind in ("aware", "naive"):
        found = moments(np.array([value], dtype=object))
        _finite(name, found.values[0])
        return int(found.ticks[0]) * found.unit
    if kind != "number" or dates:
        wanted = "a date, as times are" if dates else "a finite number, as times are"
        raise (ValueError if kind == "number" else TypeError)(f"{name} must be {wanted}; got {value!r}")
    return _finite(name, value)


def duration(name: str, value: Span, dates: bool) -> Fraction:
    """Return a length of time in the unit of `moments`, exactly: a number, or for dates a timedelta of any library."""
    length: Fraction
    if isinstance(value, timedelta | np.timedelta64):
        if not dates:
            raise TypeError(f"{name} must be a number in the unit of times, which are not dates; got {value!r}")
        if hasattr(value, "asm8"):  # pandas.Timedelta, in nanoseconds
            value = value.asm8
        if isinstance(value, timedelta):
            length = Fraction(value // timedelta(microseconds=1), 10**6)
        elif np.isnat(cast(Any, value)):
            raise ValueError(f"{name} must be a finite number, got {value!r}")
        else:
            try:
                length = int(np.asarray(cast(Any, value)).astype(np.int64)) * _seconds(value)
            except TypeError:  # months and years of numpy
                raise ValueError(f"{name} must have a fixed length, such as days or seconds; got {value!r}") from None
    elif _kind(value) != "number":
        if dates:
            raise TypeError(f"{name} must be a number of seconds, or a timedelta; got {value!r}")
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    else:
        length = _finite(name, value)
    if length <= 0:
        raise ValueError(f"{name} must be above 0, got {value!r}")
    return length


def _seconds(value: Any) -> Fraction:  # noqa: ANN401  # numpy.timedelta64
    """Return the seconds of the unit of a length of time of numpy; raise TypeError for months and years."""
    name: Any  # a unit of numpy's
    name, count = np.datetime_data(value)
    unit, second = np.timedelta64(1, name), np.timedelta64(1, "s")
    return count * (Fraction(int(unit / second)) if unit >= second else Fraction(1, int(second / unit)))


def _kind(value: object) -> str | None:
    """Return "number", "naive" or "aware" (a date without or with a time zone), or None."""
    if isinstance(value, datetime):
        return "naive" if value.tzinfo is None else "aware"
    if isinstance(value, date | np.datetime64):
        return "naive"
    return "number" if isinstance(value, Real | Decimal) and not isinstance(value, bool) else None


def _finite(name: str, value: Any) -> Fraction:  # noqa: ANN401
    try:
        finite = math.isfinite(float(value))
    except OverflowError:
        finite = False
    if not finite:
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return _exact(value)


def is_rounded(value: object) -> bool:
    """Return whether a number is a float of more than 16 digits, as comes of calculations."""
    return isinstance(value, float) and len(repr(float(value))) > _LONG


def windows(
    found: Moments, start: Fraction, window: Fraction, rounded: tuple[bool, bool]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the window of each time, floor((t - start) / window), whether it begins there, and whether rounding hid that.

    All is exact, in whole numbers. But a float of more than 15 digits that differs from the beginning of the next window by no
    more than rounding errors counts as that beginning; `rounded` says whether start and window are such floats.
    """
    parts = math.lcm(found.unit.denominator, start.denominator, window.denominator)
    scale, origin, length = int(found.unit * parts), int(start * parts), int(window * parts)
    largest = max(abs(int(found.ticks.max(initial=0))), abs(int(found.ticks.min(initial=0)))) * scale + abs(origin)
    since = found.ticks.astype(np.int64 if max(largest, length) < _LAST else object) * scale - origin
    numbers, rest = since // length, since % length
    if numbers.max(initial=0) > 2**52:
        raise ValueError(f"window must be longer: there are more than 2^52 windows of {float(window)}")
    hidden = np.zeros(len(numbers), dtype=bool)
    if found.rounded or any(rounded):
        error = 2 * np.spacing(np.abs(found.values).max()) + np.spacing(abs(float(start)))
        error = error + np.abs(numbers.astype(float)) * np.spacing(float(window)) * rounded[1]
        small = 4 * error <= float(window)  # else floats cannot tell windows apart
        hidden = np.asarray((length - rest).astype(float) / parts <= error, dtype=bool) & small
    begins = np.asarray(rest == 0, dtype=bool) | hidden
    return (numbers + hidden).astype(np.int64), begins, hidden
