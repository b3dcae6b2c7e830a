"""The parent's part of a run on worker processes: to observe, to pass on what goes wrong, to say who is late."""

import itertools
import warnings
from multiprocessing import connection
from pathlib import Path

import cloudpickle
import numpy as np

from consensus.engines.waiting import Usual, Wait, say_late
from consensus.engines.worker import restored
from consensus.errors import UnfinishedWarning, WorkerError
from consensus.observe import Gathered

_STARTING = 60.0  # seconds that workers may start one after another
_LOOK = 0.05  # seconds between two looks at how they are


class Parent:
    """Watches the workers of a run.

    Parameters
    ----------
    desk : Desk
    crew, receivers : list
        The workers' processes and the pipes from them.
    observer : Observer
    rounds : int
    timeout : float
        Seconds.
    """

    def __init__(self, desk, crew, receivers, observer, rounds, timeout):
        self.desk, self.crew, self.receivers, self.observer = desk, crew, receivers, observer
        self.rounds, self.timeout = rounds, timeout
        self._usual, self._stall, self._done, self._warned, self._said = Usual(), 0.0, None, False, set()

    def observe(self):
        """At due rounds look at all iterates and say whether to go on; return the reason to stop, or None."""
        desk, observer = self.desk, self.observer
        for visit in itertools.count(1):
            self._wait(visit, self.timeout if visit > 1 else max(self.timeout, _STARTING))
            round, report = int(desk.round.array[0]), desk.report.array.copy()
            reason, save = observer.see(Gathered(round, desk.iterates.array.copy(), report, *desk.totals()))
            last = reason is not None or round >= self.rounds
            desk.command.array[:] = visit, last, save
            desk.gate.arrive(desk.parent, visit)
            if save:
                parts = self._states()
                observer.save(
                    {
                        name: np.concatenate([part[name] for part in parts]) if np.ndim(value) else value
                        for name, value in parts[0].items()
                    }
                )
            if last:
                self._look(dict.fromkeys(range(len(self.crew))))  # for what was warned of in the last rounds
                return reason

    def _wait(self, visit, timeout):
        """Wait until all workers report; raise what went wrong in one of them, or if one comes ``timeout`` s after another."""
        desk, visits, wait = self.desk, self.desk.visits.array, Wait(yields=0)
        looked, first, self._done = 0.0, None, None
        while visits.min() < visit:
            if wait.pause() - looked > _LOOK:
                self._say_late(wait.seconds - looked, visit)
                looked = wait.seconds
                self.observer.tick(max(self.observer.round, int(desk.round.array.min())))
                self._look({})
                if first is None and visits.max() >= visit:
                    first = looked
                if first is not None and looked - first > timeout:
                    raise desk.late(int(visits.argmin()), timeout)
        with desk.gate.lock:
            pass

    def _say_late(self, seconds, visit):
        """Warn, once a stall, of workers that the others wait for longer than usual; ``seconds`` after the last look."""
        desk = self.desk
        done = desk.gate.counters.array[: desk.parent] + desk.visits.array  # what each has come to: exchanges, observations
        if self._done is None or not np.array_equal(done, self._done):
            self._usual.add(self._stall)
            self._done, self._stall, self._warned = done, 0.0, False
            return
        self._stall += seconds
        if visit == 1 or self._stall < min(self._usual.late, self.timeout / 2):
            return
        behind = np.flatnonzero(done < done.max() if done.min() < done.max() else [_stopped(process) for process in self.crew])
        if not len(behind):  # all are at work
            return
        if self._stall > self.timeout + 1:  # a worker that waits notices it first, if there is one
            raise desk.late(int(behind[0]), self.timeout)
        if not self._warned:
            self._warned = True
            names = ", ".join(f"{desk.name(k)}{' (stopped)' * _stopped(self.crew[k])}" for k in behind[:5])
            more = f" and {len(behind) - 5} more" if len(behind) > 5 else ""
            say_late(f"in round {int(desk.round.array[behind[0]]) + 1}: {names}{more}", self._stall, self.timeout)

    def _states(self):
        """The workers' states, in order."""
        states = {}
        while len(states) < len(self.crew):
            connection.wait([receiver for worker, receiver in enumerate(self.receivers) if worker not in states], _LOOK)
            self._look(states)
        return [states[worker] for worker in range(len(self.crew))]

    def _look(self, states):
        """Put states that have come into ``states``, by worker; raise what went wrong in one, warn of what it warned of."""
        for worker, (process, receiver) in enumerate(zip(self.crew, self.receivers, strict=True)):
            alive = process.is_alive()  # asked first: if it is not, all that it ever sent is there
            try:
                kind, content = cloudpickle.loads(receiver.recv_bytes()) if receiver.poll() else (None, None)
            except (EOFError, OSError):  # it ended, in the middle of a message even
                kind, content = None, None
            if kind == "state":
                states[worker] = content
            elif kind == "warning":
                self._warn(*content)
            elif kind == "trouble":
                raise self._trouble(worker, content)
            elif not alive and worker not in states:
                raise WorkerError(
                    f"{self.desk.name(worker)} died in round {int(self.desk.round.array[worker]) + 1} (exit code "
                    f"{process.exitcode}). If there is a checkpoint, go on with solve(..., resume=path)"
                )

    def _warn(self, text, category):
        """As the worker would have; of local problems that were not solved the first worker's warning stands for all."""
        if category is not UnfinishedWarning or category not in self._said:
            warnings.warn(text, category, stacklevel=2)
        self._said.add(category)

    def _trouble(self, worker, content):
        parts, text = content
        if parts is None:
            return WorkerError(f"{self.desk.name(worker)}: {text}")
        error = restored(parts)
        error.add_note(f"in {self.desk.name(worker)}, round {int(self.desk.round.array[worker]) + 1}\n{text}")
        return error


def _stopped(process):
    """Whether a process was stopped by a signal, as far as the system tells."""
    try:
        return Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    except (OSError, IndexError):
        return False
