"""Positions of agents, given by users: arrays and tables, and who is close to whom."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from topologies import _checks, _names
from topologies._checks import listed, shown
from topologies._lines import plain
from topologies.pattern import Frame, is_table

if TYPE_CHECKING:
    import pandas as pd

Points: TypeAlias = ArrayLike | Mapping[Any, Sequence[float]] | Frame
_DEGREES = frozenset(["lat", "lon", "lng", "long", "latitude", "longitude"])


def positive(name: str, value: float) -> float:
    """Return a finite number above 0."""
    return _checks.real(name, value, "a finite number above 0", lambda number: 0 < number < math.inf)


def points(positions: Points) -> tuple[list[Hashable] | None, np.ndarray]:
    """Return the names of agents, if there are any, and their positions (agents, dimensions)."""
    names: list[Hashable] | None = None
    if isinstance(positions, Mapping):
        names, positions = list(positions), list(positions.values())
    elif is_table(positions):
        columns = list(positions.columns)
        wanted = [axis for axis in "xyz" if axis in columns] if {"x", "y"} <= set(columns) else columns
        _in_degrees(wanted)
        if len(wanted) > 3:
            raise ValueError(
                f"positions must have the columns x and y, and the names of agents as index; got {listed(columns)}"
            )
        names, positions = list(positions.index), positions[wanted].to_numpy()  # type: ignore[index]  # of pandas
        if len(set(names)) < len(names):
            raise ValueError(f"the index of positions must name each agent once, got {listed(names)}")
    found = finite(positions)
    if found.ndim != 2 or not found.shape[0] or not 1 <= found.shape[1] <= 3:
        raise ValueError(f"positions must have shape (agents, 2), or one or three columns; got {found.shape}")
    return names, found


def finite(positions: Any) -> np.ndarray:  # noqa: ANN401  # what a user passes
    """Return positions as floats; raise an error that names the first one that is masked or not finite."""
    found = _checks.numbers("positions", positions)
    broken = np.argwhere(~np.isfinite(found))
    if broken.size:
        raise ValueError(f"positions must be finite; {len(broken)} are not, the first at {broken[0].tolist()}")
    return found


def _in_degrees(columns: Sequence[Hashable]) -> None:
    found = [column for column in columns if isinstance(column, str) and plain(column) in _DEGREES]
    if found:
        raise ValueError(
            f"positions in degrees, {listed(found)}, have no distances: pass lengths, such as x = 111.32 * longitude * "
            "cos(radians(mean latitude)) and y = 110.57 * latitude in kilometres, in columns named x and y"
        )


def close(positions: np.ndarray, radius: float) -> np.ndarray:
    """Return the pairs (pairs, 2) of positions at most `radius` apart, up to rounding errors of the positions."""
    from scipy.spatial import cKDTree  # slow to import

    found: np.ndarray = cKDTree(positions).query_pairs(radius, output_type="ndarray")
    return found


def tolerant(radius: float, positions: np.ndarray) -> float:
    """Return a radius that rounding errors of positions do not pass: neighbours on a lattice of 0.1 are 0.1 apart."""
    return radius + 4 * float(np.spacing(max(radius, np.abs(positions).max(initial=0.0))))


def paths(table: Frame | str | PathLike[str], columns: Sequence[str] | None) -> tuple[list[Hashable], np.ndarray]:
    """Return the names of agents and their positions (rounds, agents, dimensions) from rows of time, agent and coordinates."""
    import pandas as pd

    frame: Any = pd.read_csv(table, comment="#", skipinitialspace=True) if isinstance(table, str | PathLike) else table
    if columns is None:
        columns = ("time", "agent", "x", "y", *(["z"] if "z" in list(frame.columns) else []))
    if isinstance(columns, str) or not 3 <= len(columns) <= 5:
        raise ValueError(f"columns must name the time, the agent and one to three coordinates, got {columns!r}")
    missing = [column for column in columns if column not in list(frame.columns)]
    if missing:
        raise ValueError(
            f"positions have no column {listed(map(repr, missing))}, only {', '.join(map(repr, frame.columns))}; say which are "
            "the time, the agent and the coordinates by columns=('time', 'agent', 'x', 'y')"
        )
    _in_degrees(columns[2:])
    when, who, axes = _moments(frame[columns[0]]), frame[columns[1]], list(columns[2:])
    if who.isna().any():
        raise ValueError(f"column {columns[1]!r} of positions has empty cells, the first in row {int(np.argmax(who.isna()))}")
    try:
        agents, agent = np.unique(who.to_numpy(), return_inverse=True)
        order = _names.as_numbers(agents.tolist())  # digits as text
        agents, agent = agents[order], np.argsort(order)[agent]
    except TypeError:
        raise TypeError(f"column {columns[1]!r} must hold names of one kind, text or numbers") from None
    times, turn = np.unique(when, return_inverse=True)
    counts = np.zeros((len(times), len(agents)), dtype=int)
    np.add.at(counts, (turn, agent), 1)
    for wrong, what in ((counts > 1, "more than one position"), (counts < 1, "no position")):
        for n, k in np.argwhere(wrong)[:1].tolist():
            raise ValueError(
                f"agent {agents[k]} has {what} at time {times[n]}, and so in {np.count_nonzero(wrong)} of {counts.size} cases; "
                "positions need one row for each agent and time: drop or interpolate rows by pandas"
            )
    steps = np.diff(times)
    if len(steps) and not np.allclose(steps.astype(float), float(steps[0].astype(float)), rtol=1e-6, atol=0):
        _checks.warn(
            f"times of positions are not evenly spaced, {shown(steps.min())} to {shown(steps.max())} apart; each is a round"
        )
    found = np.empty((len(times), len(agents), len(axes)))
    found[turn, agent] = finite(frame[axes].to_numpy())
    return agents.tolist(), found


def _moments(times: pd.Series[Any]) -> np.ndarray:
    """Return times as numbers or dates, which can be sorted."""
    import pandas as pd

    if times.isna().any():
        raise ValueError(f"column {times.name!r} of positions has empty cells, the first in row {int(np.argmax(times.isna()))}")
    if not (pd.api.types.is_numeric_dtype(times) or pd.api.types.is_datetime64_any_dtype(times)):
        try:
            times = pd.to_datetime(times, format="ISO8601", utc=True)
        except (ValueError, TypeError):
            raise ValueError(
                f"column {times.name!r} must hold numbers or dates in ISO 8601, got {shown(times.iloc[0])}"
            ) from None
    if getattr(times.dtype, "tz", None) is not None:
        times = times.dt.tz_convert("UTC").dt.tz_localize(None)
    found: np.ndarray = times.to_numpy()
    return found
