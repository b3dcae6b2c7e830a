"""Memory that local processes share."""

import io
import mmap
import os
import pickle
import socket
import tempfile
import weakref
from collections.abc import Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

_LARGE = 1 << 24  # bytes: what is smaller may be copied for workers


class SharedBuffer:
    """Memory without a name: the system frees it with the last process that maps it, however that process ends.

    It is full of zeros. Room is made at once for the ``parts`` (first, size) of it, by default all; for the rest where it is
    touched. Pickled while a process is being started, it takes its file descriptor along; to a process that runs already,
    :func:`send` takes it.
    """

    def __init__(self, size: int, parts: Sequence[tuple[int, int]] | None = None) -> None:
        self.size = max(1, size)
        self.descriptor = _nameless_file()
        reserve = getattr(os, "posix_fallocate", lambda *_: None)  # not on every Unix
        try:
            os.ftruncate(self.descriptor, self.size)
            for first, count in [(0, self.size)] if parts is None else parts:
                reserve(self.descriptor, first, count)  # fails here if memory is short, not at the first touch
        except OSError as error:
            raise MemoryError(
                f"no room for {self.size / 1e6:.0f} MB of memory shared with the workers ({error.strerror}): use "
                "engine='stacked', fewer samples or float32"
            ) from error
        self._map()

    def _map(self):
        self.memory = mmap.mmap(self.descriptor, self.size)

    def __getstate__(self):
        return self.size, reduction.DupFd(self.descriptor)

    def __setstate__(self, state):
        size, descriptor = state
        self._take(size, descriptor.detach())

    def _take(self, size, descriptor):
        self.size, self.descriptor = size, descriptor
        self._map()

    def __del__(self):
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)  # the mapping lives on while arrays use it


class SharedArray:
    """An array in a :class:`SharedBuffer`; ``.array`` in every process."""

    # By the address of their first number.
    _known: ClassVar[weakref.WeakValueDictionary[int, "SharedArray"]] = weakref.WeakValueDictionary()

    def __init__(self, shape: Sequence[int], dtype: DTypeLike, used: Sequence[int] | None = None) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        size, parts = int(np.prod(self.shape)) * self.dtype.itemsize, None
        if used is not None:
            row, each = (size // count for count in (self.shape[0], self.shape[0] * self.shape[1]))
            parts = [(row * place, each * count) for place, count in enumerate(used) if count]
        self.buffer = SharedBuffer(size, parts)
        self._view()

    def _view(self) -> None:
        count = int(np.prod(self.shape))
        self.array = np.frombuffer(self.buffer.memory, self.dtype, count).reshape(self.shape)
        self._known[self.array.ctypes.data] = self

    @classmethod
    def of(cls, array):
        """A shared array equal to ``array``: itself, where it is one already."""
        known = cls._known.get(array.ctypes.data)
        if known is not None and (known.shape, known.dtype) == (array.shape, array.dtype):
            return known
        shared = cls(array.shape, array.dtype)
        shared.array[...] = array
        return shared

    def __getstate__(self):
        return self.shape, self.dtype, self.buffer

    def __setstate__(self, state):
        self.shape, self.dtype, self.buffer = state
        self._view()


def zeros(shape, dtype, used):
    """``(array, owner)``: zeros, in shared memory if it is large, so that workers need no copy of it.

    Only ``used[i]`` places of row i are going to be filled: what is never touched takes no memory. The array is known as shared
    while ``owner`` lives.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size < _LARGE or not hasattr(os, "memfd_create"):
        return np.zeros(shape, dtype), None
    shared = SharedArray(shape, dtype, used)
    return shared.array, shared


def send(pipe: Connection, thing: Any) -> None:
    """Send ``thing`` to a process that runs already, which calls :func:`receive`; shared memory in it stays shared."""
    content = io.BytesIO()
    pickler = _Pickler(content)
    pickler.dump(thing)
    pipe.send_bytes(content.getbuffer())
    with socket.socket(fileno=os.dup(pipe.fileno())) as line:
        for buffer in pickler.buffers:
            socket.send_fds(line, [b"."], [buffer.descriptor])


def receive(pipe: Connection) -> Any:
    """What another process sends by :func:`send`. EOFError if it has ended."""
    content = io.BytesIO(pipe.recv_bytes())
    with socket.socket(fileno=os.dup(pipe.fileno())) as line:
        return _Unpickler(content, line).load()


class _Pickler(pickle.Pickler):
    """Leaves shared memory out, and lists it."""

    def __init__(self, file):
        super().__init__(file)
        self.buffers = []

    def persistent_id(self, thing):
        if not isinstance(thing, SharedBuffer):
            return None
        self.buffers.append(thing)
        return thing.size


class _Unpickler(pickle.Unpickler):
    """Takes the shared memory, in the same order, from the descriptors that come over a socket."""

    def __init__(self, file, line):
        super().__init__(file)
        self.line = line

    def persistent_load(self, size):
        _, descriptors, *_ = socket.recv_fds(self.line, 1, 1)
        if not descriptors:
            raise EOFError
        buffer = SharedBuffer.__new__(SharedBuffer)
        buffer._take(size, descriptors[0])
        return buffer


def _nameless_file():
    if hasattr(os, "memfd_create"):
        return os.memfd_create("consensus")
    file, name = tempfile.mkstemp()
    os.unlink(name)
    return file
