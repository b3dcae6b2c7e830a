"""Datasets that are sent to worker processes."""

from __future__ import annotations

import io
from os import PathLike
from typing import Any

import cloudpickle
import numpy as np

from consensus import _checks
from consensus.streaming.mapped import file_of


def dumps(dataset: object) -> bytes:
    """Return a dataset pickled, with the names of files that arrays are mapped to in place of what is in them.

    It raises a ``TypeError`` if the dataset cannot be pickled.
    """
    content = io.BytesIO()
    try:
        _Pickler(content).dump(dataset)
    except Exception as error:  # whatever a class of the user's raises
        raise TypeError(
            f"datasets must be such that pickle can send them to worker processes; {_checks.shown(dataset)} is not ({error}): "
            "open files when they are first read, or use engine='stacked'"
        ) from error
    return content.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # the package has no types
    def reducer_override(self, thing: Any) -> Any:  # noqa: ANN401  # as pickle has it
        file = file_of(thing) if isinstance(thing, np.ndarray) else None
        if file is None or file.filename is None:
            return super().reducer_override(thing)
        offset = file.offset + thing.ctypes.data - file.ctypes.data
        return _mapped, (file.filename, thing.dtype, thing.shape, thing.strides, offset)


def _mapped(
    name: str | PathLike[str], dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> np.ndarray:
    return np.ndarray(shape, dtype, np.memmap(name, np.uint8, "r"), offset, strides)


class Pickled:
    """A dataset's bytes in memory that all processes share; a process makes the dataset of them when it first reads it."""

    def __init__(self, content: np.ndarray) -> None:
        self._content, self._dataset = content, None

    def opened(self) -> Any:  # noqa: ANN401  # of the class that was pickled
        """Return the dataset."""
        if self._dataset is None:
            self._dataset = cloudpickle.loads(self._content.data)
        return self._dataset
