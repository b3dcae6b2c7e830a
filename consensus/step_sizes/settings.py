"""A step size as a setting: a number or a rule."""

from collections.abc import Callable
from numbers import Real
from typing import TypeAlias

import numpy as np

from consensus import _checks

Rule: TypeAlias = Callable[[int], float]  # of the round


def value_at(step_size: float | Rule | None, round: int) -> float:
    """Return the step size in ``round``: the number ``step_size``, or the value of the rule.

    Parameters
    ----------
    step_size : float, rule or None
        The setting.
    round : int
        The round.

    Returns
    -------
    float
        The step size.

    Raises
    ------
    TypeError
        If ``step_size`` is None: ``solver.prepared(problem, network)`` returns the solver with the step size of its theory. If
        the rule returns anything but a number.

    Examples
    --------
    >>> from consensus.step_sizes import Diminishing, value_at
    >>> value_at(0.1, round=7), value_at(lambda round: 1 / (1 + round), round=3)
    (0.1, 0.25)
    >>> [round(value_at(Diminishing(0.5, 0.1), n), 4) for n in range(3)]  # a_n = a_n-1 (1 - 0.1 a_n-1)
    [0.5, 0.475, 0.4524]
    """
    if callable(step_size):
        found = step_size(round)
        return found if type(found) is float else _checks.number(f"step_size={step_size} in round {round}", found)
    if step_size is None:
        raise TypeError("no step size is found yet: give step_size=, or take solver.prepared(problem, network), which has one")
    return step_size


def positive_at(step_size: float | Rule | None, round: int) -> float:
    """Return the step size in ``round``, for methods that divide by it; ``ValueError`` if it is not positive.

    Parameters
    ----------
    step_size : float, rule or None
        The setting.
    round : int
        The round.

    Returns
    -------
    float
        The step size, > 0.

    Examples
    --------
    >>> from consensus.step_sizes import positive_at
    >>> positive_at(lambda round: 1 - round, round=0)
    1.0
    >>> try:
    ...     positive_at(0.0, round=1)
    ... except ValueError as error:
    ...     print(error)
    step_size=0.0 in round 1 must be a finite number > 0; got 0.0
    """
    return _checks.number(f"step_size={step_size} in round {round}", value_at(step_size, round), above=0)


def checked(
    step_size: float | Rule | None, name: str = "step_size", most: float | None = None, optional: bool = False
) -> float | Rule | None:
    """Return ``step_size`` as a setting: a number as a float; a rule, any callable round -> float, as it is.

    Parameters
    ----------
    step_size : float, rule or None
        The setting.
    name : str
        Its name in errors.
    most : float, optional
        The largest first value.
    optional : bool
        Whether None, a step size found when the run begins, is allowed.

    Returns
    -------
    float, callable or None
        The setting.

    Raises
    ------
    TypeError
        If it is neither number nor callable.
    ValueError
        If its first value is not in (0, most].

    Examples
    --------
    >>> from consensus.step_sizes import checked
    >>> checked(1)
    1.0
    >>> try:
    ...     checked(1.5, name="step_size of NEXT", most=1.0)
    ... except ValueError as error:
    ...     print(error)
    step_size of NEXT must be a finite number > 0 and <= 1.0; got 1.5
    """
    if step_size is None and optional:
        return None
    if not callable(step_size):
        if isinstance(step_size, bool) or not isinstance(step_size, Real):
            wanted = "a number or a rule such as Diminishing(0.5, 0.01)"
            raise TypeError(f"{name} must be {wanted}; got {_checks.shown(step_size)}")
        return _checks.number(name, step_size, above=0, most=most)
    first = step_size(0)
    first = first.item() if isinstance(first, np.ndarray) and first.ndim == 0 else first
    _checks.number(f"the first value of {name}={step_size}", first, above=0, most=most)
    return step_size
