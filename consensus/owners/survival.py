"""Survival curves of all owners' rows, on times that they agree on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from consensus import _checks
from consensus.owners.designs import agreed_grid, check_owned, followed, placed
from consensus.owners.likelihoods import totals
from consensus.owners.sums import Sums

if TYPE_CHECKING:
    import networkx as nx
    import pandas
    from matplotlib.axes import Axes

    from consensus.owners.exchanges import Together
    from consensus.owners.owned import Owned
    from consensus.privacy.fixed_point import SecureSums
    from topologies.schedules import ScheduleLike


class LogRank(NamedTuple):
    """The log-rank test of equal hazards in all groups.

    Attributes
    ----------
    statistic : float
        Chi squared.
    freedom : int
        Its degrees of freedom.
    p : float
        Probability of so large a statistic if hazards are equal.

    Examples
    --------
    >>> from consensus.owners import LogRank
    >>> LogRank(3.84, 1, 0.05).p < 0.01
    False
    """

    statistic: float
    freedom: int
    p: float


@dataclass(frozen=True, eq=False)
class Curves:
    """Kaplan-Meier curves: what :func:`kaplan_meier` returns.

    Parameters
    ----------
    table : pandas.DataFrame
        A row for each group and released time, with the columns ``group``, ``time``, ``at risk``, ``events`` since the row
        before, ``survival``, ``lower`` and ``upper``.
    medians : dict of str to float
        Of each group the first time of the grid at which survival is at most 1/2; infinite if it never is.
    log_rank : LogRank or None
        The test of equal hazards; None for a single group.
    level : float
        Coverage of the intervals.
    revealed : pandas.DataFrame
        The sums: what each reveals.

    Examples
    --------
    >>> import pandas as pd
    >>> from consensus.owners import Curves
    >>> Curves(pd.DataFrame({"group": ["all"], "time": [30.0], "survival": [0.8]}), {"all": 70.0}, None, 0.95).medians["all"]
    70.0
    """

    table: pandas.DataFrame
    medians: dict[str, float]
    log_rank: LogRank | None
    level: float
    revealed: pandas.DataFrame | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _checks.offers("table", self.table, ("columns", "groupby"), "a data frame, as kaplan_meier(...).table")

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Plot the curves and their intervals.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        from consensus.plotting.runs import COLORS, DASHES, literal, new_axes

        if missing := {"group", "time", "survival", "lower", "upper"} - set(self.table.columns):
            raise ValueError(f"table must have intervals to be drawn; it has no column {', '.join(sorted(missing))}")
        ax = _checks.axes(ax) or new_axes((6.4, 4.0))
        for place, (group, rows) in enumerate(self.table.groupby("group", sort=False)):
            color, dash = COLORS[place % len(COLORS)], DASHES[place % len(DASHES)]
            time, survival = np.r_[0.0, rows.time], np.r_[1.0, rows.survival]
            ax.step(time, survival, where="post", color=color, linestyle=dash, label=literal(str(group)))
            lower, upper = (np.r_[1.0, rows[name]] for name in ("lower", "upper"))
            ax.fill_between(time, lower, upper, step="post", color=color, alpha=0.15, linewidth=0)
        ax.set(xlabel="time", ylabel="survival", ylim=(0, 1.02))
        ax.legend()
        return ax


def kaplan_meier(
    owned: Owned,
    grid: ArrayLike,
    by: str | None = None,
    *,
    network: nx.Graph | ScheduleLike | None = None,
    engine: Together | None = None,
    secure: bool | SecureSums = False,
    least: int = 5,
    level: float = 0.95,
) -> Curves:
    """Return Kaplan-Meier curves of the rows of all owners, and the log-rank test of groups.

    Times are rounded up to the next one of the grid, and rows are followed until the last. Intervals are Greenwood's, for the
    logarithm of the cumulative hazard.

    Parameters
    ----------
    owned : Owned
        What :func:`consensus.data.own` returned, with two columns as target, time and event: ``target=["days", "died"]``.
    grid : array_like
        Times, in increasing order.
    by : str, optional
        A column of categories, each of which gets a curve.
    network : networkx.Graph or schedule, optional
        Who talks to whom: static, undirected and connected; by default all with the first owner, or that of peers.
    engine : Engine, optional
        That of :func:`consensus.data.own`: the ranks; by default all owners are in this process.
    secure : bool or SecureSums
        Whether masks hide the counts of each owner, so that others learn the totals alone.
    least : int
        A time is in the table if at least so many are at risk, and none or at least so many had events since the time before:
        no smaller number can be computed from the table. Processes of owners compute it from all counts.
    level : float
        Coverage of the intervals, between 0 and 1.

    Returns
    -------
    Curves
        The table of the curves, medians and the test.

    Raises
    ------
    ValueError
        If there are no events, ``grid`` does not increase, or ``by`` is no column of categories.

    References
    ----------
    Kaplan, Meier, "Nonparametric estimation from incomplete observations", JASA 53, 1958.

    Examples
    --------
    >>> import contextlib, io
    >>> import numpy as np, pandas as pd, consensus
    >>> rng = np.random.default_rng(0)
    >>> tables = [pd.DataFrame({"arm": rng.choice(["a", "b"], rows), "days": rng.exponential(100, rows)}) for rows in (90, 200)]
    >>> tables = [table.assign(died=(rng.random(len(table)) < 0.8).astype(int)) for table in tables]
    >>> with contextlib.redirect_stdout(io.StringIO()):
    ...     owned = consensus.data.own(tables, ["days", "died"], categories=["arm"])
    >>> curves = consensus.owners.kaplan_meier(owned, range(20, 301, 20), by="arm")
    >>> curves.medians, bool(curves.log_rank.p > 0.05)
    ({'a': 120.0, 'b': 100.0}, True)
    """
    check_owned(owned)
    times = agreed_grid(grid)
    _checks.count("least", least)
    level = _checks.number("level", level, above=0, below=1)
    columns = owned.pipeline.columns
    known = {} if columns is None else columns.categories
    if by is not None and not (isinstance(by, str) and by in known):
        raise ValueError(f"by must be one of the columns of categories, {list(known)}; got {by!r}")
    groups = ["all"] if by is None else list(known[by])
    sums = Sums(owned.shards, network, engine, secure, {"grid": times.tolist(), "by": by})
    own, errors = zip(*(_counts(owned, place, by, groups, times) for place in range(owned.shards.agents)), strict=True)
    sums.reject(errors)
    reveals = "at each time of the grid how many are at risk and how many have events, by group"
    found = totals(sums, "risk sets", reveals, own, dict)
    for entry in sums.revealed().itertuples(index=False):
        owned.revealed.loc[len(owned.revealed)] = list(entry)
    risk, events = np.rint(found["at risk"]), np.rint(found["events"])
    if not events.any():
        raise ValueError("curves need events until the last time of the grid; the rows of all owners have none")
    table, medians = [], {}
    for group, n, d in zip(groups, risk, events, strict=True):
        rows, medians[group] = _curve(times, n, d, least, level)
        table += [(group, *row) for row in rows]
    import pandas

    names = ["group", "time", "at risk", "events", "survival", "lower", "upper"]
    test = None if by is None else log_rank(risk, events)
    return Curves(pandas.DataFrame(table, columns=names), medians, test, level, sums.revealed())


def _counts(
    owned: Owned, place: int, by: str | None, groups: list[str], times: np.ndarray
) -> tuple[dict[str, Any], Exception | None]:
    """Return who is at risk and who has events at each time (groups, times), of the owner at a place, or what is wrong."""
    try:
        X, time, event, weights = followed(owned, place)
        if np.ptp(weights) > 0:
            raise ValueError(f"owner {owned.shards.rows[place]}: survival curves take no weights of rows: give own no weights=")
        member = np.ones((1, len(X)), bool)
        if by is not None:
            features = owned.pipeline.columns.features if owned.pipeline.columns else ()
            places = [features.index(f"{by}_{group}") for group in groups]
            shares = owned.pipeline.mean[places] + owned.pipeline.scale[places] * X[:, places]
            member = np.abs(shares.T - 1) < 1e-6
            if not (member.sum(axis=0) == 1).all():
                raise ValueError(
                    f"owner {owned.shards.rows[place]}: {by!r} must have no missing cells: give own missing='drop'"
                )
    except ValueError as error:
        return {}, error
    end = placed(times, time)
    leave = np.array([np.bincount(end[own], minlength=len(times) + 1) for own in member])
    events = [np.bincount(end[own & (event > 0)], minlength=len(times) + 1)[: len(times)] for own in member]
    return {"at risk": np.cumsum(leave[:, ::-1], axis=1)[:, ::-1][:, : len(times)], "events": np.array(events)}, None


def _curve(times: np.ndarray, n: np.ndarray, d: np.ndarray, least: int, level: float) -> tuple[list[tuple[float, ...]], float]:
    """Return the released rows of a curve, and its median."""
    with np.errstate(divide="ignore", invalid="ignore"):
        survival = np.cumprod(np.where(n > 0, 1 - d / n, 1.0))
        greenwood = np.cumsum(np.where(d > 0, d / (n * (n - d)), 0.0))
        width = stats.norm.isf((1 - level) / 2) * np.sqrt(greenwood) / np.log(survival)
        bounds = [np.where(survival == 1, 1.0, np.exp(np.log(survival) * np.exp(sign * width))) for sign in (-1, 1)]
    rows: list[tuple[float, ...]] = []
    since = 0.0
    for place, time in enumerate(times.tolist()):
        since += d[place]
        if n[place] >= least and (since == 0 or since >= least):
            rows.append((time, n[place], since, survival[place], bounds[0][place], bounds[1][place]))
            since = 0.0
    below = survival <= 0.5
    return rows, float(times[np.argmax(below)]) if below.any() else np.inf


def log_rank(risk: np.ndarray, events: np.ndarray) -> LogRank:
    """Return the log-rank test of counts (groups, times) of those at risk and those with events."""
    n, d = risk.sum(axis=0), events.sum(axis=0)
    used = (d > 0) & (n > 1)
    share, n, d = risk[:, used] / n[used], n[used], d[used]
    difference = (events[:, used] - share * d).sum(axis=1)[:-1]
    factor = d * (n - d) / (n - 1)
    variance = np.diag((share * factor).sum(axis=1)) - (share * factor) @ share.T
    statistic = float(difference @ np.linalg.pinv(variance[:-1, :-1]) @ difference)
    freedom = len(risk) - 1
    return LogRank(statistic, freedom, float(stats.chi2.sf(statistic, freedom)))
