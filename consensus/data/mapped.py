"""Arrays that are mapped to files, and read without keeping what was read."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

_MOST = 1 << 28  # bytes of a file that stay in this process's memory
_AROUND = 1 << 16  # bytes that the system maps with those that are read


def file_of(array: np.ndarray) -> np.memmap | None:
    """Return the whole mapping that ``array`` is a part of; None if it is none, or has changes that the file has not."""
    whole: Any = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    return whole if isinstance(whole, np.memmap) and isinstance(whole.base, mmap.mmap) and whole.mode != "c" else None


class Rows:
    """Copies of rows of an ``array``. A mapped file's pages are given back to the system after 256 MB of reading."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self._read = array, 0

    def __call__(self, places: np.ndarray) -> np.ndarray:
        rows = np.asarray(self.array[places])
        self._read += rows.nbytes + len(rows) * _AROUND
        if self._read > _MOST:
            self._read, file = 0, file_of(self.array)
            forget: Callable[[int], None] | None = getattr(file.base, "madvise", None) if file is not None else None
            if forget is not None and hasattr(mmap, "MADV_DONTNEED"):
                forget(mmap.MADV_DONTNEED)  # nothing is lost: the mapping is the file's own
        return rows
