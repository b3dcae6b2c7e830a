"""Files that are there as a whole or not at all, and locks beside them."""

import errno
import os
import re
import secrets
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Delay ctrl-C to the end of this block."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:  # other threads are not interrupted
        yield
        return
    came: list[bool] = []
    signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


try:
    import fcntl
except ImportError:  # Windows: two runs with one path do not notice each other there, but each file is one of theirs as a whole
    fcntl = None  # type: ignore[assignment]

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of file systems that have none


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file that replaces ``path`` at the end of the block, atomically; after an error the old one stays.

    Links are replaced, not followed. Devices and pipes, such as ``/dev/stdout``, are written directly. Ctrl-C waits until the
    file is there: inside an archive of NumPy's it would become a ``ValueError``.
    """
    path = Path(path)
    folder = str(path.parent.resolve())
    if (path.exists() and not path.is_file()) or folder == "/dev" or folder.startswith("/proc/"):
        with open(path, "wb") as file:
            yield file
        return
    with interrupted_later():
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")  # one for each writer
        try:
            with open(part, "xb") as file:  # never one that is there, nor through a link
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        if hasattr(os, "O_DIRECTORY"):  # Windows opens no folders
            opened = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(opened)  # the new name itself
            finally:
                os.close(opened)


class Held(ValueError):
    """Another process has the path; it is the ``holder``'s, None if that has just begun."""

    def __init__(self, path: Path, holder: str | None) -> None:
        super().__init__(
            f"checkpoint must be a file of this run alone; {path} is that of another run, "
            f"{holder or 'which has just begun'}: wait for its end, or give this run another path"
        )
        self.holder = holder


class Hold:
    """Keeps a path for one run, from :meth:`take` to :meth:`release`.

    The lock is on a file ``.<name>.lock`` beside it, and ends with the process, however that ends. The next run removes the
    file, and what a process left unfinished when it was killed.

    Attributes
    ----------
    path : Path
        The path.
    holder : str or None
        Text that identifies this process, if it has the lock.
    shared : bool
        Whether another process of the same run keeps the path: that one writes the file.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, path.with_name(f".{path.name}.lock")
        self.holder: str | None = None
        self.shared = False
        self._descriptor: int | None = None

    @interrupted_later()
    def take(self) -> None:
        """Take the path, or raise :class:`Held` if another process on a machine that shares the folder has it."""
        if fcntl is None:
            return
        while self._descriptor is None:
            found = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            try:
                fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self.lock.exists() and os.path.samestat(os.fstat(found), os.stat(self.lock)):  # else its holder removed it
                    self._descriptor = os.dup(found)
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    return
                if not isinstance(error, BlockingIOError):
                    raise
                raise Held(self.path, os.read(found, 500).decode(errors="replace") or None) from None
            finally:
                os.close(found)
        os.ftruncate(self._descriptor, 0)
        self.holder = f"process {os.getpid()} on {socket.gethostname()} since {time.ctime()}"
        os.write(self._descriptor, self.holder.encode())
        beside = r"(\.history\.csv|\.\d+-[0-9a-f]+\.\d+-of-\d+)?"  # ranks write these
        left = re.compile(re.escape(f".{self.path.name}") + beside + r"\.[0-9a-f]{16}\.part")
        for part in self.path.parent.iterdir():
            if left.fullmatch(part.name):
                part.unlink(missing_ok=True)

    @interrupted_later()
    def release(self) -> None:
        """Let others take the path."""
        if self._descriptor is not None:
            with suppress(OSError):  # a folder that is gone
                self.lock.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = self.holder = None
