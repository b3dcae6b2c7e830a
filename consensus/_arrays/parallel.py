"""Cache-sized chunks of agents, spread over this process's cores.

Arithmetic on a block of agents is fastest one chunk at a time: the chunk's arrays stay in cache from one operation to
the next, every BLAS call runs on one thread, and a pool of threads works on several chunks at once (NumPy releases the
interpreter lock in its loops). Because a chunk's rows never meet another's, results do not depend on chunks or threads.
"""

import contextvars
import ctypes
import functools
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from threadpoolctl import ThreadpoolController

CHUNK_BYTES = 2 << 20  # of a core's caches: with less, cores wait for Python between chunks more often than for memory
_WORTH_BYTES = 4 << 20  # below these, handing chunks around (some 50 us) costs more than it saves
_WORTH_OPERATIONS = 3e7


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")  # scanning the loaded libraries is slow: once


def _give_up_control() -> None:
    """Let any thread set BLAS's limits next: threadpoolctl >= 3.8 ignores all but the first to set OpenBLAS's.

    Where another thread is in control, its limits stand, and ours are ignored.
    """
    for library in _blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


@functools.lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    # Keyed by process id: threads do not survive a fork, and waiting for them in a child would hang.
    return ThreadPoolExecutor(threads, thread_name_prefix="consensus")


SWITCH = "CONSENSUS_KEEP_MEMORY"  # environment variable


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep up to 128 MB of freed memory for the next round, for the rest of the process.

    By default glibc may give arrays of over 128 kB back to the system and fetch them anew, page by page, which local solves
    take longer for. Worker processes of this package call it; in the user's process it is called where the environment has
    ``CONSENSUS_KEEP_MEMORY=1``. A setting of the user's (``MALLOC_...``, or ``CONSENSUS_KEEP_MEMORY=0``) stands.
    """
    if os.environ.get(SWITCH) == "0" or any(name.startswith("MALLOC_") for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library
        return
    mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD: arrays up to this size come from the heap
    mallopt(-1, 128 << 20)  # M_TRIM_THRESHOLD: so much free heap is kept


class _Guard:
    """Threads inside :data:`one_blas_thread`, and the number of threads that they may use for chunks."""

    lock = threading.Lock()
    inside: ClassVar[set[int]] = set()
    threads = 1
    limiter: Any = None


class _OneThread(threading.local):
    """Holds BLAS to one thread, leaving the cores it was allowed (``OMP_NUM_THREADS``, threadpoolctl) to the chunks.

    May be nested, at no cost, and entered from several threads; the last to leave restores what the first one found. While
    another thread of the user's is inside its own ``threadpool_limits``, that limit stands.
    """

    depth = 0  # how often this thread is inside

    def __enter__(self) -> None:
        if self.depth == 0:
            try:
                _enter()
            except BaseException:  # ctrl-C: the block does not begin, and so will not end
                _leave()
                raise
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if self.depth == 0:
            _leave()


def _enter() -> None:
    with _Guard.lock:
        if not _Guard.inside:
            _restore()  # what ctrl-C may have left
            if os.environ.get(SWITCH) == "1":
                keep_freed_memory()
            allowed = max((library.num_threads for library in _blas().lib_controllers), default=1)
            _Guard.threads = min(allowed, cores())
            _Guard.limiter = _blas().limit(limits=1)
            _give_up_control()
        _Guard.inside.add(threading.get_ident())


def _leave() -> None:
    with _Guard.lock:
        _Guard.inside.discard(threading.get_ident())
        if not _Guard.inside:
            _restore()


def _restore() -> None:
    if _Guard.limiter is not None:
        _Guard.limiter.restore_original_limits()
        _give_up_control()
        _Guard.limiter = None


one_blas_thread = _OneThread()


def threads() -> int:
    """Return the number of threads that chunks may use here."""
    with one_blas_thread:
        return _Guard.threads


def one_chunk(agents: int, bytes_per_agent: int, streamed: int) -> bool:
    """Return whether :func:`for_chunks` calls its function once, in this thread, where BLAS is held to one thread already."""
    return 0 < agents * bytes_per_agent <= _WORTH_BYTES and CHUNK_BYTES // max(1, bytes_per_agent - streamed) > 1


def for_chunks(
    function: Callable[[slice], None],
    agents: int,
    bytes_per_agent: int,
    operations_per_agent: float = 0,
    streamed: int = 0,
    shared: bool = True,
) -> None:
    """Call ``function(rows)`` for slices ``rows`` that cover ``range(agents)``, on all cores if ``shared`` and worth it.

    A chunk holds as many agents as fit in a core's cache, at least one: the function touches ``bytes_per_agent``, of which
    ``streamed`` bytes are touched but once and need not fit. ``operations_per_agent`` are multiply-adds, where they are many
    more than the bytes; they may differ between agents. Where no bytes are, of arrays on a device, all agents are one chunk.
    """
    size = CHUNK_BYTES // max(1, bytes_per_agent - streamed)
    small = agents * bytes_per_agent <= _WORTH_BYTES and agents * operations_per_agent <= _WORTH_OPERATIONS
    if not agents:
        return
    if not bytes_per_agent or (small and size > 1 and one_blas_thread.depth):  # elsewhere, or in small rounds: at once
        function(slice(0, agents))
        return
    with one_blas_thread:
        if small:
            size, threads = agents if size > 1 else 1, 1
        else:
            threads = _Guard.threads
            # Some chunks for each, to even out, but not of little work: to hand one out and to begin it takes time, too.
            each = 4 if operations_per_agent else 2 if agents * bytes_per_agent > 2 * threads * _WORTH_BYTES else 1
            most = -(-agents // (each * threads))
            size = max(1, min(size, most))
        threads = threads if shared else 1
        chunks = -(-agents // size)
        fewer = chunks - chunks % threads  # as many for each: where they are then hardly larger, less is handed out
        chunks = fewer if fewer and 4 * -(-agents // fewer) <= 5 * size else min(agents, chunks + -chunks % threads)
        ends = [agents * chunk // chunks for chunk in range(chunks + 1)]
        starts = itertools.pairwise(ends)
        helpers = min(threads, chunks) - 1
        if helpers < 1:
            for start, stop in starts:
                function(slice(start, stop))
            return

        def work() -> None:
            for start, stop in starts:  # shared: whoever is free takes the next chunk
                function(slice(start, stop))

        # A copy of the caller's context each, so that its np.errstate holds in the helpers too.
        pool = _pool(os.getpid(), _Guard.threads)
        futures = [pool.submit(contextvars.copy_context().run, work) for _ in range(helpers)]
        try:
            work()
        finally:
            for future in futures:
                future.exception()  # waits for all before any raises: nobody writes into the results once this returns
            for future in futures:
                future.result()
