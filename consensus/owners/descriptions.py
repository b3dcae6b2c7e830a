"""Descriptions of the columns of all owners' tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np

from consensus import _checks
from consensus.owners.exchanges import Exchanges, OneProcess, Together
from consensus.owners.own_table import without_cells
from consensus.owners.sums import Sums
from consensus.tables import looks, readers
from consensus.tables.frames import Reading, as_frame, is_frame, numbers_of
from consensus.tables.pipeline import Given
from consensus.tables.readers import ReadingOptions

if TYPE_CHECKING:
    import networkx as nx
    import pandas

    from consensus.privacy.fixed_point import SecureSums
    from topologies.schedules import ScheduleLike

_BINS = 400  # of each column, over eight deviations about the mean
_REACH = 4.0
_QUARTILES = (0.25, 0.5, 0.75)


class _Dealt(NamedTuple):
    network_size: int
    labels: Any = None


class Opened(NamedTuple):
    """Tables of the owners here, and the kinds of the columns of all, with what adds over owners."""

    frames: list[Any]
    kinds: dict[str, str]
    sums: Sums
    exchange: Exchanges


def opened(
    data: Any,  # noqa: ANN401  # as describe takes it
    categories: Sequence[str],
    network: nx.Graph | ScheduleLike | None,
    engine: Together | None,
    secure: bool | SecureSums,
    settings: Mapping[str, object],
    reading: ReadingOptions,
) -> Opened:
    """Return the tables of the owners here, of whose columns all have agreed."""
    together: Together = OneProcess() if engine is None else engine
    _checks.offers("engine", together, ("size", "rows", "agreed", "allgather"), "an engine, such as consensus.engines.MPI()")
    given = list(data.values()) if isinstance(data, Mapping) else list(data) if isinstance(data, list | tuple) else [data]
    if not given:
        raise ValueError("data must be a table, or a list of tables with one for each owner; got none")
    tables = [
        _table(f"data[{place}]", one, categories, Reading(**reading), together.size > 1) for place, one in enumerate(given)
    ]
    exchange = Exchanges(together)
    kinds = exchange("columns", "names of columns, and which are numbers", [kinds for _, kinds, _ in tables], len)
    sums = Sums(_Dealt(len(kinds)), network, engine, secure, settings)
    sums.reject([error for *_, error in tables])
    _check_kinds(kinds)
    return Opened([frame for frame, *_ in tables], kinds[0], sums, exchange)


def describe(
    data: Given | Sequence[Given] | Mapping[str, Given],
    *,
    categories: Sequence[str] = (),
    network: nx.Graph | ScheduleLike | None = None,
    engine: Together | None = None,
    secure: bool | SecureSums = False,
    least: int = 5,
    **reading: Unpack[ReadingOptions],
) -> pandas.DataFrame:
    """Return rows, missing shares, means, deviations and quartiles of the columns of all owners' tables.

    It needs no target and takes missing cells: it is the first look at tables that stay where they are. Owners send names of
    columns and the texts of ``categories`` to all others, and add counts and sums along a tree of their network.

    Parameters
    ----------
    data : pandas.DataFrame, path, or list or mapping of them
        As for :func:`consensus.data.own`: on ranks the table of this rank's owner, in one process a list of all.
    categories : sequence of str
        Columns of categories, whose texts the others learn; each gets a row with its share. Of other columns of text there are
        the missing cells alone.
    network : networkx.Graph or schedule, optional
        Who talks to whom: static, undirected and connected; by default all with the first owner, or that of peers.
    engine : Engine, optional
        The ranks; by default all owners are in this process.
    secure : bool or SecureSums
        Whether masks hide the terms of each owner, so that others learn the totals alone.
    least : int
        Counts below it, of rows, of missing cells and of categories, are NaN, as is what is computed from so few numbers, and
        so are the next larger counts, where a small one could be computed from them and the total.
    **reading
        How files of text are read, as by :func:`consensus.datasets.load`.

    Returns
    -------
    pandas.DataFrame
        A row for each column and category, with the columns ``rows`` (cells that are there), ``missing`` (the share of others),
        ``mean``, ``deviation``, ``25%``, ``50%`` and ``75%``. Quartiles are exact to a fiftieth of a deviation, within four
        deviations of the mean; those of whole numbers are whole, and exact if their deviation is below 50.

    Raises
    ------
    ValueError
        If owners have different columns, or one has text where another has numbers: columns and owners are named.

    Examples
    --------
    >>> import numpy as np, pandas as pd, consensus
    >>> oslo = pd.DataFrame({"age": np.arange(20.0, 80.0), "ward": ["A", "B"] * 30})
    >>> rome = pd.DataFrame({"age": [50.0] * 30 + [np.nan] * 10, "ward": ["A"] * 40})
    >>> table = consensus.owners.describe([oslo, rome], categories=["ward"])
    >>> table.loc["age", ["rows", "mean", "deviation"]].round(1).tolist(), float(table.loc["ward_B", "mean"])
    ([90.0, 49.7, 14.2], 0.3)
    """
    _checks.count("least", least)
    listed = isinstance(categories, Sequence) and not isinstance(categories, str)
    if not listed or not all(isinstance(name, str) for name in categories):
        raise TypeError(f"categories must be a list of names of columns, such as ['ward']; got {_checks.shown(categories)}")
    frames, kinds, sums, exchange = opened(data, categories, network, engine, secure, {}, reading)
    numbers = [name for name, kind in kinds.items() if kind == "numbers"]
    texts = {name: _texts(exchange, frames, name) for name in kinds if kinds[name] == "categories"}
    values = [{name: np.asarray(numbers_of(frame[name]), float) for name in numbers} for frame in frames]
    first = sums(
        "counts",
        "rows, cells that are there, those that are no whole numbers, sums, and rows of each category",
        [
            {
                "rows": len(frame),
                "there": [frame[name].notna().sum() for name in kinds],
                "sums": [np.nansum(own[name]) for name in numbers],
                "fractions": [np.nansum(own[name] != np.rint(own[name])) - np.isnan(own[name]).sum() for name in numbers],
                "categories": [
                    frame[name].map(looks.text_of, na_action="ignore").eq(text).sum() for name in texts for text in texts[name]
                ],
            }
            for frame, own in zip(frames, values, strict=True)
        ],
    )
    there = dict(zip(kinds, np.rint(first["there"]), strict=True))
    count = np.array([there[name] for name in numbers])
    mean = first["sums"] / np.maximum(count, 1)
    second = sums(
        "squares",
        "squared distances to the mean",
        [{"squares": [np.nansum(np.square(own[name] - m)) for name, m in zip(numbers, mean, strict=True)]} for own in values],
    )
    deviation = np.sqrt(second["squares"] / np.maximum(count - 1, 1))
    quartiles = _quartiles(sums, values, numbers, mean, deviation, first["fractions"] == 0)
    import pandas

    names = ["rows", "missing", "mean", "deviation", *(f"{share:.0%}" for share in _QUARTILES)]
    rows, found = float(first["rows"]), {}
    for name, kind in kinds.items():
        known, gone = _released([there[name], rows - there[name]], least)
        if kind == "categories":
            counts = dict(zip([(one, text) for one in texts for text in texts[one]], np.rint(first["categories"]), strict=True))
            *told, gone = _released([*(counts[name, text] for text in texts[name]), rows - there[name]], least)
            for text, own in zip(texts[name], told, strict=True):
                found[f"{name}_{text}"] = [own, gone / rows, own / max(there[name], 1), *[np.nan] * 4]
        elif kind == "numbers":
            place = numbers.index(name)
            told = [mean[place], deviation[place], *quartiles[place]]
            found[name] = [known, gone / rows, *(told if there[name] >= least else [np.nan] * 5)]
        else:
            found[name] = [known, gone / rows, *[np.nan] * 5]
    return pandas.DataFrame.from_dict(found, orient="index", columns=names)


def _released(counts: Sequence[float], least: int) -> list[float]:
    """Return the parts of a known total, NaN in place of those that are smaller than ``least``, but not 0.

    The smallest others are NaN, too, until those that are NaN are at least so many together, and more than one: no small part
    can be computed from the rest.
    """
    found = np.array(counts, float)
    hidden = (found > 0) & (found < least)
    if hidden.any():
        for place in np.argsort(np.where(found > 0, found, np.inf), kind="stable").tolist():
            if hidden.sum() > 1 and found[hidden].sum() >= least:
                break
            hidden[place] |= found[place] > 0
    return [np.nan if out else float(count) for out, count in zip(hidden, found, strict=True)]


def _table(
    name: str, data: object, categories: Sequence[str], reading: Reading, discreet: bool
) -> tuple[Any, dict[str, str], Exception | None]:
    """Return an owner's frame and the kinds of its columns, or the error of reading it, which if ``discreet`` shows no cell."""
    frame: Any = None
    try:
        frame = as_frame(data)
        if not is_frame(frame):
            if not isinstance(data, str | os.PathLike):
                raise TypeError(f"{name} must be a data frame, or the path of a file; got {_checks.shown(data)}")
            frame = readers.opened(_checks.path(name, data), reading, list(categories))[0]
        frame = frame.rename(columns=str)
        absent = [one for one in categories if one not in frame.columns]
        if absent:
            raise ValueError(f"categories must be columns of {name}; it has no {', '.join(map(repr, absent))}")
        kinds = {
            column: "categories" if column in categories else "text" if numbers_of(frame[column]) is None else "numbers"
            for column in frame.columns
        }
        return frame, kinds, None
    except Exception as error:  # whatever reading a file raises
        return None, {}, without_cells(error, name, frame) if discreet else error


