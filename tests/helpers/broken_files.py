"""Ways in which a file may be damaged."""

import gzip
import io
import tracemalloc
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np

LARGE = 5_000_000  # numbers, which take 40 MB, and packed, if they are zeros, 40 kB


class Evil:
    """Unpickled, it makes a file, as a stranger's bytes could do anything."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def halves(path):
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])


def spoiled(path):
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3 : 2 * len(whole) // 3] = bytes(len(whole) // 3)
    path.write_bytes(whole)


def zipped(path):
    path.write_bytes(gzip.compress(path.read_bytes()))


def emptied(path):
    path.write_bytes(b"")


def claiming(path, name, shape=(LARGE,)):
    """Let the array ``name`` of an npz file say that it has ``shape``, with 80 bytes behind that."""
    with np.load(path) as file:
        arrays = dict(file)
    del arrays[name]
    np.savez(path, **arrays)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{name}.npy", header.getvalue() + bytes(80))


@contextmanager
def little_memory(most=2_000_000):
    """No more than ``most`` bytes are taken at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


WAYS = (halves, spoiled, zipped, emptied)
