"""Ranks: what they send each other, what they agree on, which agents they hold."""

import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np

from consensus import _checks
from consensus._arrays import typed as _typed
from consensus.checkpoints.best import Best
from consensus.checkpoints.checkpoint import Checkpoint
from consensus.checkpoints.parts import Part
from consensus.engines.transport import COLLECTED, ENDS, GOES_ON, MIXED, WAITS, LostRank, Pairs, Pending, Transport
from consensus.errors import WorkerError
from consensus.history import History
from consensus.workers import waiting

Step: TypeAlias = tuple[list[tuple[int, int]], list[tuple[int, int]]]


def routes(me: int, hosts: Sequence[str]) -> list[Step]:
    """Return what a rank receives and sends so that all ranks come to have the rows of all.

    First every rank sends its rows to the ranks of its machine, and to one rank of each other machine; those pass them on.

    Parameters
    ----------
    me : int
        The rank.
    hosts : sequence of str
        The machine of each rank.

    Returns
    -------
    list of (list of (int, int), list of (int, int))
        For each of two steps what is received, ``(from, owner)``, and what is sent, ``(to, owner)``: the rows of the rank
        ``owner``. Two ranks name the rows between them in the same order.

    Examples
    --------
    >>> from consensus.engines.ranks import routes
    >>> routes(0, ["a", "a", "b", "b"])
    [([(1, 1), (2, 2)], [(1, 0), (2, 0)]), ([(1, 3)], [(1, 2)])]
    >>> routes(1, ["a", "a", "a"])
    [([(0, 0), (2, 2)], [(0, 1), (2, 1)]), ([], [])]
    """
    ranks = range(len(hosts))
    members = {host: [rank for rank in ranks if hosts[rank] == host] for host in hosts}

    def takes(rank: int, host: str) -> int:
        """Return which rank of a host takes the rows of a rank elsewhere."""
        return members[host][rank % len(members[host])]

    here = [rank for rank in members[hosts[me]] if rank != me]
    taken = {rank: takes(rank, hosts[me]) for rank in ranks if hosts[rank] != hosts[me]}
    mine = [rank for rank, taker in taken.items() if taker == me]
    direct = here + [takes(me, host) for host in members if host != hosts[me]]
    first = [(rank, rank) for rank in here + mine], [(rank, me) for rank in direct]
    passed = [(taker, rank) for rank, taker in taken.items() if taker != me], [(rank, owner) for rank in here for owner in mine]
    return [first, passed]


T = TypeVar("T")
_RECORDS: _typed.Records = {kind.__name__: (kind, tuple, kind) for kind in (Best, Checkpoint, Part)}
_RECORDS = {**_RECORDS, "History": (History, lambda history: history.__reduce__()[1], History().__reduce__()[0])}
_SPINS = 200  # polls of a message before a waiting rank offers its core to others
_MOMENT = 1.0  # seconds for notes between ranks that wait to arrive
_FORWARDING = 0.2  # seconds for mpiexec or torchrun to pass on the output


def pack(value: object) -> bytes:
    """Return a value as ranks send it: see :func:`consensus._arrays.typed.pack`; they know histories and checkpoints, too."""
    return _typed.pack(value, _RECORDS)


