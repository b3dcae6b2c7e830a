"""Argument checks shared by the package: every message names the argument, its value and what is allowed."""

import math
from numbers import Integral, Real


def number(name, value, *, above=None, least=None, below=None, most=None):
    """Return ``value`` as a float if it is a finite real within the bounds; raise ``ValueError`` otherwise."""
    allowed = " and ".join(
        f"{sign} {bound}" for sign, bound in ((">", above), (">=", least), ("<", below), ("<=", most)) if bound is not None
    )
    wanted = f"a finite number {allowed}".rstrip()
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be {wanted}; got {value!r}")
    within = (
        (above is None or value > above)
        and (least is None or value >= least)
        and (below is None or value < below)
        and (most is None or value <= most)
    )
    if not within:
        raise ValueError(f"{name} must be {wanted}; got {value!r}")
    return float(value)


def count(name, value, least=1):
    """Return ``value`` as an int if it is a whole number of at least ``least``; raise ``ValueError`` otherwise."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}; got {value!r}")
    return int(value)


def choice(name, value, allowed):
    """Return ``value`` if it is one of ``allowed``; raise ``ValueError`` that lists them otherwise."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
    return value
