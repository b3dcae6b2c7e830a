"""Checks of objects that users pass in: every message names the argument, what it got, and what would do."""

import math
import operator
import os
import reprlib
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sparse

ROUNDS = 10**7  # looked at by one call, at most
SHOWN = 3  # of many things, in messages
_HERE = str(Path(__file__).parent) + os.sep

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlist = _short.maxtuple = _short.maxarray = 3


def shown(value: object) -> str:
    """A short ``repr`` of anything, its type beside it where that says more."""
    try:
        text = _short.repr(value)
    except Exception:  # a user's own __repr__ may fail
        text = "an object"
    return text if isinstance(value, str | int | float | bool | type(None)) else f"{text}, a {type(value).__name__}"


def name_of(function: object) -> str:
    """What a function, or an object that is called like one, is called."""
    return getattr(function, "__name__", type(function).__name__)


def listed(items: Iterable[object]) -> str:
    """The first of some things, for messages.

    Examples
    --------
    >>> from topologies._checks import listed
    >>> listed("abc"), listed("abcd")
    ('a, b, c', 'a, b, c, ...')
    """
    items = list(items)
    return ", ".join(str(item) for item in items[:SHOWN]) + (", ..." if len(items) > SHOWN else "")


def offers(name: str, value: Any, needed: Sequence[str], wanted: str) -> Any:
    """Return ``value`` if it is an object with the attributes ``needed``; raise ``TypeError`` otherwise.

    Parameters
    ----------
    name : str
        Of the argument.
    value : object
    needed : sequence of str
    wanted : str
        What would do, with an example: ``"a schedule, such as topologies.Static(graph)"``.

    Examples
    --------
    >>> from topologies._checks import offers
    >>> offers("schedule", 3, ("agents", "key"), "a schedule, such as topologies.Static(graph)")
    Traceback (most recent call last):
        ...
    TypeError: schedule must be a schedule, such as topologies.Static(graph); got 3
    """
    if isinstance(value, type):
        raise TypeError(f"{name} must be {wanted}; got the class {value.__name__} itself: call it")
    missing = [attribute for attribute in needed if not hasattr(value, attribute)]
    if len(missing) == len(needed):
        raise TypeError(f"{name} must be {wanted}; got {shown(value)}")
    if missing:
        raise TypeError(f"{name} must be {wanted}; {shown(value)}, has no {', '.join(missing)}")
    return value


def schedule(value: Any, name: str = "schedule", also: Sequence[str] = ()) -> Any:
    """Return ``value`` if it is a schedule that has ``also`` some attributes; raise ``TypeError`` otherwise."""
    offers(name, value, ("agents", "key", "weights", *also), "a schedule, such as topologies.Static(graph)")
    if not isinstance(value.agents, Integral) or value.agents < 1:
        raise TypeError(f"{name} must be a schedule with a whole number of agents, at least 1; got {shown(value.agents)}")
    return value


def matrix(schedule: Any, round: int) -> sparse.csr_array:
    """The mixing matrix of a round; raise ``TypeError`` or ``ValueError`` if it is none."""
    return mixing(schedule.weights(schedule.key(round)), schedule)


def flag(name: str, value: object) -> bool:
    """Return ``value`` as a bool if it is one; raise ``ValueError`` otherwise."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return `value` as an int; raise ValueError unless it is an integer of at least `least` and at most `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(number)}")
    return number


def real(name: str, value: object, wanted: str, allowed: Callable[[float], bool], why: str = "") -> float:
    """Return ``value`` as a float if it is a real number that ``allowed`` is true of; raise ``ValueError`` otherwise."""
    if isinstance(value, Real) and not isinstance(value, np.timedelta64):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if allowed(number):
            return number
    raise ValueError(f"{name} must be {wanted}, got {value!r}{why}")


def numbers(name: str, value: Any) -> np.ndarray:
    """Return ``value`` as an array of real numbers; raise ``TypeError`` if it is none."""
    try:
        found = np.asarray(value)
        return found.astype(float) if found.dtype.kind == "O" else found.astype(float, casting="same_kind")
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be an array of real numbers, got {shown(value)}") from None


def room(call: str, count: int, each: int = 500) -> None:
    """Raise ``ValueError`` if ``count`` things of ``each`` bytes do not fit into this machine's memory."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        memory = 1 << 38  # no saying: what no machine has
    if count * each > memory:
        call = call if len(call) <= 80 else f"{call[:77]}..."
        raise ValueError(f"{call} would take {_power(count * each)} bytes of memory; there are {_power(memory)}")


def _power(count):
    return f"{count:.2g}" if count < 10**300 else "over 1e300"


def mixing(value: Any, schedule: Any) -> sparse.csr_array:
    """Return ``value`` if it is a mixing matrix of ``schedule``; raise ``TypeError`` or ``ValueError`` otherwise."""
    name, shape = f"{type(schedule).__name__}.weights(key)", (schedule.agents, schedule.agents)
    if not sparse.issparse(value) or value.format != "csr":
        got = f"a matrix in {value.format.upper()} format" if sparse.issparse(value) else shown(value)
        raise TypeError(f"{name} must return a sparse matrix in CSR format: scipy.sparse.csr_array(matrix); got {got}")
    if value.shape != shape:
        raise ValueError(f"{name} must return a matrix of shape (agents, agents) = {shape}; got {value.shape}")
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name} must return a matrix of real numbers; got dtype {value.dtype}")
    return value


def warn(text: str) -> None:
    """Warn where a user's own code called this package, so that Python says it once for each such place."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)