class Ranks:
    """The communication of ranks over a transport, with a ``timeout``.

    A rank that waits longer than usual sends a note to all others, and another one when it goes on. So each waiting rank knows
    which others wait; all the rest are late. The first of the waiting ranks warns of them.

    Parameters
    ----------
    transport : Transport
        What carries the messages.
    timeout : float
        Seconds.

    Attributes
    ----------
    me, size : int
        This rank, and the number of ranks.
    place : callable
        ``place()`` is where this rank is, for messages.
    names : list of str
        The ranks' names.
    elsewhere : frozenset of int
        The ranks on other machines; none until the ranks :meth:`meet`.
    fatal : bool
        Whether a wait that takes too long aborts the job. Otherwise it is an error for the caller, who can add to it.
    """

    def __init__(self, transport: Transport, timeout: float) -> None:
        self.transport, self.timeout = transport, timeout
        self.me, self.size = transport.me, transport.size
        self.names = [f"rank {rank}" for rank in range(self.size)]
        self.elsewhere: frozenset[int] = frozenset()
        self._routes = routes(self.me, [""] * self.size)
        self.leave("in consensus.solve")
        self._usual = waiting.Usual()
        self._waiting: set[int] = set()
        self._ended: set[int] = set()

    def enter(self, place: Callable[[], str], names: list[str]) -> None:
        """Begin the rounds: ``place()`` is the present one, ``names`` are those of the ranks."""
        self.place, self.names, self.fatal = place, names, False

    def leave(self, where: str) -> None:
        """End the rounds: this rank is ``where`` from now on."""
        self.place, self.fatal = (lambda: where), self.size > 1

    def meet(self) -> None:
        """Learn which ranks run on one machine."""
        hosts = self.allgather(platform.node())
        self._routes = routes(self.me, hosts)
        self.elsewhere = frozenset(rank for rank, host in enumerate(hosts) if host != hosts[self.me])

    def exchange(self, receives: Pairs, sends: Pairs, kind: int = MIXED) -> None:
        """Receive arrays and send others: pairs of a rank and an array, which may be longer than the message if ``UNEVEN``."""
        if receives or sends:
            self.wait(self.transport.exchange(kind, receives, sends))

    def allgather(self, value: object) -> list[Any]:
        """Return the values of all ranks, in order, of the types that :func:`pack` takes."""
        content = np.frombuffer(pack(value), np.uint8)
        sizes = self.allgather_rows(np.array([content.size]), np.ones(self.size, np.int64))
        parts = np.split(self.allgather_rows(content, sizes), np.cumsum(sizes)[:-1])
        return [self._unpacked(rank, part) for rank, part in enumerate(parts)]

    def allgather_rows(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the rows of all ranks, in order, of which each has ``counts[rank]``; they travel to each machine once."""
        whole = np.empty((counts.sum(), *rows.shape[1:]), rows.dtype)
        parts = [whole[start:stop] for start, stop in pairwise([0, *np.cumsum(counts).tolist()])]
        parts[self.me][...] = rows
        for step in self._routes:
            receives, sends = ([(rank, parts[owner]) for rank, owner in way if counts[owner]] for way in step)
            self.exchange(receives, sends, COLLECTED)
        return whole

    def gather_rows(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the rows of all ranks, in order, on rank 0; on the others their own."""
        if self.me:
            self.exchange([], [(0, np.ascontiguousarray(rows))], COLLECTED)
            return rows
        whole = np.empty((counts.sum(), *rows.shape[1:]), rows.dtype)
        whole[: len(rows)] = rows
        parts = np.split(whole, np.cumsum(counts)[:-1])
        self.exchange([(rank, parts[rank]) for rank in range(1, self.size)], [], COLLECTED)
        return whole

    def chain(self, step: Callable[[np.ndarray], np.ndarray], value: np.ndarray) -> np.ndarray:
        """Return what the last rank makes of an array by ``step``; each gets it from the one before, the first ``value``."""
        last = self.size - 1
        if self.me:
            value = np.empty_like(value)
            self.exchange([(self.me - 1, value)], [], COLLECTED)
        value = np.ascontiguousarray(step(value))
        if self.me < last:
            self.exchange([], [(self.me + 1, value)], COLLECTED)
        counts = np.zeros(self.size, np.int64)
        counts[last] = 1
        (value,) = self.allgather_rows(value[None][: int(counts[self.me])], counts)
        return value

    def broadcast(self, value: T | None) -> T:
        """Return rank 0's value on all ranks, of the types that :func:`pack` takes."""
        content = np.array(bytearray(pack(value) if self.me == 0 else b""), np.uint8)
        size = np.array([content.size])
        self.wait(self.transport.broadcast(size))
        if self.me:
            content = np.empty(size[0], np.uint8)
        self.wait(self.transport.broadcast(content))
        received: T = self._unpacked(0, content)
        return received

    def _unpacked(self, rank: int, content: np.ndarray) -> Any:  # noqa: ANN401  # of the types that ranks send
        try:
            return _typed.unpack(content.data, _RECORDS)
        except ValueError as error:
            raise WorkerError(f"{self.names[rank]} sent what this version of the package does not: {error}") from error

    def wait(self, pending: Pending) -> None:
        """Wait until messages have been sent and received.

        Raises
        ------
        WorkerError
            If it takes more than ``timeout`` seconds: it names the ranks that are late. If a rank has died.
        """
        try:
            if not self.transport.done(pending, _SPINS):
                self._wait(pending)
        except LostRank as lost:
            self._lost(lost)

    def _wait(self, pending: Pending) -> None:
        wait, noted, warned = waiting.Wait(), False, False
        late, moment = min(self._usual.late, self.timeout / 2), min(_MOMENT, self.timeout / 4)
        try:
            while not self.transport.done(pending, 1):
                seconds = wait.pause()
                if seconds < late:
                    continue
                if not noted:
                    noted = True
                    self.transport.note(WAITS)
                self._read_notes()
                if self._ended:
                    raise LostRank(min(self._ended))
                first = self.me == min(self._waiting | {self.me})
                if first and not warned and seconds > late + moment:
                    warned = True
                    waiting.warn_late(self._late(), seconds, self.timeout)
                if seconds > self.timeout + (0 if first else 2 * moment):  # one of them says it
                    noted = False  # it does not go on: ranks with a note of it would warn in its place
                    self._give_up()
        finally:
            if noted:
                self.transport.note(GOES_ON)
        self._usual.add(wait.seconds)

    def _give_up(self) -> NoReturn:
        error = WorkerError(
            f"{self._late()} kept the others waiting for over {self.timeout:g} s; raise {self.transport.engine}(timeout=...) "
            f"if that is what it takes, or go on from a checkpoint with solve(..., resume=path). {self.transport.absent}"
        )
        if not self.fatal:
            raise error
        self.abort(error, f"{self.names[self.me]} gave up waiting; the job is aborted")

    def _lost(self, lost: LostRank) -> NoReturn:
        self._read_notes()
        what = "has ended the job, and says why" if lost.rank in self._ended else "has ended, or its connection broke"
        error = WorkerError(
            f"{self.place()}: {self.names[lost.rank]} {what}; go on from a checkpoint with solve(..., resume=path)"
        )
        if not self.fatal:
            raise error from lost
        self.abort(error, f"{self.names[self.me]} cannot go on; the job is aborted")

    def abort(self, error: BaseException, said: str) -> NoReturn:
        """End the job on all ranks, after printing the traceback of ``error`` and ``said``."""
        print(*traceback.format_exception(error), said, sep="", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        self.transport.abort(_FORWARDING)

    def _late(self) -> str:
        """Return where this rank is, and which ranks do not wait."""
        late = [name for rank, name in enumerate(self.names) if rank != self.me and rank not in self._waiting]
        if not late:
            late = [
                f"{self.names[self.me]} and all others, which wait for each other as if they exchanged in different rounds,"
            ]
        return f"{self.place()}: {_checks.some(late)}"

    def _read_notes(self) -> None:
        for rank, note in self.transport.notes():
            if note == WAITS:
                self._waiting.add(rank)
            else:
                self._waiting.discard(rank)
            if note == ENDS:
                self._ended.add(rank)


_OWN = "told_here_alone"
_ELSEWHERE = "what it calls consensus.solve with is rejected, and its own process says why,"


@contextmanager
def told_here_alone(owns: bool) -> Iterator[None]:
    """Mark the errors inside if this rank ``owns`` its data: their texts may show some, and do not go to other ranks."""
    try:
        yield
    except Exception as error:
        if owns:
            setattr(error, _OWN, True)
        raise


def agree(ranks: Ranks, error: Exception | None, settings: dict[str, object]) -> None:
    """Raise on all ranks what one of them raised, and reject settings that differ, whose texts are compared.

    All ranks raise their common error, or one that names the ranks of each error, or the settings that differ. An error that
    is :func:`told_here_alone` is raised where it is; others hear that there is one.
    """
    own = error is not None and getattr(error, _OWN, False)
    said = None if error is None else _ELSEWHERE if own else _text(error)
    mine = None if error is None else (isinstance(error, TypeError), isinstance(error, ValueError), said)
    texts = {name: _checks.without_addresses(str(value)) for name, value in settings.items()}
    everyone = ranks.allgather((mine, texts))
    errors = [theirs for theirs, _ in everyone]
    if any(errors):
        if error is not None and (own or len(set(errors)) == 1):
            raise error
        wrong_type, wrong_value, _ = next(filter(None, errors))
        kind = TypeError if wrong_type else ValueError if wrong_value else RuntimeError
        raise kind(_by_rank([theirs and theirs[2] for theirs in errors])) from error
    common = [name for name in settings if all(name in theirs for _, theirs in everyone)]
    columns = {name: [theirs[name] for _, theirs in everyone] for name in common}
    differing = "; ".join(f"{name}: {_by_rank(values)}" for name, values in columns.items() if len(set(values)) > 1)
    if differing:
        raise ValueError(f"all ranks must call consensus.solve with the same arguments; they differ in {differing}")


def _text(error: Exception) -> str:
    return str(error) if type(error) in (TypeError, ValueError) else f"{type(error).__name__}: {error}"


def _by_rank(texts: Sequence[str | None]) -> str:
    """Return the different texts, each with its ranks; None is left out."""
    ranks: dict[str, list[int]] = {}
    for rank, text in enumerate(texts):
        if text is not None:
            ranks.setdefault(text, []).append(rank)
    parts = []
    for text, who in ranks.items():
        parts.append(f"{text} on rank{'s' * (len(who) > 1)} {_checks.some(list(map(str, who)))} of {len(texts)}")
    return ", ".join(parts)
