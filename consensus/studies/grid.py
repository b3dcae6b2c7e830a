"""Grids of settings that grow until the best setting lies inside."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeAlias

from consensus import _checks
from consensus.solvers import Solver

Point: TypeAlias = tuple[Any, ...]
_ALONE = 2.0  # ratio of neighbours where only one value is given
_SHARES = (1.0, 0.5, 0.25)  # of a step along an axis, tried in turn where the solver has a bound


class Grid:
    """A solver with settings to be tuned: every combination is tried, and the grid grows until the best lies inside.

    Positive numbers are a geometric axis: if the best value is the least or the largest one that was tried, the next one is
    its product with the ratio at that end, whole numbers rounded. Values that the solver rejects by a ``ValueError``, such as
    steps above its bound, are ends of the axis. Anything else (texts, booleans, lists with a zero) is a choice, which does not
    grow; a best one at the end of three or more numbers, other than zero, is marked as one at an edge.

    Parameters
    ----------
    make : callable
        The class of a solver, or a function that returns one: ``make(**settings)``.
    **axes : sequence
        The values of each setting that are tried first.

    Examples
    --------
    >>> from consensus.solvers import NEXT, GradientTracking
    >>> from consensus.studies import Grid
    >>> from consensus.surrogates import PartialLinearization
    >>> Grid(GradientTracking, step_size=[0.1, 0.2, 0.4])
    Grid(GradientTracking, step_size=[0.1, 0.2, 0.4])
    >>> grid = Grid(lambda tau, step: NEXT(PartialLinearization(tau), step), tau=[0.1, 1.0], step=[0.25, 0.5])
    >>> grid.points()
    [(0.1, 0.25), (0.1, 0.5), (1.0, 0.25), (1.0, 0.5)]
    >>> grid.beside((1.0, 0.5), grid.points())
    [(0.1, 0.5), (10.0, 0.5), (1.0, 0.25), (1.0, 1.0)]
    """

    def __init__(self, make: Callable[..., Solver], /, **axes: Sequence[Any]) -> None:
        if not callable(make):
            raise TypeError(
                f"make must be the class of a solver, or a function of the settings that returns one; got {_checks.shown(make)}"
            )
        if not axes:
            raise ValueError(
                "axes must name a setting at least: Grid(DGD, step_size=[0.1, 0.2]); a solver without needs no Grid"
            )
        for name, values in axes.items():
            if isinstance(values, str) or not isinstance(values, Iterable) or not (listed := list(values)):
                raise ValueError(f"{name} must be a list of the values to try, such as [0.1, 0.2]; got {_checks.shown(values)}")
            try:
                set(listed)
            except TypeError:
                raise TypeError(
                    f"{name} must have values such as numbers, texts or tuples: name others by texts, for make to look up"
                ) from None
            if any(one == other for one, other in itertools.combinations(listed, 2)):
                raise ValueError(f"{name} must have different values; got {listed}")
            axes[name] = sorted(listed) if _geometric(listed) else listed
        self.make, self.axes = make, axes

    def __repr__(self) -> str:
        return f"Grid({named(self.make)}, {', '.join(f'{axis}={values}' for axis, values in self.axes.items())})"

    def points(self) -> list[Point]:
        """Return the points that are tried first.

        Returns
        -------
        list of tuple
            A value for each axis.
        """
        return list(itertools.product(*self.axes.values()))

    def solver(self, point: Point) -> Solver:
        """Return the solver of a point.

        Parameters
        ----------
        point : tuple
            A value for each axis.

        Returns
        -------
        Solver
            The solver.
        """
        return self.make(**dict(zip(self.axes, self._checked(point), strict=True)))

    def beside(self, point: Point, tried: Collection[Point]) -> list[Point]:
        """Return the neighbours of a point along every geometric axis, at values that were tried, or beyond them.

        Parameters
        ----------
        point : tuple
            A value for each axis.
        tried : collection of tuple
            All points that were tried.

        Returns
        -------
        list of tuple
            The neighbours.
        """
        point = self._checked(point)
        if not isinstance(tried, Collection) or point not in (every := [self._checked(other, "tried") for other in tried]):
            raise ValueError(f"tried must be a list of points with {point} among them; got {_checks.shown(tried)}")
        found = []
        for place, (name, first) in enumerate(self.axes.items()):
            if not _geometric(first):
                continue
            if not _geometric(values := [other[place] for other in every]):
                raise ValueError(f"tried must have positive numbers for {name}, as its axis has; got {_checks.shown(values)}")
            values = sorted(set(values))
            at = values.index(point[place])
            for step in (-1, 1):
                inside = 0 <= at + step < len(values)
                value = values[at + step] if inside else self._beyond(point, place, values[::-step], _ALONE**step)
                if value is not None:
                    found.append((*point[:place], value, *point[place + 1 :]))
        return found

    def _checked(self, point: Point, name: str = "point") -> Point:
        if not isinstance(point, tuple) or len(point) != len(self.axes):
            wanted = f"a tuple of a value for each of {', '.join(self.axes)}"
            raise ValueError(f"{name} must be {wanted}{' in each place' * (name != 'point')}; got {_checks.shown(point)}")
        return point

    def _beyond(self, point: Point, place: int, values: list[Any], ratio: float) -> Any:  # noqa: ANN401
        """Return the next value on an axis, of which ``values`` are those at hand from its end on; None if there is none.

        ``ratio`` is that of neighbours where a single value is at hand.
        """
        ratio = values[0] / values[1] if len(values) > 1 else ratio
        for share in _SHARES:
            value: Any = float(f"{values[0] * ratio**share:.6g}")
            if all(isinstance(one, Integral) for one in values):
                value = round(value)
            if value == values[0] or value <= 0:
                continue
            try:
                self.solver((*point[:place], value, *point[place + 1 :]))
            except ValueError:  # beyond what the solver takes
                continue
            except Exception as error:
                error.add_note(
                    f"This was in {named(self.make)}, beyond the values of the grid: {list(self.axes)[place]} = {value:g}."
                )
                raise
            return value
        return None

    def shown(self, point: Point) -> str:
        """Return a point in words.

        Parameters
        ----------
        point : tuple
            A value for each axis.

        Returns
        -------
        str
            The text.
        """
        return ", ".join(f"{name} = {plain(value)}" for name, value in zip(self.axes, self._checked(point), strict=True))


def named(function: Any) -> str:  # noqa: ANN401  # whatever can be called
    """Return the name of a function, of one that has some of its arguments, or of the class of an object that is called."""
    function = getattr(function, "func", function)  # of a functools.partial
    return str(getattr(function, "__name__", type(function).__name__))


def plain(value: object) -> str:
    """Return a value as tables show it."""
    if isinstance(value, Mapping):  # of a file: the name of a class, and its settings
        return ", ".join(plain(part) if name == "kind" else f"{name} = {plain(part)}" for name, part in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def at_end(grid: Grid, point: Point) -> bool:
    """Return whether a value of a point, other than zero, is the last of three or more numbers that cannot grow."""
    for values, value in zip(grid.axes.values(), point, strict=True):
        numbers = all(isinstance(one, Real) and not isinstance(one, bool) for one in values)
        if numbers and len(values) > 2 and not _geometric(values) and value != 0 and value in (min(values), max(values)):
            return True
    return False


def _geometric(values: Sequence[Any]) -> bool:
    return all(isinstance(one, Real) and not isinstance(one, bool) and float(one) > 0 for one in values)
