"""Arrays that are mapped to files, and read without keeping what was read."""

from __future__ import annotations

import mmap
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np

_MOST = 1 << 28  # bytes of files that stay in this process's memory
_AROUND = 1 << 16  # bytes that the system maps with those that are read


def file_of(array: np.ndarray) -> np.memmap | None:
    """Return the whole mapping that ``array`` is a part of; None if it is none, or has changes that the file has not."""
    whole: Any = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    return whole if isinstance(whole, np.memmap) and isinstance(whole.base, mmap.mmap) and whole.mode != "c" else None


class _Read:
    """Files read, and bytes read of them, since their pages were last given back to the system."""

    files: ClassVar[WeakSet[mmap.mmap]] = WeakSet()
    bytes = 0


class Rows:
    """Copies of rows of an ``array``. After every 256 MB of reading the pages of mapped files are given back to the system."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __call__(self, places: np.ndarray) -> np.ndarray:
        rows = np.asarray(self.array[places])
        if (file := file_of(self.array)) is None or not hasattr(mmap, "MADV_DONTNEED"):
            return rows
        _Read.files.add(file.base)  # type: ignore[arg-type]
        _Read.bytes += rows.nbytes + len(rows) * _AROUND
        if _Read.bytes > _MOST:
            for read in _Read.files:
                read.madvise(mmap.MADV_DONTNEED)  # nothing is lost: these mappings are the files' own
            _Read.bytes, _Read.files = 0, WeakSet()
        return rows
