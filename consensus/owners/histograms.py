"""Histograms and quantiles of a column of all owners' tables, on a grid that they agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.owners.descriptions import opened
from consensus.owners.designs import agreed_grid
from consensus.owners.exchanges import Together
from consensus.tables.frames import numbers_of
from consensus.tables.pipeline import Given
from consensus.tables.readers import ReadingOptions

if TYPE_CHECKING:
    import networkx as nx
    import pandas

    from consensus.privacy.fixed_point import SecureSums
    from topologies.schedules import ScheduleLike


def histogram(
    data: Given | Sequence[Given] | Mapping[str, Given],
    column: str,
    grid: ArrayLike,
    *,
    network: nx.Graph | ScheduleLike | None = None,
    engine: Together | None = None,
    secure: bool | SecureSums = False,
    least: int = 5,
    **reading: Unpack[ReadingOptions],
) -> pandas.DataFrame:
    """Return how many cells of a column all owners' tables have between the points of a grid.

    A bin with fewer than ``least`` cells, but some, is joined with the next one, and the last ones with the one before: no
    smaller number can be computed from the counts. Processes of owners compute them from the counts of all bins.

    Parameters
    ----------
    data : pandas.DataFrame, path, or list or mapping of them
        As for :func:`describe`.
    column : str
        A column of numbers. Missing cells are not counted.
    grid : array_like
        Numbers, in increasing order, the same at all owners.
    network : networkx.Graph or schedule, optional
        Who talks to whom: static, undirected and connected; by default all with the first owner, or that of peers.
    engine : Engine, optional
        The ranks; by default all owners are in this process.
    secure : bool or SecureSums
        Whether masks hide the counts of each owner, so that others learn the totals alone.
    least : int
        The smallest count that is returned, beside 0; it is NaN if all cells together are fewer.
    **reading
        How files of text are read, as by :func:`consensus.datasets.load`.

    Returns
    -------
    pandas.DataFrame
        A row for each bin, with the columns ``lower``, ``upper`` and ``rows``, the number of cells above ``lower`` and up to
        ``upper``. The first and last bin go on to infinity.

    Raises
    ------
    ValueError
        If ``column`` is not one of numbers, ``grid`` does not increase or differs between owners, or tables do, as for
        :func:`describe`.

    Examples
    --------
    >>> import numpy as np, pandas as pd, consensus
    >>> oslo, rome = pd.DataFrame({"age": np.arange(20.0, 80.0)}), pd.DataFrame({"age": [50.0] * 39 + [3.0]})
    >>> consensus.owners.histogram([oslo, rome], "age", grid=[10, 40, 60])
       lower  upper  rows
    0   -inf   40.0  22.0
    1   40.0   60.0  59.0
    2   60.0    inf  19.0
    """
    points = agreed_grid(grid)
    _checks.count("least", least)
    frames, kinds, sums, _ = opened(data, (), network, engine, secure, {"column": column, "grid": points.tolist()}, reading)
    numbers = [name for name, kind in kinds.items() if kind == "numbers"]
    if column not in numbers:
        raise ValueError(f"column must be one of the columns of numbers, {numbers}; got {column!r}")

    def counts(frame: pandas.DataFrame) -> np.ndarray:
        cells = np.asarray(numbers_of(frame[column]), float)
        return np.bincount(np.searchsorted(points, cells[~np.isnan(cells)]), minlength=len(points) + 1)

    total = sums("histogram", f"cells in {len(points) + 1} bins", [{"counts": counts(frame)} for frame in frames])["counts"]
    import pandas

    rows = _joined(np.r_[-np.inf, points, np.inf], np.rint(total), least)
    return pandas.DataFrame(rows, columns=["lower", "upper", "rows"])


def quantiles(
    data: Given | Sequence[Given] | Mapping[str, Given],
    column: str,
    grid: ArrayLike,
    shares: Sequence[float] = (0.25, 0.5, 0.75),
    *,
    network: nx.Graph | ScheduleLike | None = None,
    engine: Together | None = None,
    secure: bool | SecureSums = False,
    least: int = 5,
    **reading: Unpack[ReadingOptions],
) -> pandas.DataFrame:
    """Return quantiles of a column of all owners' tables, by its :func:`histogram`.

    Parameters
    ----------
    data : pandas.DataFrame, path, or list or mapping of them
        As for :func:`describe`.
    column : str
        A column of numbers.
    grid : array_like
        Numbers, in increasing order, the same at all owners: the finer it is, the closer are the bounds.
    shares : sequence of float
        Which quantiles, between 0 and 1: 0.5 is the median.
    network : networkx.Graph or schedule, optional
        As for :func:`histogram`.
    engine : Engine, optional
        As for :func:`histogram`.
    secure : bool or SecureSums
        As for :func:`histogram`.
    least : int
        As for :func:`histogram`.
    **reading
        How files of text are read, as by :func:`consensus.datasets.load`.

    Returns
    -------
    pandas.DataFrame
        A row for each share, with the columns ``quantile``, ``lower`` and ``upper``: the quantile is above ``lower`` and at
        most ``upper``. It is interpolated between them; NaN where one of them is infinite.

    Raises
    ------
    ValueError
        As :func:`histogram`; if a share is not between 0 and 1, or there are fewer than ``least`` cells.

    Examples
    --------
    >>> import numpy as np, pandas as pd, consensus
    >>> oslo, rome = pd.DataFrame({"age": np.arange(20.0, 80.0)}), pd.DataFrame({"age": [50.0] * 39 + [3.0]})
    >>> consensus.owners.quantiles([oslo, rome], "age", range(0, 101, 10), shares=[0.5]).round(1)
         quantile  lower  upper
    0.5      45.7   40.0   50.0
    """
    wanted = _checks.floats("shares", shares)
    if wanted.ndim != 1 or not ((wanted > 0) & (wanted < 1)).all():
        raise ValueError(f"shares must be a list of numbers between 0 and 1; got {_checks.shown(shares)}")
    table = histogram(data, column, grid, network=network, engine=engine, secure=secure, least=least, **reading)
    if table["rows"].isna().any():
        raise ValueError(f"quantiles need at least least={least} cells; {column!r} has fewer at all owners together")
    below = np.r_[0.0, table["rows"].cumsum()]
    place = np.searchsorted(below[1:], wanted * below[-1])
    lower, upper = (table[name].to_numpy()[place] for name in ("lower", "upper"))
    with np.errstate(invalid="ignore"):
        inside = lower + (upper - lower) * (wanted * below[-1] - below[place]) / (below[place + 1] - below[place])
    inside[~np.isfinite(inside)] = np.nan
    import pandas

    return pandas.DataFrame({"quantile": inside, "lower": lower, "upper": upper}, index=wanted)


def _joined(edges: np.ndarray, counts: np.ndarray, least: int) -> list[tuple[float, float, float]]:
    """Return lower ends, upper ends and counts of bins, joined so that none but 0 is smaller than ``least``."""
    rows: list[tuple[float, float, float]] = []
    lower, since = float(edges[0]), 0.0
    for upper, count in zip(edges[1:].tolist(), counts.tolist(), strict=True):
        since += count
        if since == 0 or since >= least:
            rows.append((lower, upper, since))
            lower, since = upper, 0.0
    while since and rows and since < least:
        lower, _, count = rows.pop()
        since += count
    if since:
        rows.append((lower, float(edges[-1]), since if since >= least else np.nan))
    return rows
