"""Dtypes and shapes of an npz file, read from its headers before any array takes memory."""

import math
import zipfile
from typing import NamedTuple

import numpy as np

_RATIO = 1032  # of deflate at best


class Claim(NamedTuple):
    """The dtype and shape of an array that has not been read."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)


def claims(file: np.lib.npyio.NpzFile, packed: bool = True) -> dict[str, Claim]:
    """Read the dtypes and shapes of an npz file's arrays, ``packed`` if they may be compressed.

    An array larger than what the file has of it can be raises a ``ValueError``.
    """
    found, archive = {}, file.zip
    assert archive is not None, "the file is open"
    for member in archive.infolist():
        if not member.filename.endswith(".npy"):
            continue
        with archive.open(member) as content:
            version = np.lib.format.read_magic(content)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(content)
            size = content.tell() + math.prod(shape) * dtype.itemsize
        ratio = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: _RATIO * packed}.get(member.compress_type, 0)
        if not dtype.hasobject and (size != member.file_size or size > ratio * member.compress_size):
            raise ValueError(f"{member.filename} cannot hold its {size} bytes in {member.compress_size} of the file")
        found[member.filename.removesuffix(".npy")] = Claim(dtype, shape)
    return found
