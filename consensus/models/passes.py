"""How many samples a pass through a model takes at a time, so that its memory does not grow with the data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

PASS_BYTES = 32 << 20  # of a pass there and back, on each core: with less, small matrices take longer
DEVICE_BYTES = 256 << 20  # on other devices, which need many samples to be busy


def samples_at_once(model: object, dtype: DTypeLike) -> int:
    """Return how many samples of an agent a pass takes: by the model's own method, or by its ``widths``.

    The number depends on the model alone, so that all engines add up the same parts.
    """
    own = getattr(model, "samples_at_once", None)
    return int(own(dtype)) if own else fitting(2 * sum(getattr(model, "widths", (0, getattr(model, "outputs", 1)))[1:]), dtype)


def fitting(numbers: int, dtype: DTypeLike, device: str = "cpu") -> int:
    """Return how many samples fit that take so many numbers each, at least one."""
    size = PASS_BYTES if device.startswith("cpu") else DEVICE_BYTES
    return max(1, size // (max(1, numbers) * np.dtype(dtype).itemsize))


def parts(samples: int, most: int) -> Iterator[slice]:
    """Yield slices of at most so many samples."""
    return (slice(start, min(start + most, samples)) for start in range(0, samples, most))
