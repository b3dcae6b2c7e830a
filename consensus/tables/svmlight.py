"""Files of svmlight and libsvm: sparse features and a target, read by scikit-learn."""

from __future__ import annotations

import io
import lzma
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from consensus import _checks
from consensus.tables import readers, tables
from consensus.tables.frames import Reading
from consensus.tables.tables import Roles, Table

SUFFIXES = (".svm", ".svmlight", ".libsvm")
_ALIKE = (
    "other files of these data without a feature 0 would be counted from 1, but "
    "sklearn.datasets.load_svmlight_files([...], zero_based=True) reads them alike"
)


def is_svmlight(data: object) -> bool:
    """Return whether this is the name of a file of svmlight by its suffix, before that of its compression if there is one."""
    return isinstance(data, str | os.PathLike) and readers.kind_of(Path(data)) in SUFFIXES


class Counted(NamedTuple):
    """Numbering of the features in a file.

    Parameters
    ----------
    first : int
        0 if there is a feature 0, and 1 otherwise, as the format has it.
    largest : int
        The largest index, 0 if no features are stored.
    features : int or None
        How many features there are, if it is said.
    """

    first: int
    largest: int
    features: int | None

    @classmethod
    def agreed(cls, parts: Sequence[Counted], where: Sequence[object]) -> Counted:
        """Return how several files of the same features are counted; each of ``parts`` is that of the file ``where``."""
        first, largest = min(own.first for own in parts), max(own.largest for own in parts)
        said = [own.features for own in parts if own.features is not None]
        features = max([largest + 1 - first, *said])
        for own, path in zip(parts, where, strict=True):
            if own.features not in (None, features):
                raise ValueError(f"features of {path} must be at least {features}, as many as are in use; got {own.features}")
        if first == 0:
            known = [str(path) for own, path in zip(parts, where, strict=True) if own.first == 0]
            _checks.warn(
                f"{known[0]} has a feature 0, so features are counted from 0, and not from 1 as the format has it: "
                + ("those of all owners" if len(parts) > 1 else _ALIKE)
            )
        if not features:
            raise ValueError(f"{where[0]} must have a feature, or features= their number; it has none")
        return cls(first, largest, features)

    def matrix(self, X: sp.csr_array) -> sp.csr_array:
        """Return features (samples, features) of those whose columns are the indices in a file."""
        return sp.csr_array((X.data, X.indices - self.first, X.indptr), shape=(X.shape[0], self.features))


def read(path: Path, roles: Roles, reading: Reading) -> tuple[Table, Counted]:
    """Return what is in a file, where columns of X are the indices in it, and how these are counted.

    Numbers are classes if the ``classification`` of the roles says so; groups are the numbers after ``qid:``. A file that
    cannot be read raises a ``ValueError`` that names the line.
    """
    from sklearn.datasets import load_svmlight_file

    given = tables.given(roles, reading)
    features, classification, groups = (given.pop(name, None) for name in ("features", "classification", "groups"))
    if given:
        raise ValueError(
            f"{path} is a file of svmlight, which takes classification, features (their number) and groups='qid'; got "
            f"{', '.join(f'{name}={value!r}' for name, value in given.items())}"
        )
    if features is not None and not isinstance(features, int | np.integer):
        raise TypeError(f"features of {path} must be their number, or left out; got {_checks.shown(features)}")
    if groups not in (None, "qid"):
        raise ValueError(f"groups of {path} must be 'qid', the numbers after qid: in its lines, or left out; got {groups!r}")
    if not path.exists():
        raise FileNotFoundError(f"name must be a file that exists; got {str(path)!r}")
    content = _content(path)
    asks = b"qid:" in content
    if groups is not None and not asks:
        raise ValueError(f"groups='qid' needs qid: in the lines of {path}, which has none: leave groups out")
    try:
        X, y, *own = load_svmlight_file(io.BytesIO(content), zero_based=True, query_id=groups is not None)
    except Exception as error:  # whatever its parser stumbles over
        _check_lines(path, content)
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not X.shape[0] or not np.isfinite(X.data).all() or not np.isfinite(y).all():
        _check_lines(path, content)
    if asks and groups is None:
        _checks.warn(f"{path} has qid: in its lines, which is left out: groups='qid' reads it as the groups of samples")
    counted = Counted(int(X.indices.min(initial=1)), int(X.indices.max(initial=0)), None if features is None else int(features))
    counted = counted._replace(first=min(counted.first, 1))
    classes = None
    if classification:
        labels, y = np.unique(y, return_inverse=True)
        classes = tuple(int(label) if label == int(label) else float(label) for label in labels.tolist())
    return Table(X, y, classes, None, groups=own[0] if own else None), counted


def table(path: Path, roles: Roles, reading: Reading) -> Table:
    """Return what is in a file."""
    found, own = read(path, roles, reading)
    return found._replace(X=Counted.agreed([own], [path]).matrix(found.X))


def _content(path: Path) -> bytes:
    try:
        with readers.COMPRESSED.get(path.suffix.lower(), Path.open)(path, "rb") as file:
            return bytes(file.read())
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from error


def _check_lines(path: Path, content: bytes) -> None:
    """Raise a ``ValueError`` that names the first wrong line, if one is found."""
    rows = 0
    for number, line in enumerate(content.splitlines(), 1):
        parts = line.partition(b"#")[0].decode(errors="replace").split()
        if not parts:
            continue
        rows += 1
        where, (target, *pairs) = f"line {number} of {path}", parts
        if "," in target:
            raise ValueError(f"{where} has the labels {target}; one number is read, not several labels")
        if not np.isfinite(_number(target)):
            raise ValueError(f"{where} must begin with a finite number, the target; got {target!r}")
        last = -1.0
        for pair in pairs:
            index, _, value = pair.partition(":")
            if index == "qid":
                continue
            if not index.isdecimal() or int(index) <= last or not np.isfinite(_number(value)):
                raise ValueError(
                    f"{where} must have features index:value, with indices that rise and finite values; got {pair!r}"
                )
            last = int(index)
    if not rows:
        raise ValueError(f"{path} must have at least one sample; it has none")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan
