"""Arrays in a file with a checksum, replaced atomically."""

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from consensus._arrays.files import whole
from consensus.history import History

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


def write(path: Path, arrays: dict[str, np.ndarray], about: Mapping[str, object]) -> None:
    """Write ``arrays``, and ``about`` as JSON, to ``path``, atomically.

    The format is NumPy's npz, without pickle: JSON in ``about``, and in ``checksum`` the SHA-256 of all arrays: names, dtypes,
    shapes and bytes. The folder is made if it is not there.
    """
    arrays = arrays | {"about": np.frombuffer(json.dumps(about).encode(), np.uint8)}
    arrays["checksum"] = _checksum(arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # none of them is called allow_pickle, the other keyword


def read(
    path: str | os.PathLike[str], what: str, form: int | str, remedy: str = ""
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the arrays of a file, and what ``about`` says of them.

    Errors call the file ``what``, and say ``remedy`` about a damaged one. A file of another kind, with a ``format`` other than
    ``form``, or whose checksum does not fit raises a ``ValueError``.
    """
    with _opened(path, what) as file:
        claims(file, packed=False)  # before any array takes memory
        arrays = {name: file[name] for name in file.files}
        checksum = arrays.pop("checksum", None)
        whole = checksum is not None and np.array_equal(checksum, _checksum(arrays))
        about = json.loads(arrays.pop("about").tobytes())
        found = about["format"]
    if found != form:
        raise _of_format(path, what, found, form)
    if not whole:
        raise ValueError(f"{path} is damaged: its checksum is not that of its contents{remedy}")
    return arrays, about


def about(path: str | os.PathLike[str], what: str, form: int | str | None = None) -> dict[str, Any]:
    """Return what ``about`` says in a file whose arrays, and checksum, are not read, of any format if ``form`` is None.

    Errors are those of :func:`read`.
    """
    with _opened(path, what) as file:
        claims(file, packed=False)
        about: dict[str, Any] = json.loads(file["about"].tobytes())
        found = about["format"]
    if form is not None and found != form:
        raise _of_format(path, what, found, form)
    return about


@contextmanager
def understood(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Take what was read from a file apart; whatever goes wrong inside means that another program wrote it."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{path} is no {what} of this package: {type(error).__name__}: {error}") from error


@contextmanager
def _opened(path: str | os.PathLike[str], what: str) -> Iterator[np.lib.npyio.NpzFile]:
    """Open a file of arrays; whatever goes wrong inside means that it is no ``what``."""
    try:
        with np.load(path, allow_pickle=False) as file:
            yield file
    except FileNotFoundError:
        raise
    except Exception as error:
        inside = isinstance(error, ValueError | KeyError)  # what NumPy makes of another file, and advises, helps nobody here
        raise ValueError(f"{path} is no {what} of this package" + ("" if inside else f" ({error})")) from error


def _of_format(path: str | os.PathLike[str], what: str, found: object, form: int | str) -> ValueError:
    kinds = {str(one).rstrip("0123456789") for one in (found, form)}
    remedy = ": use the version of the package that wrote it" if len(kinds) == 1 else ""  # of another kind no version reads it
    return ValueError(f"{path} has {what} format {found}; this version reads format {form}{remedy}")


def part(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with ``prefix``, without that prefix."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def history_of(columns: dict[str, np.ndarray], labels: tuple[Hashable, ...] | None = None) -> History:
    """Make a history of these columns."""
    history = History(labels)
    for row in range(len(next(iter(columns.values()), ()))):
        history.append({name: number(column[row]) for name, column in columns.items()})
    return history


def number(value: np.ndarray) -> np.ndarray | float:
    """Return an array () as a Python number; other arrays as they are."""
    return value if value.ndim else value.item()


def _checksum(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return the SHA-256 of names, dtypes, shapes and bytes, as an array of 32 numbers."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)
