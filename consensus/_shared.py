"""Memory and signals that local processes share."""

import math
import mmap
import os
import tempfile
import weakref
from multiprocessing import reduction
from typing import ClassVar

import numpy as np

from consensus._waiting import Wait

_LARGE = 1 << 24  # bytes: what is smaller may be copied for workers
_SPINS = 300  # looks at the counters before a waiting process offers its core to others: some 100 us


class SharedBuffer:
    """Memory without a name: the system frees it with the last process that maps it, however that process ends.

    Pickled while a process is being started, it takes its file descriptor along.
    """

    def __init__(self, size):
        self.size = max(1, size)
        self.descriptor = _nameless_file()
        try:
            os.posix_fallocate(self.descriptor, 0, self.size)  # fails here if memory is short, not at the first touch
        except (OSError, AttributeError) as error:
            if isinstance(error, AttributeError):  # not on every Unix
                os.ftruncate(self.descriptor, self.size)
            else:
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
        self.size, descriptor = state
        self.descriptor = descriptor.detach()
        self._map()

    def __del__(self):
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)  # the mapping lives on while arrays look at it


class SharedArray:
    """An array in a :class:`SharedBuffer`; ``.array`` in every process."""

    _known: ClassVar = weakref.WeakValueDictionary()  # by the address of their first number

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.buffer = SharedBuffer(int(np.prod(self.shape)) * self.dtype.itemsize)
        self._view()

    def _view(self):
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


def empty(shape, dtype):
    """``(array, owner)``: uninitialised, and in shared memory if it is large, so that workers need no copy of it.

    The array is known as shared while ``owner`` lives.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size < _LARGE or not hasattr(os, "memfd_create"):
        return np.empty(shape, dtype), None
    shared = SharedArray(shape, dtype)
    return shared.array, shared


def _nameless_file():
    if hasattr(os, "memfd_create"):
        return os.memfd_create("consensus")
    file, name = tempfile.mkstemp()
    os.unlink(name)
    return file


class Aborted(Exception):
    """Another process ended the run."""


class Gate:
    """Processes wait here for one another: a counter each in shared memory, a short spin, then sleep.

    ``multiprocessing.Barrier`` takes two system calls and several context switches a round; here, processes of about the
    same pace meet within microseconds.

    Parameters
    ----------
    parties : int
    lock : multiprocessing lock
        Taken around each counter's change: it orders the memory that was written before on every kind of processor.
    """

    def __init__(self, parties, lock):
        self.counters = SharedArray((parties,), np.int64)
        self.abort = SharedArray((1,), np.int64)
        self.lock = lock

    def arrive(self, party, count):
        """Say that ``party`` has come ``count`` times."""
        with self.lock:
            self.counters.array[party] = count

    def arrived(self, count, parties=slice(None)):
        """Whether all of ``parties`` have come ``count`` times."""
        return bool((self.counters.array[parties] >= count).all())

    def wait(self, count, parties=slice(None), timeout=None, parent=None):
        """Wait until all of ``parties`` have come ``count`` times.

        Raises
        ------
        Aborted
            If the run was ended, or the process ``parent`` is gone.
        TimeoutError
            After ``timeout`` seconds.
        """
        counters, abort = self.counters.array[parties], self.abort.array
        for _ in range(_SPINS):
            if counters.min() >= count:
                break
        else:
            wait = Wait()
            while counters.min() < count:
                if abort[0] or (parent is not None and os.getppid() != parent):
                    raise Aborted
                if wait.pause() > (timeout or math.inf):
                    raise TimeoutError
        if abort[0]:
            raise Aborted
        with self.lock:
            pass  # what the others wrote before they came is visible from here on
