"""Data of owners, each of whom keeps its table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

import numpy as np

from consensus import _checks
from consensus._arrays.sparse import scaled
from consensus.data.shards import Shards, padded
from consensus.owners.agreement import Agreement, Scaler, agree, agreed_sizes, scaler
from consensus.owners.exchanges import Exchanges, OneProcess, Together
from consensus.owners.own_table import OwnTable, announced
from consensus.tables import looks
from consensus.tables.cuts import apart, later
from consensus.tables.frames import Columns, Reading, codes, filled
from consensus.tables.pipeline import Given, Pipeline
from consensus.tables.readers import ReadingOptions
from consensus.tables.tables import Roles
from topologies import _names

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Owned:
    """The data of owners who have agreed on columns and scalers: what :func:`consensus.data.own` returns.

    Parameters
    ----------
    shards : Shards
        Standardised samples, one agent an owner; on ranks those of this rank's owners alone.
    pipeline : Pipeline
        Columns, categories, scalers and classes: it turns new tables into inputs, and outputs into predictions.
    revealed : pandas.DataFrame
        The exchanges: for each what it reveals, and how many numbers or names, and bytes, all owners sent.
    test : Shards or None
        Each owner's own test rows, for ``solve(..., test=owned.test)``, if ``test_size`` was given.
    notes : tuple of str
        What became of missing cells, for readers of statistics.

    Examples
    --------
    >>> import contextlib, io, pandas as pd
    >>> from consensus.data import own
    >>> oslo = pd.DataFrame({"age": [30.0, 50.0], "days": [2.0, 4.0]})
    >>> rome = pd.DataFrame({"age": [70.0, 90.0, 60.0], "days": [9.0, 7.0, 8.0]})
    >>> with contextlib.redirect_stdout(io.StringIO()):  # what each owner would send
    ...     owned = own([oslo, rome], "days")
    >>> owned.shards
    Shards(2 agents, 2 to 3 samples each, features (1,), targets (1,), float64)
    >>> owned.pipeline.transform(pd.DataFrame({"age": [60.0]})).round(6).tolist(), list(owned.revealed.columns)[:2]
    ([[0.0]], ['exchange', 'reveals'])
    """

    shards: Shards
    pipeline: Pipeline
    revealed: pandas.DataFrame
    test: Shards | None = None
    notes: tuple[str, ...] = ()


def own(
    data: Given | Sequence[Given] | Mapping[str, Given],
    target: str | int | Sequence[str | int] | None = None,
    *,
    engine: Together | None = None,
    categories: Sequence[str | int] = (),
    classification: bool | None = None,
    test_size: float | None = None,
    seed: int = 0,
    features: Sequence[str | int] | int | None = None,
    drop: Sequence[str | int] = (),
    weights: str | int | None = None,
    groups: str | int | None = None,
    time: str | int | None = None,
    missing: Literal["error", "drop", "mean", "indicator"] = "error",
    unknown: Literal["error", "zeros"] = "error",
    **reading: Unpack[ReadingOptions],
) -> Owned:
    """Let owners agree on columns, categories, classes and scalers, while each keeps its table.

    Every process reads the tables of its own owners. What they exchange is printed before anything is sent, and returned as
    ``revealed``: names of columns, texts of categories and classes, numbers of rows, and for each number the sum and the sum of
    squared distances to the common mean. Every owner learns what each other one sends, not the totals alone. No row is sent.

    The result is that of one process with all tables, to the bit: sums are added in the order of owners.

    Parameters
    ----------
    data : pandas.DataFrame, path, or list or mapping of them
        On ranks the table of this rank's owner: a data frame, or a file as :func:`consensus.datasets.load` reads them.
        Features of files of svmlight stay sparse, and are divided by their standard deviations without centring.
        In one process, for a rehearsal, a list of the tables of all owners. A rank with several owners gives a list, too.
        All have the same columns, in any order. The keys of a mapping are the names of owners, such as ``{"Oslo": table}`` on
        the rank of Oslo: all owners give theirs, or none does. ``shards.labels`` has them, in the order of ranks, and
        :func:`consensus.solve` finds each owner's place in the network by its name.
    target : str or int, or a list of them
        The column to predict, by name or index; several must be numbers. Files of svmlight begin their lines with it.
    engine : MPI or Torch, optional
        The ranks that agree, such as ``consensus.engines.MPI()``; by default all owners are in this process.
    categories : sequence of str or int
        Columns whose values are categories, as text; each category of any owner becomes a feature. Columns of pandas'
        ``category`` dtype are categories by themselves.
    classification : bool, optional
        Whether the target is classes; by default it is if it is text, booleans or of ``category`` dtype.
    test_size : float, optional
        Share of each owner's rows, between 0 and 1, that it puts aside as its own test set, at least one; scalers do not depend
        on them.
    seed : int
        Seed of each owner's draw of test rows.
    features, drop : sequence of str or int
        The columns that are features, by default all others; columns to leave out. For svmlight ``features`` is how many there
        are, by default as many as the largest index of any owner.
    weights : str or int, optional
        A column of weights of rows, as :func:`consensus.partition` takes them; scalers do not depend on them.
    groups : str or int, optional
        A column of groups, such as patients, none of which is split between training and test rows; for svmlight ``"qid"``.
    time : str or int, optional
        A column of numbers or dates: each owner's last rows are its test rows.
    missing : {"error", "drop", "mean", "indicator"}
        Missing cells of features: an error with all columns that have some; their rows are left out; they become the mean of
        all owners; with ``indicator`` columns where an owner lacks some get one more feature that says where.
    unknown : {"error", "zeros"}
        Categories that no owner has, in predictions: an error, or zero for each category.
    **reading
        How files of text are read, as by :func:`consensus.datasets.load`: ``sep``, ``decimal``, ``thousands``, ``encoding``,
        ``comment``, ``header``, ``index``, ``na_values``.

    Returns
    -------
    Owned
        The shards, which :class:`consensus.Problem` takes, the pipeline, and what was revealed.

    Raises
    ------
    ValueError
        On all ranks, if columns or kinds of columns differ between owners, which are named, or arguments do. If a table cannot
        be read, or has missing or infinite values; other ranks hear which owner's it is, and nothing of what is in it. On ranks
        the error shows no cell, as others may read it.
    FileNotFoundError
        If a file is not there, on its rank.
    TypeError
        If ``data`` is neither a table nor a list of tables.

    Warns
    -----
    UserWarning
        Before anything is sent, if a column of categories nearly identifies rows, as names and numbers of patients do, or has
        texts that occur in one row. If a category or class occurs at one owner alone: in a rehearsal, where all tables are
        here, before anything is sent; on ranks when the owners have heard each other.

    Examples
    --------
    >>> import pandas as pd
    >>> from consensus.data import own
    >>> oslo = pd.DataFrame({"age": [30.0, 50.0], "ward": ["A", "B"], "days": [2.0, 4.0]})
    >>> rome = pd.DataFrame({"age": [70.0, 90.0, 60.0], "ward": ["C", "A", "A"], "days": [9.0, 7.0, 8.0]})
    >>> owned = own([oslo, rome], "days", categories=["ward"])
    2 owners agree in this process: nothing leaves it. On ranks each would send to all others, as the first one:
      columns     names of columns: 'age', 'ward', 'days'
      kinds       categories are 'ward'; the target is 'days', of numbers
      categories  'ward': 'A', 'B'
      rows        number of rows: 2
      sums        a sum over these rows for each number and each category, and for the target
      squares     a sum of squared distances to the common mean for each of these
    >>> owned.pipeline.columns.features
    ('age', 'ward_A', 'ward_B', 'ward_C')
    >>> owned.shards.sizes
    array([2, 3])
    """
    together = OneProcess() if engine is None else engine
    _checks.offers("engine", together, ("size", "rows", "agreed", "allgather"), "an engine, such as consensus.engines.MPI()")
    names = list(data) if isinstance(data, Mapping) else None
    given = list(data.values()) if isinstance(data, Mapping) else list(data) if isinstance(data, list | tuple) else [data]
    _checks.choice("classification", classification, (None, True, False))
    _checks.optional_number("test_size", test_size, above=0, below=1)
    _checks.count("seed", seed, least=0)
    if test_size is None and (groups is not None or time is not None):
        raise ValueError(f"groups and time say which rows are for the test: give test_size; got {groups!r} and {time!r}")
    named = [f"data[{place}]" if len(given) > 1 else "data" for place in range(len(given))]
    roles = (target, classification, categories, features, drop, weights, groups, time, missing, unknown)
    how = Reading(**reading)
    discreet = together.size > 1
    tables = [
        OwnTable.of(name, table, lambda: Roles(*roles), how, test_size, discreet)
        for name, table in zip(named, given, strict=True)
    ]
    with together.agreed():
        if not tables:
            raise ValueError("data must be a table, or a list of tables with one for each owner; got none")
        print(announced(tables[0], len(tables), together.size == 1, names), flush=True)
    held = together.allgather([(len(tables), names is not None)]) if together.size > 1 else [(len(tables), names is not None)]
    counts, with_names = zip(*held, strict=True)
    with together.agreed():
        if len(set(with_names)) > 1:
            raise ValueError("data must be mappings of names to tables, such as {'Oslo': table}, on all ranks, or on none")
        rows = together.rows(sum(counts))
        if rows.stop - rows.start != len(tables):
            raise ValueError(
                f"data must be {rows.stop - rows.start} tables on this rank, as owners are dealt; got {len(tables)}"
            )
    exchange = Exchanges(together)
    labels = None if names is None else _names.checked("names of owners", exchange("names", "names of owners", names))
    agreement = agree(tables, rows.start, exchange)
    here = np.arange(rows.start, rows.stop)
    return _standardised(tables, agreement, here, exchange, seed, labels, missing == "drop")


class _Rows(NamedTuple):
    """Rows of a table, by place, that are for training or for the test."""

    training: np.ndarray
    test: np.ndarray


def _standardised(
    tables: Sequence[OwnTable],
    agreement: Agreement,
    owners: np.ndarray,
    exchange: Exchanges,
    seed: int,
    labels: tuple[Hashable, ...] | None,
    dropped: bool,
) -> Owned:
    """Return the shards of the ``owners`` here, standardised by the training rows of all."""
    columns, target, classes, weighted, counted = agreement
    rows = [_dealt(own, [seed, owner]) for own, owner in zip(tables, owners.tolist(), strict=True)]
    sizes = agreed_sizes([list(map(len, own)) for own in rows], exchange)  # (owners, 2)
    X: list[Any]  # arrays, or sparse ones
    if counted is None:
        assert columns is not None, "tables have columns"
        X = [columns.transform(own.there.frame, "data").astype(float) for own in tables]
    else:
        X = [counted.matrix(own.there.X) for own in tables]
    samples = int(sizes[:, 0].sum())
    training = [x[own.training] for x, own in zip(X, rows, strict=True)]
    features = scaler(training, samples, "features", exchange, columns is not None and columns.missing == "mean")
    y = [own.there.y.reshape(len(own.there.y), -1).astype(float) for own in tables]
    goal = Scaler(np.zeros(len(target)), np.ones(len(target)))
    if classes is None:
        goal = scaler([own[place.training] for own, place in zip(y, rows, strict=True)], samples, "the target", exchange)
    else:
        own_classes = [own.there.classes or () for own in tables]
        found = [codes(f"column {target[0]!r}", own, classes, key=looks.label_of) for own in own_classes]
        y = [code[own.there.y].astype(float)[:, None] for code, own in zip(found, tables, strict=True)]
    shift, spread = (goal.mean, goal.scale) if len(target) > 1 else (float(goal.mean[0]), float(goal.scale[0]))
    if columns is None:  # sparse features keep their means
        pipeline = Pipeline(None, np.zeros_like(features.mean), features.scale, None, shift, spread, classes)
        X = [scaled(x, features.scale) for x in X]
    else:
        columns, name = columns.filled_by(features.mean), target[0] if len(target) == 1 else target
        pipeline = Pipeline(columns, features.mean, features.scale, name, shift, spread, classes)
        X = [(filled(x, features.mean) - features.mean) / features.scale for x in X]
    y = [(own - goal.mean) / goal.scale for own in y]
    c = [own.there.weights for own in tables]
    totals: list[float | None] = [None, None]
    if weighted:
        told = [[float(own[at].sum()) for at in place] for own, place in zip(c, rows, strict=True) if own is not None]
        totals = list(np.sum(exchange("weights", "sums of weights, for training and for tests", told, len), axis=0))
    ends = np.cumsum(sizes.sum(axis=1))
    shards = []
    for part in (0, 1) if sizes[:, 1].any() else (0,):
        begins = ends[owners] - sizes[owners].sum(axis=1)  # rows are counted through all tables
        own = [
            (x[at[part]], t[at[part]], begin + at[part], *([] if w is None else [w[at[part]]]))
            for x, t, w, at, begin in zip(X, y, c, rows, begins, strict=True)
        ]
        arrays = padded(own, sizes[owners, part].tolist(), X[0], y[0], int(sizes[:, part].max()))
        about = {"samples": int(sizes[:, part].sum()), "classes": classes, "rows": owners, "network_size": len(sizes)}
        shards.append(Shards(**arrays | about, total_weight=totals[part], labels=labels))
    test = shards[1] if len(shards) > 1 else None
    return Owned(shards[0], pipeline, exchange.revealed, test, _notes(columns, features.absent, samples, dropped))


def _notes(columns: Columns | None, absent: int | np.ndarray, samples: int, dropped: bool) -> tuple[str, ...]:
    """Return what became of missing cells."""
    if dropped:
        return ("complete cases: rows with missing cells were left out",)
    if columns is None or not np.any(absent):
        return ()
    counts = dict(zip(columns.features, np.broadcast_to(absent, len(columns.features)).tolist(), strict=True))
    first = {name: f"{name}_{columns.categories[name][0]}" if name in columns.categories else name for name in columns.names}
    shown = ", ".join(f"{counts[first[name]]:,} of {name!r}" for name in columns.names if counts[first[name]])
    return (f"missing cells are means over all owners, in {samples:,} rows {shown}: standard errors take them as observed",)


def _dealt(table: OwnTable, seed: list[int]) -> _Rows:
    """Return which rows are for training, and which for the test, each in the order of the table; none has weight 0."""
    own, rows = table.there, np.arange(len(table.there.y))
    training, tested = rows, rows[:0]
    rng = np.random.default_rng(seed)
    if table.test_size is not None and own.time is not None:
        training, tested = later(own.time, table.test_size)
    elif table.test_size is not None and own.groups is not None:
        training, tested = apart(own.groups, table.test_size, rng)
    elif table.test_size is not None:
        drawn = rng.permutation(len(rows))
        count = min(max(1, round(table.test_size * len(rows))), len(rows) - 1)
        training, tested = np.sort(drawn[count:]), np.sort(drawn[:count])
    if own.weights is not None:
        training, tested = training[own.weights[training] > 0], tested[own.weights[tested] > 0]
    return _Rows(training, tested)
