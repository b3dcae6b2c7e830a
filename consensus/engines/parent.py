"""The parent's part of a run on worker processes: observation, errors, and warnings of late workers."""

import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from consensus.communication.states import joined
from consensus.engines.shared import SharedState
from consensus.engines.worker import DONE
from consensus.errors import UnfinishedWarning, WorkerError
from consensus.observe import Gathered, Observer
from consensus.workers.exceptions import restored
from consensus.workers.waiting import Usual, Wait, warn_late

_STARTING = 60.0  # seconds that workers may start one after another
_POLL = 0.05  # seconds between two polls of their pipes
_ENDING = 1.0  # seconds that workers have to leave a run


class Parent:
    """The observation of a run on workers.

    ``workers`` and ``receivers`` are the workers' processes and the pipes from them: as many as take part, or more. ``timeout``
    is in seconds that a worker may be behind the others.
    """

    def __init__(
        self,
        shared: SharedState,
        workers: Sequence[BaseProcess],
        receivers: Sequence[Connection],
        observer: Observer,
        rounds: int,
        timeout: float,
    ) -> None:
        self.shared, self.observer = shared, observer
        self.workers, self.receivers = workers[: shared.parent], receivers[: shared.parent]
        self._idle: set[int] = set()
        self.rounds, self.timeout = rounds, timeout
        self._usual, self._stall, self._warned = Usual(), 0.0, False
        self._done: np.ndarray | None = None
        self._warned_of: set[type[Warning]] = set()

    def observe(self) -> str | None:
        """Receive and answer the workers' reports of due rounds; return the reason to stop, None after all rounds."""
        shared, observer = self.shared, self.observer
        number = 0
        while True:
            number += 1
            self._wait(number, self.timeout if number > 1 else max(self.timeout, _STARTING))
            round, report = int(shared.round.array[0]), shared.report.array.copy()
            reason, save = observer.see(Gathered(round, shared.iterates.array.copy(), report, *shared.totals()))
            stop = reason is not None or round >= self.rounds
            shared.answer.array[:] = stop, save, observer.due.next
            shared.barrier.arrive(shared.parent, number)
            if save:
                observer.save(self._state())
            if stop:
                self._receive_last()
                return reason

    def ended(self) -> bool:
        """End the run on all workers; return whether all of them are ready for another within a second."""
        self.shared.barrier.abort.array[0] = 1
        deadline = time.monotonic() + _ENDING
        while late := self._late():
            ready = connection.wait(list(late), max(0.0, deadline - time.monotonic()))
            if not ready:
                return False
            try:
                messages = {receiver: receiver.recv_bytes() for receiver in late if receiver in ready}
            except (EOFError, OSError):
                return False
            self._idle |= {late[receiver] for receiver, message in messages.items() if message == DONE}
        return True

    def _late(self) -> dict[Connection, int]:
        """Return the pipes from workers that have not left the run, with their numbers."""
        return {receiver: worker for worker, receiver in enumerate(self.receivers) if worker not in self._idle}

    def _receive_last(self) -> None:
        """Pass on the warnings of the last rounds."""
        deadline, everyone = time.monotonic() + _ENDING, {worker: dict[str, Any]() for worker in range(len(self.workers))}
        while (late := self._late()) and time.monotonic() < deadline and all(process.is_alive() for process in self.workers):
            connection.wait(list(late), _POLL)
            self._poll(everyone)

    def _wait(self, number: int, timeout: float) -> None:
        """Wait for all workers' reports ``number``; raise the error of one, or one if a worker is ``timeout`` s behind."""
        shared, reported, wait = self.shared, self.shared.reported.array, Wait(yields=0)
        polled, self._done = 0.0, None
        first: float | None = None
        while reported.min() < number:
            if wait.pause() - polled > _POLL:
                self._warn_late(wait.seconds - polled, number)
                polled = wait.seconds
                self.observer.tick(max(self.observer.round, int(shared.round.array.min())))
                self._poll({})
                if first is None and reported.max() >= number:
                    first = polled
                if first is not None and polled - first > timeout:
                    raise shared.late(int(reported.argmin()), timeout)
        with shared.barrier.lock:
            pass

    def _warn_late(self, seconds: float, number: int) -> None:
        """Warn, once per stall, of workers that keep the others waiting longer than usual; ``seconds`` after the last poll."""
        shared = self.shared
        done = shared.barrier.counters.array[: shared.parent] + shared.reported.array  # exchanges and reports of each
        if self._done is None or not np.array_equal(done, self._done):
            self._usual.add(self._stall)
            self._done, self._stall, self._warned = done, 0.0, False
            return
        self._stall += seconds
        if number == 1 or self._stall < min(self._usual.late, self.timeout / 2):
            return
        stopped = [_stopped(process) for process in self.workers]
        behind = np.flatnonzero(done < done.max() if done.min() < done.max() else stopped)
        if not len(behind):  # all are computing
            return
        if self._stall > self.timeout + 1:  # a waiting worker, if any, notices it first
            raise shared.late(int(behind[0]), self.timeout)
        if not self._warned:
            self._warned = True
            names = ", ".join(f"{shared.name(worker)}{' (stopped)' * stopped[worker]}" for worker in behind[:5])
            more = f" and {len(behind) - 5} more" if len(behind) > 5 else ""
            warn_late(f"in round {int(shared.round.array[behind[0]]) + 1}: {names}{more}", self._stall, self.timeout)

    def _state(self) -> dict[str, Any]:
        """Return all agents' numbers, joined from the workers' states."""
        states: dict[int, dict[str, Any]] = {}
        while len(states) < len(self.workers):
            connection.wait([receiver for worker, receiver in enumerate(self.receivers) if worker not in states], _POLL)
            self._poll(states)
        return joined([states[worker] for worker in range(len(self.workers))])

    def _poll(self, states: dict[int, dict[str, Any]]) -> None:
        """Add received states to ``states``, by worker; pass on errors and warnings."""
        for worker, (process, receiver) in enumerate(zip(self.workers, self.receivers, strict=True)):
            alive = process.is_alive()  # checked first: all that a dead worker sent has arrived
            kind: str | None = None
            content: Any = None
            with suppress(EOFError, OSError):  # it ended, perhaps in the middle of a message
                message = receiver.recv_bytes() if receiver.poll() else None
                if message == DONE:
                    self._idle.add(worker)
                elif message is not None:
                    kind, content = cloudpickle.loads(message)
            if kind == "state":
                states[worker] = content
            elif kind == "warning":
                self._warn(*content)
            elif kind == "error":
                raise self._error(worker, *content)
            elif not alive and worker not in states:
                raise WorkerError(
                    f"{self.shared.name(worker)} died in round {int(self.shared.round.array[worker]) + 1} (exit code "
                    f"{process.exitcode}). If there is a checkpoint, go on with solve(..., resume=path)"
                )

    def _warn(self, text: str, category: type[Warning]) -> None:
        """Warn as the worker did; of unfinished local problems only once for all workers."""
        if category is not UnfinishedWarning or category not in self._warned_of:
            warnings.warn(text, category, stacklevel=2)
        self._warned_of.add(category)

    def _error(self, worker: int, parts: object, text: str) -> BaseException:
        """Return a worker's exception, with its place and traceback as a note."""
        if parts is None:
            return WorkerError(f"{self.shared.name(worker)}: {text}")
        error = restored(parts)
        error.add_note(f"in {self.shared.name(worker)}, round {int(self.shared.round.array[worker]) + 1}\n{text}")
        return error


def _stopped(process: BaseProcess) -> bool:
    """Return whether a process was stopped by a signal, where the system has /proc."""
    try:
        return Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    except (OSError, IndexError):
        return False
