"""Settings tuned on grids that grow until the best one lies inside."""

import itertools
import math
import sys
from collections.abc import Callable
from typing import NamedTuple

from experiments.shared.tables import Table

MOST = 40  # times that grids grow


class Axis(NamedTuple):
    """A positive setting on a geometric grid.

    Attributes
    ----------
    name : str
        Name of the setting.
    start : tuple of float
        Values tried first.
    factor : float
        Ratio of neighbouring values.
    least, most : float
        Bounds that the solver has: ends of the grid, which do not count as its edges, because nothing is beyond.
    """

    name: str
    start: tuple[float, ...]
    factor: float = 2.0
    least: float = 0.0
    most: float = math.inf

    def beside(self, value: float) -> list[float]:
        """The one or two neighbours of a ``value``."""
        found = (max(value / self.factor, self.least), min(value * self.factor, self.most))
        return [near for near in (float(f"{one:.6g}") for one in found) if near != value]


class Family(NamedTuple):
    """A solver and the settings to tune: ``make(*point)`` is the solver with a value for each of the ``axes``."""

    make: Callable
    axes: tuple[Axis, ...] = ()
    label: str = ""

    def start(self) -> list[tuple[float, ...]]:
        """The points tried first."""
        return list(itertools.product(*(axis.start for axis in self.axes)))

    def beside(self, point: tuple[float, ...]) -> list[tuple[float, ...]]:
        """The neighbours of a ``point`` along each axis."""
        return [
            (*point[:place], near, *point[place + 1 :])
            for place, axis in enumerate(self.axes)
            for near in axis.beside(point[place])
        ]

    def shown(self, point: tuple[float, ...]) -> str:
        """The setting in words."""
        values = (f"{axis.name} {value:g}" for axis, value in zip(self.axes, point, strict=True))
        return ", ".join(filter(None, (self.label, *values)))


def tuned(run, families, merits, *, quick=False):
    """The outcomes at all points that were tried, ``{key: {point: outcome}}``.

    The grid of a family, of ``{key: Family}``, grows by the neighbours of its best point until all of them have been tried and
    are no better: the best lies inside. With several measures this holds for the best by each. ``run`` takes a list of ``(key,
    point)`` and returns ``{(key, point): outcome}``; ``merits(found, key, outcome)`` returns ``{measure: value}``, the least
    being the best, with ``found`` what is known of the result. ``quick`` tries one point of each family, to see that everything
    works.
    """
    found = {key: {} for key in families}
    missing = [(key, point) for key, family in families.items() for point in family.start()[: 1 if quick else None]]
    for _ in range(1 if quick else MOST):
        for (key, point), outcome in run(missing).items():
            found[key][point] = outcome
        missing = [(key, point) for key, family in families.items() for point in untried(found, key, family, merits)]
        if not missing:
            break
    return found


def untried(found, key, family, merits):
    """The neighbours of the family's best points that have not been tried: none if the best lies inside by every measure."""
    near = (beside for point in best(found, key, merits).values() for beside in family.beside(point))
    return [point for point in dict.fromkeys(near) if point not in found[key]]


def best(found, key, merits):
    """``{measure: point}``, the best of a family's points by each measure."""
    values = {point: merits(found, key, outcome) for point, outcome in found[key].items()}
    measures = next(iter(values.values()))
    return {measure: min(values, key=lambda point: (values[point][measure], point)) for measure in measures}


def chosen(found, method, measure, merits):
    """The ``(key, point)`` that is best by a measure, of all families whose keys are a ``method``'s and one entry more."""
    points = [(key, best(found, key, merits)[measure]) for key in found if key[:-1] == method]
    return min(points, key=lambda at: (merits(found, at[0], found[at[0]][at[1]])[measure], at))


def grids(found, families, merits, columns):
    """A table of what was tried: for each family and measure the best setting, the grid, and whether the best lies inside.

    Keys are tuples, one entry for each of ``columns``. How many lie at an edge is said on standard error, too.
    """
    edges = 0
    rows = Table({**dict.fromkeys(columns, ""), "measure": "", "best": "", "tried": "", "inside": ""})
    for key, family in families.items():
        if not family.axes:
            continue
        for measure, point in best(found, key, merits).items():
            tried = [sorted({other[place] for other in found[key]}) for place in range(len(family.axes))]
            shown = "; ".join(
                f"{axis.name} {' '.join(f'{value:g}' for value in values)}"
                for axis, values in zip(family.axes, tried, strict=True)
            )
            inside = all(near in found[key] for near in family.beside(point))
            edges += not inside
            rows.add(*map(str, key), str(measure), family.shown(point), shown, "yes" if inside else "no")
    if edges:
        print(f"warning: {edges} of {len(rows.rows)} best settings lie at the edge of their grid", file=sys.stderr)
    return rows
