"""Trials of losses on a problem's targets, in several orders and compositions: samples must have losses of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

_MOST = 64  # samples of a draw
_NUMBERS = 1 << 20  # outputs of a draw
_FEW = 8  # columns of targets, of which every distinct value is tried where there are few


class Sampled(Protocol):
    """The methods of a loss that are tried."""

    def value(self, outputs: np.ndarray, targets: np.ndarray, /) -> np.ndarray: ...
    def gradient(self, outputs: np.ndarray, targets: np.ndarray, /) -> np.ndarray: ...


def chosen(targets: np.ndarray, outputs: int) -> np.ndarray:
    """Return the places of targets to try: all if they are few; else the rarest and outermost of each column, and others."""
    most = min(_MOST, max(3, _NUMBERS // max(1, outputs)))
    if len(targets) <= most:
        return np.arange(len(targets))
    found: list[int] = []
    for column in targets.reshape(len(targets), -1).T[:_FEW]:
        values, first, counts = np.unique(column, return_index=True, return_counts=True)
        rare = np.argsort(counts, kind="stable") if len(values) <= most else np.array([0, len(values) - 1])
        found.extend(first[rare[: max(2, most // 4)]].tolist())
    others = np.random.default_rng(0).permutation(len(targets))
    return np.array(list(dict.fromkeys([*found, *others[:most].tolist()])))[:most]


def draws(targets: np.ndarray, outputs: int, squashed: bool = False) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield outputs f (samples, outputs) and targets: in order, permuted, and with replacements; ``squashed`` to (0, 1)."""
    some, rng = targets[chosen(targets, outputs)].astype(float), np.random.default_rng(0)
    count = max(3, len(some))
    orders = np.resize(np.arange(len(some)), count), rng.permutation(np.resize(np.arange(len(some)), count))
    for places, scale in zip((*orders, rng.integers(len(some), size=count)), (1.0, 0.3, 3.0), strict=True):
        f = scale * rng.standard_normal((count, outputs))
        yield 1 / (1 + np.exp(-f)) if squashed else f, some[places]


def alone(method: Callable[[np.ndarray, np.ndarray], np.ndarray], f: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return what a method of a loss returns for each sample by itself."""
    return np.concatenate([method(f[row : row + 1], d[row : row + 1]) for row in range(len(f))])


def mixed(together: np.ndarray, by_itself: np.ndarray, tolerance: float = 1e-6) -> int | None:
    """Return the first row of ``together`` that is not what its sample has by itself; None if there is none."""
    scale = tolerance * np.nan_to_num(np.abs(by_itself), posinf=0).max(initial=0)
    wrong = ~np.isclose(together, by_itself, rtol=tolerance, atol=scale, equal_nan=True).reshape(len(by_itself), -1).all(axis=1)
    return int(np.argmax(wrong)) if wrong.any() else None


def check_samples(loss: Sampled, targets: np.ndarray, outputs: int) -> None:
    """Raise ``ValueError`` if values or gradients of samples depend on the other samples of a call."""
    for f, d in draws(targets, outputs):
        for name, method in (("loss", loss.value), ("gradient", loss.gradient)):
            try:
                row = mixed(method(f, d), alone(method, f, d))
            except Exception:  # of random outputs a loss need not be defined: what fails in a run is said there
                return
            if row is not None:
                raise ValueError(
                    f"{loss} must be a loss of each sample by itself; the {name} of a sample with the target {d[row]} is "
                    f"another one beside {len(f) - 1} others: take TorchLoss(function, over='batch') for a loss of a batch"
                )
