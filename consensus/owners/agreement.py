"""Agreement of owners on columns, kinds, categories and classes, and on scalers of all their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from consensus import _checks
from consensus.owners.exchanges import Exchanges, total
from consensus.owners.own_table import Kinds, OwnTable
from consensus.tables import looks
from consensus.tables.frames import Classes, Columns
from consensus.tables.svmlight import Counted

T = TypeVar("T")
_EPS = np.finfo(float).eps
_KINDS = len(Kinds._fields) - 1  # of a table


class Agreement(NamedTuple):
    """The columns of all owners, the target's and its classes, whether rows have weights, and how svmlight counts features."""

    columns: Columns | None
    target: tuple[str, ...]
    classes: Classes | None
    weighted: bool
    counted: Counted | None = None


class Scaler(NamedTuple):
    """Means and standard deviations (columns,) of the rows of all owners; deviations of constant columns are one.

    ``absent`` are missing cells of each column, or 0.
    """

    mean: np.ndarray
    scale: np.ndarray
    absent: int | np.ndarray = 0


def agree(tables: Sequence[OwnTable], first: int, exchange: Exchanges) -> Agreement:
    """Let owners agree on columns and classes; ``tables`` are those of the owners ``first``, ``first`` + 1, ... of all.

    Raises the same ``ValueError`` everywhere if they cannot, but that an owner's own errors are raised where its table is.
    """
    names = exchange("columns", "names of columns", [table.names for table in tables], lambda names: len(names or ()))
    _reject(tables, first, [own is None for own in names])
    columns = [own or () for own in names]
    _check_columns(columns)
    kinds: list[Any] = exchange(
        "kinds",
        "target, which columns are categories, share of test rows, how missing values and others are treated"
        + (", largest index" if tables and tables[0].counted else ""),
        [None if table.kinds is None else table.kinds.sent() for table in tables],
        lambda own: 7 + sum(len(part) for part in own if isinstance(part, list)) + 3 * (len(own) > _KINDS) if own else 0,
    )
    _reject(tables, first, [own is None for own in kinds])
    agreed = [Kinds.received(own) for own in kinds if own is not None]
    _check_kinds(agreed)
    first_owner, target = agreed[0], agreed[0].target
    features = [name for name in columns[0] if name not in first_owner.others and name not in target]
    categories: dict[str, tuple[str, ...]] = {}
    for name in [name for name in features if name in first_owner.categories]:
        texts = exchange(f"categories of {name!r}", "their texts", [own.columns.categories[name] for own in tables], len)
        _warn_of_one_owner(f"column {name!r}", texts)
        categories[name] = tuple(sorted(set().union(*texts)))
    classes = None
    if first_owner.classification:
        found = exchange(f"classes of {target[0]!r}", "the classes", [table.there.classes or () for table in tables], len)
        classes = _union(found, target[0])
        _warn_of_one_owner(f"target {target[0]!r}", [list(map(looks.label_of, own)) for own in found])
    if first_owner.counted is not None:
        owners = [f"the file of owner {owner}" for owner in range(len(agreed))]
        counted = Counted.agreed([own.counted for own in agreed if own.counted is not None], owners)
        return Agreement(None, target, classes, first_owner.weighted, counted)
    marked = set().union(*(own.indicators for own in agreed))
    others, indicators = (*first_owner.others, *target), tuple(name for name in features if name in marked)
    reading = next((table.columns.reading for table in tables if table.columns.reading is not None), None)
    rules = first_owner.missing, indicators, None, first_owner.unknown, reading
    return Agreement(Columns(tuple(features), categories, others, *rules), target, classes, first_owner.weighted)


def agreed_sizes(counts: Sequence[list[int]], exchange: Exchanges) -> np.ndarray:
    """Return the numbers of rows of each owner, for training and for tests, shape (owners, 2)."""
    return np.array(exchange("rows", "numbers of rows, for training and for tests", counts, len))


def scaler(parts: Sequence[np.ndarray], samples: int, what: str, exchange: Exchanges, missing: bool = False) -> Scaler:
    """Return the scaler of the rows of all owners, by two exchanges of sums; ``parts`` (rows, columns) are the owners' here.

    If cells may be ``missing``, which are NaN, how many are there is exchanged too; deviations are those with means for them.
    """
    gone = [None if sp.issparse(part) else np.isnan(part) for part in parts]
    count: int | np.ndarray = samples
    if missing:
        count = total(
            exchange(
                f"counts of {what}", "values of each column", [(~own).sum(axis=0) for own in gone if own is not None], np.size
            )
        )
        if not np.all(count):
            raise ValueError(
                f"no owner has a training row with {what} {int(np.argmin(count))} (the first is 0): drop its column"
            )
    found = exchange(f"sums of {what}", "sum of each column", [_sums(part, own) for part, own in zip(parts, gone)], np.size)
    mean = total(found) / count
    squares = exchange(
        f"squares of {what}",
        "squared distances to the mean",
        [_squares(part, mean, own) for part, own in zip(parts, gone, strict=True)],
        np.size,
    )
    variance = total(squares) / samples
    constant = variance <= samples * _EPS * variance + (samples * mean * _EPS) ** 2  # by rounding alone
    return Scaler(mean, np.where(constant, 1.0, np.sqrt(variance)), samples - count)


