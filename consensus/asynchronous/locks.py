"""Locks between processes that end with whoever holds them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from consensus.workers.shared_memory import SharedArray

try:
    import fcntl
except ImportError:  # Windows, where engines without workers run
    fcntl = None  # type: ignore[assignment]


class Locks(NamedTuple):
    """A lock for every byte of ``memory``, between processes: the system's locks of byte ranges of an open file.

    A semaphore would stay taken if the process that holds it were killed, and the others would wait for ever.
    """

    memory: SharedArray

    @contextmanager
    def held(self, number: int) -> Iterator[None]:
        """Wait for lock ``number``; inside, no other process has it."""
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, number)
        try:
            yield
        finally:
            self.release(number)

    def take(self, number: int) -> bool:
        """Take lock ``number`` unless another process has it; return whether this one has it now."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):  # systems differ
            return False
        return True

    def release(self, number: int) -> None:
        """Give lock ``number`` back."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)

    @property
    def _file(self) -> int:
        return self.memory.buffer.descriptor
