"""Checks of arguments: every message names the argument, its value and what is allowed."""

from __future__ import annotations

import math
import operator
import os
import reprlib
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Protocol, SupportsIndex, TypeVar

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike

ROUNDS = 10**7  # the most that one call examines
SHOWN = 3  # items of a list, in messages
_HERE = str(Path(__file__).parent) + os.sep
Value = TypeVar("Value")


class HasAgents(Protocol):
    """An object with a number of agents, such as a schedule."""

    @property
    def agents(self) -> int:
        """The number of agents."""
        ...


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlist = _short.maxtuple = _short.maxarray = 3


def shown(value: object) -> str:
    """Return a short ``repr`` of a value, with its type unless the type is obvious."""
    try:
        text = _short.repr(value)
    except Exception:  # __repr__ of a user's class may fail
        text = "an object"
    return text if isinstance(value, str | int | float | bool | type(None)) else f"{text}, a {type(value).__name__}"


def name_of(function: object) -> str:
    """Return the name of a function, or of the class of a callable object."""
    return getattr(function, "__name__", type(function).__name__)


def listed(items: Iterable[object]) -> str:
    """Return the first items of a list as text, for messages."""
    items = list(items)
    return ", ".join(str(item) for item in items[:SHOWN]) + (", ..." if len(items) > SHOWN else "")


def offers(name: str, value: Any, needed: Sequence[str], wanted: str) -> Any:  # noqa: ANN401  # callers use what is checked
    """Return the argument ``name`` if it has the attributes ``needed``; ``wanted`` describes it in the error otherwise."""
    if isinstance(value, type):
        likely = 2 * sum(hasattr(value, attribute) for attribute in needed) >= len(needed)  # some are of instances alone
        remedy = ": call it" if likely else ""
        raise TypeError(f"{name} must be {wanted}; got the class {value.__name__} itself{remedy}")
    missing = [attribute for attribute in needed if not hasattr(value, attribute)]
    if len(missing) == len(needed):
        raise TypeError(f"{name} must be {wanted}; got {shown(value)}")
    if missing:
        raise TypeError(f"{name} must be {wanted}; {shown(value)}, has no {', '.join(missing)}")
    return value


def schedule(value: Value, name: str = "schedule", also: Sequence[str] = ()) -> Value:
    """Return ``value`` if it is a schedule with the attributes ``also``; raise TypeError otherwise."""
    offers(name, value, ("agents", "key", "weights", *also), "a schedule, such as topologies.Static(graph)")
    agents = getattr(value, "agents", None)
    if not isinstance(agents, Integral) or agents < 1:
        raise TypeError(f"{name} must be a schedule with a whole number of agents, at least 1; got {shown(agents)}")
    return value


def flag(name: str, value: object) -> bool:
    """Return ``value`` as a bool; raise ValueError unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def integer(name: str, value: SupportsIndex, least: int, most: int | None = None) -> int:
    """Return ``value`` as an int; raise ValueError unless it is an integer between ``least`` and ``most``."""
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
    """Return ``value`` as a float; raise ValueError unless it is a real number that ``allowed`` accepts."""
    if isinstance(value, Real) and not isinstance(value, np.timedelta64):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if allowed(number):
            return number
    raise ValueError(f"{name} must be {wanted}, got {value!r}{why}")


def unmasked(name: str, value: Any, remedy: str) -> Any:  # noqa: ANN401  # callers use what is checked
    """Return ``value``, a masked array without masked entries as its data; raise ValueError if entries are masked."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    places = np.argwhere(np.ma.getmaskarray(value)).tolist()
    if places:
        at = listed(f"[{', '.join(map(str, place))}]" for place in places)
        raise ValueError(f"{name} has {len(places)} masked entries, at {at}: pass {remedy}")
    return value.data


def numbers(name: str, value: ArrayLike) -> np.ndarray:
    """Return ``value`` as an array of floats; raise TypeError unless it holds real numbers."""
    value = unmasked(name, value, f"{name}.filled(value), with the value that they have")
    try:
        found = np.asarray(value)
        return found.astype(float) if found.dtype.kind == "O" else found.astype(float, casting="same_kind")
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be an array of real numbers, got {shown(value)}") from None


def memory(call: str, count: int, each: int = 500) -> None:
    """Raise ValueError if ``count`` objects of ``each`` bytes exceed the memory of this machine."""
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        available = 1 << 38  # unknown on this system: reject only sizes that no machine has
    if count * each > available:
        call = call if len(call) <= 80 else f"{call[:77]}..."
        raise ValueError(f"{call} would take {_power(count * each)} bytes of memory; there are {_power(available)}")


def _power(count: int) -> str:
    return f"{count:.2g}" if count < 10**300 else "over 1e300"


def mixing(value: sparse.csr_array, schedule: HasAgents) -> sparse.csr_array:
    """Return ``value`` if it is a mixing matrix of ``schedule``; raise TypeError or ValueError otherwise."""
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
    """Warn at the line of the caller's code, so that Python shows the warning once for each such line."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)