def _sums(part: np.ndarray, gone: np.ndarray | None) -> np.ndarray:
    """Return the sum of each column, but for what is ``gone``, added pairwise, which rounds less than one after the other."""
    if gone is None:  # sparse
        return np.asarray(part.sum(axis=0))
    found: np.ndarray = np.ascontiguousarray(np.where(gone, 0.0, part).T).sum(axis=1)
    return found


def _squares(part: Any, mean: np.ndarray, gone: np.ndarray | None) -> np.ndarray:  # noqa: ANN401  # an array, or a sparse one
    """Return the sum of squared distances to the mean of each column."""
    if gone is not None:
        return _sums(np.square(part - mean), gone)
    columns, width = part.indices, part.shape[1]
    stored = np.bincount(columns, np.square(part.data - mean[columns]), width)
    found: np.ndarray = stored + (part.shape[0] - np.bincount(columns, minlength=width)) * np.square(mean)
    return found


def _reject(tables: Sequence[OwnTable], first: int, rejected: Sequence[bool]) -> None:
    if not any(rejected):
        return
    for place, table in enumerate(tables):
        if table.error is not None and rejected[first + place]:
            raise table.error
    raise ValueError(f"the table of {_owners(np.flatnonzero(rejected))} is rejected there: its own process says why")


def _warn_of_one_owner(what: str, texts: Sequence[Sequence[str]]) -> None:
    """Warn of texts that one of several owners has alone."""
    known = Counter(text for own in texts for text in set(own))
    for owner, own in enumerate(texts):
        alone = [repr(text) for text in own if known[text] == 1]
        if alone and len(texts) > 1:
            shown = _checks.some(alone)
            _checks.warn(
                f"in the {what} {shown} occurs at owner {owner} alone, so that all others know whose rows those are: merge it "
                "into a text that several owners have, unless it is no secret"
            )


def _check_columns(columns: Sequence[tuple[str, ...]]) -> None:
    if any(columns) and not all(columns):
        without = [owner for owner, own in enumerate(columns) if not own]
        raise ValueError(f"all owners must have tables, or all files of svmlight; those of {_owners(without)} are svmlight")
    every = list(dict.fromkeys(name for own in columns for name in own))
    lacking = {name: [owner for owner, own in enumerate(columns) if name not in own] for name in every}
    missing = [f"{name!r} is missing at {_owners(owners)}" for name, owners in lacking.items() if owners]
    if missing:
        shown = "; ".join(missing[:10]) + (f"; and {len(missing) - 10} more" if len(missing) > 10 else "")
        raise ValueError(f"all {len(columns)} owners must have the same columns: {shown}")


def _check_kinds(kinds: Sequence[Kinds]) -> None:
    targets = [own.target[0] if len(own.target) == 1 else own.target for own in kinds]
    if len(set(targets)) > 1:
        raise ValueError(f"target must be the same column at all owners; got {_differing(targets)}")
    for name in sorted(set().union(*(own.categories for own in kinds))):
        without = [owner for owner, own in enumerate(kinds) if name not in own.categories]
        if without:
            raise ValueError(
                f"column {name!r} is categories at some owners, and numbers at {_owners(without)}: name it in categories "
                "at all of them"
            )
    if len({own.classification for own in kinds}) > 1:
        what = _differing(["classes" if own.classification else "numbers" for own in kinds])
        raise ValueError(
            f"the target {targets[0]!r} must be classes or numbers at all owners; got {what}: classification=True makes "
            "them classes"
        )
    for name, values in (
        ("test_size", [own.test_size for own in kinds]),
        ("drop, features and the like", [own.others for own in kinds]),
        ("missing", [own.missing for own in kinds]),
        ("unknown", [own.unknown for own in kinds]),
        ("weights", ["a column" if own.weighted else "none" for own in kinds]),
    ):
        if any(value != values[0] for value in values):
            raise ValueError(f"{name} must be the same at all owners; got {_differing(values)}")


def _union(classes: Sequence[Classes], target: str) -> Classes:
    """Return the classes of all owners: those with one text are one, and True and False are 1 and 0 if others have numbers."""
    found = {one for own in classes for one in own}
    kinds = {"text" if isinstance(one, str) else type(one).__name__ for one in found}
    numbers = [one for one in found if isinstance(one, str) and looks.number_in()(one) is None]
    if "text" in kinds and len(kinds) > 1 and numbers:
        raise ValueError(
            f"classes of {target!r} must be all text or all numbers; got {_differing([list(own) for own in classes])}"
        )
    by_text: dict[str, Any] = {}
    for one in sorted(found, key=lambda one: isinstance(one, bool | str)):  # numbers first: their form is kept
        by_text.setdefault(looks.label_of(one), one)
    if len(by_text) < 2:
        raise ValueError(f"{target!r} must have at least 2 classes; all owners have only {next(iter(found))!r}")
    return tuple(sorted(by_text.values()))


def _owners(numbers: Sequence[int] | np.ndarray) -> str:
    return f"owner{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _differing(values: Sequence[object]) -> str:
    texts: dict[str, list[int]] = {}
    for owner, value in enumerate(values):
        texts.setdefault(repr(value), []).append(owner)
    return ", ".join(f"{text} at {_owners(owners)}" for text, owners in texts.items())
