"""What owners agree on: columns, kinds, categories and classes, and scalers of all their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from consensus.data.exchanges import Exchanges, total
from consensus.data.frames import Classes, Columns
from consensus.data.own_table import Kinds, OwnTable

T = TypeVar("T")
_EPS = np.finfo(float).eps


class Agreement(NamedTuple):
    """The columns of all owners, the target and its classes, and which owners of the network are here."""

    columns: Columns
    target: str
    classes: Classes | None


class Scaler(NamedTuple):
    """Means and standard deviations (columns,) of the rows of all owners; deviations of constant columns are one."""

    mean: np.ndarray
    scale: np.ndarray


def agree(tables: Sequence[OwnTable], first: int, exchange: Exchanges) -> Agreement:
    """Let owners agree on columns and classes; ``tables`` are those of the owners ``first``, ``first`` + 1, ... of all.

    Raises the same ``ValueError`` everywhere if they cannot, but that an owner's own errors are raised where its table is.
    """
    names = exchange("columns", "names of columns", [table.names for table in tables], lambda names: len(names or ()))
    _reject(tables, first, [own is None for own in names])
    columns = [own or () for own in names]
    _check_columns(columns)
    kinds = exchange(
        "kinds",
        "target, which columns are categories, share of test rows",
        [table.kinds for table in tables],
        lambda own: 3 + len(own[1]) if own else 0,
    )
    _reject(tables, first, [own is None for own in kinds])
    agreed = [own for own in kinds if own is not None]
    _check_kinds(agreed)
    target, marked, classification, _ = agreed[0]
    every = [table.categories or {} for table in tables]
    categories: dict[str, tuple[str, ...]] = {}
    for name in [name for name in columns[0] if name in marked]:
        texts = exchange(f"categories of {name!r}", "their texts", [own[name] for own in every], len)
        categories[name] = tuple(sorted(set().union(*texts)))
    classes = None
    if classification:
        found = exchange(f"classes of {target!r}", "the classes", [table.classes or () for table in tables], len)
        classes = _union(found, target)
    return Agreement(Columns(tuple(name for name in columns[0] if name != target), categories), target, classes)


def agreed_sizes(counts: Sequence[list[int]], exchange: Exchanges) -> np.ndarray:
    """Return the numbers of rows of each owner, for training and for tests, shape (owners, 2)."""
    return np.array(exchange("rows", "numbers of rows, for training and for tests", counts, len))


def scaler(parts: Sequence[np.ndarray], samples: int, what: str, exchange: Exchanges) -> Scaler:
    """Return the scaler of the rows of all owners, by two exchanges of sums; ``parts`` (rows, columns) are the owners' here."""
    found = exchange(f"sums of {what}", "sum of each column", [_sums(part) for part in parts], np.size)
    mean = total(found) / samples
    squares = exchange(
        f"squares of {what}", "squared distances to the mean", [_sums(np.square(part - mean)) for part in parts], np.size
    )
    variance = total(squares) / samples
    constant = variance <= samples * _EPS * variance + (samples * mean * _EPS) ** 2  # by rounding alone
    return Scaler(mean, np.where(constant, 1.0, np.sqrt(variance)))


def _sums(part: np.ndarray) -> np.ndarray:
    """Return the sum of each column, added pairwise, which rounds less than one after the other."""
    found: np.ndarray = np.ascontiguousarray(part.T).sum(axis=1)
    return found


def _reject(tables: Sequence[OwnTable], first: int, rejected: Sequence[bool]) -> None:
    if not any(rejected):
        return
    for place, table in enumerate(tables):
        if table.error is not None and rejected[first + place]:
            raise table.error
    raise ValueError(f"the table of {_owners(np.flatnonzero(rejected))} is rejected there: its own process says why")


def _check_columns(columns: Sequence[tuple[str, ...]]) -> None:
    every = list(dict.fromkeys(name for own in columns for name in own))
    lacking = {name: [owner for owner, own in enumerate(columns) if name not in own] for name in every}
    missing = [f"{name!r} is missing at {_owners(owners)}" for name, owners in lacking.items() if owners]
    if missing:
        shown = "; ".join(missing[:10]) + (f"; and {len(missing) - 10} more" if len(missing) > 10 else "")
        raise ValueError(f"all {len(columns)} owners must have the same columns: {shown}")


def _check_kinds(kinds: Sequence[Kinds]) -> None:
    targets, marked, classification, test_sizes = zip(*kinds, strict=True)
    if len(set(targets)) > 1:
        raise ValueError(f"target must be the same column at all owners; got {_differing(targets)}")
    for name in sorted(set().union(*marked)):
        without = [owner for owner, own in enumerate(marked) if name not in own]
        if without:
            raise ValueError(
                f"column {name!r} is categories at some owners, and numbers at {_owners(without)}: name it in categories "
                "at all of them"
            )
    if len(set(classification)) > 1:
        what = _differing(["classes" if own else "numbers" for own in classification])
        raise ValueError(
            f"the target {targets[0]!r} must be classes or numbers at all owners; got {what}: give classification="
        )
    if len(set(test_sizes)) > 1:
        raise ValueError(f"test_size must be the same at all owners; got {_differing(test_sizes)}")


def _union(classes: Sequence[Classes], target: str) -> Classes:
    found = set().union(*classes)
    if len({isinstance(one, str) for one in found}) > 1:
        raise ValueError(
            f"classes of {target!r} must be all text or all numbers; got {_differing([list(own) for own in classes])}"
        )
    if len(found) < 2:
        raise ValueError(f"{target!r} must have at least 2 classes; all owners have only {next(iter(found))!r}")
    return tuple(sorted(found))


def _owners(numbers: Sequence[int] | np.ndarray) -> str:
    return f"owner{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _differing(values: Sequence[object]) -> str:
    texts: dict[str, list[int]] = {}
    for owner, value in enumerate(values):
        texts.setdefault(repr(value), []).append(owner)
    return ", ".join(f"{text} at {_owners(owners)}" for text, owners in texts.items())
