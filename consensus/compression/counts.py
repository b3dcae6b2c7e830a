"""How many entries of a row are sent, as a fraction or as a number."""

from numbers import Integral, Real

from consensus import _checks


def some(name: str, value: float) -> float:
    """``value`` as a number of entries, an int >= 1, or a fraction of them, a float in (0, 1].

    Raises
    ------
    ValueError
        If it is neither.
    """
    if isinstance(value, Integral) and not isinstance(value, bool) and value >= 1:
        return int(value)
    if isinstance(value, Real) and not isinstance(value, Integral) and 0 < value <= 1:
        return float(value)
    raise ValueError(
        f"{name} must be a number of entries, a whole number >= 1, or a fraction of them, a float in (0, 1]; got "
        f"{_checks.shown(value)}"
    )


def entries(name: str, value: float, parameters: int) -> int:
    """How many of ``parameters`` entries that is, at least one.

    Raises
    ------
    ValueError
        If there are not so many.

    Examples
    --------
    >>> from consensus.compression.counts import entries
    >>> entries("k", 0.1, 55), entries("k", 0.1, 3), entries("k", 3, 3)
    (6, 1, 3)
    """
    if isinstance(value, float):
        return max(1, round(value * parameters))
    if value > parameters:
        raise ValueError(f"{name} must be at most the number of parameters, {parameters}; got {value}")
    return int(value)