def _check_kinds(kinds: Sequence[dict[str, str]]) -> None:
    every = list(dict.fromkeys(name for own in kinds for name in own))
    for name in every:
        found = [own.get(name, "missing") for own in kinds]
        if len(set(found)) > 1:
            shown = ", ".join(f"{kind} at owner {owner}" for owner, kind in enumerate(found))
            raise ValueError(f"all owners must have the same columns, of the same kinds; {name!r} is {shown}")


def _texts(exchange: Exchanges, frames: Sequence[Any], name: str) -> list[str]:
    own = [sorted({looks.text_of(cell) for cell in frame[name].dropna()}) for frame in frames]
    return sorted(set().union(*exchange(f"categories of {name!r}", "their texts", own, len)))


def _quartiles(
    sums: Sums,
    values: Sequence[dict[str, np.ndarray]],
    numbers: Sequence[str],
    mean: np.ndarray,
    deviation: np.ndarray,
    whole: np.ndarray,
) -> np.ndarray:
    """Return the quartiles (columns, 3), by counts of cells in bins about the mean; those of ``whole`` columns are, too."""
    edges = mean[:, None] + deviation[:, None] * np.linspace(-_REACH, _REACH, _BINS + 1)

    def counts(own: dict[str, np.ndarray]) -> np.ndarray:
        known = [own[name][~np.isnan(own[name])] for name in numbers]
        return np.array(
            [
                np.bincount(np.clip(np.searchsorted(edge, cells) - 1, 0, _BINS - 1), minlength=_BINS)
                for edge, cells in zip(edges, known, strict=True)
            ]
        ).reshape(len(numbers), _BINS)

    below = np.cumsum(
        sums("histograms", f"cells in {_BINS} bins", [{"counts": counts(own)} for own in values])["counts"], axis=1
    )
    found = np.full((len(numbers), len(_QUARTILES)), np.nan)
    for place in range(len(numbers)):
        wanted = np.array(_QUARTILES) * below[place, -1]
        if below[place, -1] > 0 and whole[place]:
            found[place] = np.floor(edges[place, 1:][np.searchsorted(np.rint(below[place]), wanted)])
        elif below[place, -1] > 0:
            found[place] = np.interp(wanted, np.r_[0.0, below[place]], edges[place])
    return found
