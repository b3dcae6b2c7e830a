"""Memory that local processes share."""

import errno
import io
import mmap
import os
import pickle
import platform
import socket
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

_LARGE = 1 << 24  # bytes: smaller arrays may be copied for workers


@contextmanager
def enough_files() -> Iterator[None]:
    """Say what to do if the process may open no more files, of which memory, pipes and workers take some each."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        remedy = "raise the limit, by ulimit -n 4096 in the shell, take fewer workers, or stay in one process: engine='stacked'"
        raise OSError(error.errno, f"worker processes need more open files than this process may have; {remedy}") from error


def check_system(what: str, instead: str) -> None:
    """Raise ``NotImplementedError`` on a system whose processes cannot share memory, as Windows; ``instead`` works there."""
    if not hasattr(reduction, "DupFd"):
        raise NotImplementedError(
            f"{what} needs memory without a name, handed to workers as an open file, which Linux and macOS have and "
            f"this system ({platform.system()}) does not: {instead}"
        )


class SharedBuffer:
    """Memory without a name, full of zeros: the system frees it with the last process that maps it, however that ends.

    Pickled while a process is being started, it takes its file descriptor along; :func:`send` takes it to a running process.
    Memory is reserved at once in ``parts``, pairs of a first byte and a size, by default everywhere; elsewhere it is reserved
    where it is touched. Without room it raises a ``MemoryError``.
    """

    def __init__(self, size: int, parts: Sequence[tuple[int, int]] | None = None) -> None:
        check_system("this", "use what runs in one process, such as engine='stacked', or ranks of MPI()")
        self.size = max(1, size)
        with enough_files():
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
        with enough_files():
            self.memory = mmap.mmap(self.descriptor, self.size)

    def __getstate__(self) -> tuple[int, Any]:
        return self.size, reduction.DupFd(self.descriptor)

    def __setstate__(self, state: tuple[int, Any]) -> None:
        size, descriptor = state
        self._map(size, descriptor.detach())

    @classmethod
    def of(cls, size: int, descriptor: int) -> "SharedBuffer":
        """Return the buffer of a file descriptor."""
        buffer = cls.__new__(cls)
        buffer._map(size, descriptor)
        return buffer

    def _map(self, size: int, descriptor: int) -> None:
        self.size, self.descriptor, self.memory = size, descriptor, mmap.mmap(descriptor, size)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # bound here: at exit the module may be empty
        if hasattr(self, "descriptor"):
            close(self.descriptor)  # the mapping lives on while arrays use it


class SharedArray:
    """An ``array`` in a :class:`SharedBuffer`, the same memory in every process.

    Memory is reserved for the first ``used`` places of each row, by default all.
    """

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
        self.array: np.ndarray = np.frombuffer(self.buffer.memory, self.dtype, count).reshape(self.shape)
        self._known[self.array.ctypes.data] = self

    @classmethod
    def of(cls, array: np.ndarray) -> "SharedArray":
        """Return a shared array equal to ``array``: the one whose memory it is, if any."""
        known = cls._known.get(array.ctypes.data)
        if known is not None and (known.shape, known.dtype) == (array.shape, array.dtype):
            return known
        shared = cls(array.shape, array.dtype)
        shared.array[...] = array
        return shared

    def __getstate__(self) -> tuple[tuple[int, ...], np.dtype, SharedBuffer]:
        return self.shape, self.dtype, self.buffer

    def __setstate__(self, state: tuple[tuple[int, ...], np.dtype, SharedBuffer]) -> None:
        self.shape, self.dtype, self.buffer = state
        self._view()


def zeros(shape: Sequence[int], dtype: DTypeLike, used: Sequence[int]) -> tuple[np.ndarray, SharedArray | None]:
    """Return an array of zeros, and its owner if it is in shared memory, as large arrays are: workers then need no copy.

    Only ``used[i]`` places of row i will be filled: memory that is never touched is not allocated. :meth:`SharedArray.of`
    recognises the array while the owner lives.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size < _LARGE or not hasattr(os, "memfd_create"):
        return np.zeros(shape, dtype), None
    shared = SharedArray(shape, dtype, used)
    return shared.array, shared


def send(pipe: Connection, thing: object) -> None:
    """Send ``thing`` to a running process, which calls :func:`receive`; shared memory in it stays shared."""
    content = io.BytesIO()
    pickler = _Pickler(content)
    pickler.dump(thing)
    pipe.send_bytes(content.getbuffer())
    with socket.socket(fileno=os.dup(pipe.fileno())) as line:
        for buffer in pickler.buffers:
            socket.send_fds(line, [b"."], [buffer.descriptor])


def receive(pipe: Connection) -> Any:  # noqa: ANN401  whatever was sent
    """Return what another process sends by :func:`send`; EOFError if that has ended."""
    content = io.BytesIO(pipe.recv_bytes())
    with socket.socket(fileno=os.dup(pipe.fileno())) as line:
        return _Unpickler(content, line).load()


class _Pickler(pickle.Pickler):
    """Leaves shared memory out, and lists it."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.buffers: list[SharedBuffer] = []

    def persistent_id(self, thing: object) -> int | None:
        if not isinstance(thing, SharedBuffer):
            return None
        self.buffers.append(thing)
        return thing.size


class _Unpickler(pickle.Unpickler):
    """Takes the shared memory, in the same order, from the descriptors that come over a socket."""

    def __init__(self, file: io.BytesIO, line: socket.socket) -> None:
        super().__init__(file)
        self.line = line

    def persistent_load(self, size: int) -> SharedBuffer:
        _, descriptors, *_ = socket.recv_fds(self.line, 1, 1)
        if not descriptors:
            raise EOFError
        return SharedBuffer.of(size, descriptors[0])


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("consensus")
    file, name = tempfile.mkstemp()
    os.unlink(name)
    return file
