"""Items of datasets, and what is made of a batch of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from consensus import _checks
from consensus.data.samples import converted
from consensus.streaming.mapped import Rows


def dataset_of(name: str, given: object) -> Any:  # noqa: ANN401  # no common class
    """Return a dataset with ``__len__`` and ``__getitem__``, of a pair (X, y) of arrays too; raise an error if it is none."""
    if isinstance(given, tuple) and len(given) == 2 and any(hasattr(part, "shape") for part in given):
        return Arrays(name, *(_checks.dense(f"{part} of {name}", array) for part, array in zip("Xy", given, strict=True)))
    if not (hasattr(given, "__len__") and hasattr(given, "__getitem__")):
        raise TypeError(
            f"{name} must have __len__ and __getitem__, because agents read their samples by number, or be a pair (X, y) of "
            f"arrays; got {_checks.shown(given)}: an IterableDataset has to be stored first"
        )
    return given


class Arrays:
    """A dataset of arrays of features X (samples, ...) and targets y, in memory or mapped to files."""

    def __init__(self, name: str, X: np.ndarray, y: np.ndarray) -> None:
        if X.ndim < 2 or y.ndim not in (1, 2) or len(X) != len(y):
            wanted = "features (samples, ...) and targets (samples,) or (samples, outputs)"
            raise ValueError(f"{name} must be a pair (X, y) of {wanted}; got arrays of shapes {X.shape} and {y.shape}")
        self.X, self.y = Rows(X), Rows(y)

    def __len__(self) -> int:
        return len(self.X.array)

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        return self.X.array[number], self.y.array[number]


def read(
    dataset: Any,  # noqa: ANN401  # no common class
    numbers: np.ndarray,
    collate: Callable[[list[Any]], Any] | None,
    who: str,
) -> tuple[Any, np.ndarray]:
    """Return inputs and targets (samples, columns) of some samples; ``who`` is the dataset's name in errors."""
    names = f"X of {who}", f"y of {who}"
    if collate is None and isinstance(dataset, Arrays):
        return converted(dataset.X(numbers), dataset.y(numbers), names)
    several = getattr(dataset, "__getitems__", None)  # as DataLoader reads
    items = several(numbers.tolist()) if several else [dataset[number] for number in numbers.tolist()]
    if collate is not None:
        return _collated(collate, items, who)
    try:
        pairs = [(_checks.dense(names[0], x), _checks.dense(names[1], y)) for x, y in items]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"items of {who} must be pairs (x, y) of arrays, or be made such by collate=; got {_checks.shown(items[0])}"
        ) from error
    shapes = {(x.shape, y.shape) for x, y in pairs}
    if len(shapes) > 1:
        one, other, *_ = sorted(shapes)
        raise ValueError(f"samples of {who} must have one shape, or be padded by collate=; got (x, y) of {one} and of {other}")
    X, y = (np.stack(arrays) for arrays in zip(*pairs, strict=True))
    return converted(X, y, names)


def _collated(collate: Callable[[list[Any]], Any], items: list[Any], who: str) -> tuple[Any, np.ndarray]:
    found = collate(items)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise TypeError(f"collate must return a pair (inputs, targets); of items of {who} it made {_checks.shown(found)}")
    inputs, targets = found
    y = _checks.array("targets that collate returns", targets)
    if y.ndim < 1 or len(y) != len(items):
        raise ValueError(f"collate must return targets (samples, ...) of {len(items)} items of {who}; got shape {y.shape}")
    if not np.isfinite(y).all():
        raise ValueError(f"targets that collate returns must be finite; those of some items of {who} are not")
    return inputs, y.reshape(len(y), -1)


def plain(inputs: Any) -> Any:  # noqa: ANN401  # whatever collate returned
    """Return what ``collate`` returned with arrays in place of tensors, for digests."""
    if isinstance(inputs, Mapping):
        return {name: plain(value) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return [plain(value) for value in inputs]
    return np.asarray(inputs) if hasattr(inputs, "numpy") else inputs
