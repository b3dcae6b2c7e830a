"""The loop over events: agents that wake, in the order of time."""

from __future__ import annotations

import math
import time
from heapq import heappop, heappush
from typing import Any, Self

import numpy as np

from consensus._arrays.parallel import one_blas_thread
from consensus.asynchronous.arcs import Arcs, arcs_of
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.blocks import Blocks
from consensus.asynchronous.mail import Inbox, restored, saved
from consensus.asynchronous.timetable import Timetable
from consensus.engines import Begin
from consensus.engines.protocols import AnyProblem
from consensus.engines.rounds import all_small
from consensus.errors import DivergenceError
from consensus.observe import Gathered, Observer
from topologies.schedules import ScheduleLike

_LISTS = ("number", "newest", "sent_at", "wakes_at", "clock", "stale", "lost")  # of the events, one entry an agent


class Events:
    """All agents' states, mailboxes and messages on their way.

    Agents wake in the order of time, those at the same time in the order of their numbers; what has arrived by then is read.
    The next ones are computed together as long as none of them reads a message of another, or wakes before another again.

    Attributes
    ----------
    state : NamedTuple
        The agents' states, which are overwritten.
    mailbox : NamedTuple
        The newest messages that each agent has read, by place (agents, D, ...).
    arcs : Arcs
        The arcs of all agents.
    """

    def __init__(
        self, problem: AnyProblem, schedule: ScheduleLike, solver: AsynchronousSolver, times: Timetable, start: np.ndarray
    ) -> None:
        self.problem, self.solver, self.times = problem, solver, times
        r, c = solver.matrices(schedule)
        self.arcs: Arcs = arcs_of(r, c, problem.dtype)
        self.blocks = Blocks(problem, self.arcs, single=getattr(solver, "batch", None) is not None)
        agents, places = self.arcs.sources.shape
        state, messages = solver.init(self.blocks.problem, self.arcs, start)
        self.state = type(state)(*(np.array(value) for value in state))
        known = np.maximum(self.arcs.sources, 0)
        self.mailbox = type(messages)(*(np.array(value[known]) for value in messages))
        self.sizes = [math.prod(value.shape[1:]) for value in messages]  # numbers in a message, by field
        places_of = [{j: place for place, j in enumerate(row) if j >= 0} for row in self.arcs.sources.tolist()]
        self.sources = [len(row) for row in places_of]
        self.kept_at = [[places_of[j].get(i) for j in row] for i, row in enumerate(times.targets)]  # None: not read there
        self.newest = np.full((agents, places), -1).tolist()  # the number of the message in each place
        self.sent_at = np.zeros((agents, places)).tolist()
        self.inbox: list[Inbox] = [[] for _ in range(agents)]
        self.number = [0] * agents
        self.wakes_at = [times.next_wake(i, 0, time) for i, time in enumerate(times.first)]
        self.clock, self.stale, self.lost = [0.0] * agents, [0.0] * agents, [0] * agents
        self.done = self.before = 0  # wakes in all, and those before this run
        self.sent, self.read = np.zeros(agents, int), np.zeros(agents, int)  # messages of this run
        self.queue = sorted((time, i) for i, time in enumerate(self.wakes_at))

    @classmethod
    def begun(
        cls, problem: AnyProblem, schedule: ScheduleLike, solver: AsynchronousSolver, times: Timetable, begin: Begin
    ) -> Self:
        """Return the events at a start, or where a checkpoint left them."""
        w = np.ascontiguousarray(begin.numbers["w"])
        events = cls(problem, schedule, solver, times, w)
        if begin.resumed:
            events.blocks.forget()  # the start was counted before
            events._restore(begin.numbers)
        return events

    def run(self, rounds: int, observer: Observer) -> str | None:
        """Run until each agent woke ``rounds`` times on average; return the observer's reason to stop early, or None."""
        agents = len(self.number)
        seconds = 0.0
        with one_blas_thread, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while True:
                round, w = self.done // agents, self.state.w.copy()
                if not all_small(w):
                    raise DivergenceError(round, self.solver)
                observer.tick(round, w)
                if observer.due(round):
                    recorded = observer.due.recorded(round)
                    decision = observer.see(Gathered(round, w, self.report(), self.counts(), seconds))
                    if decision.save:
                        observer.save(self._saved(round))
                    if recorded:
                        self.stale = [0.0] * agents
                    if decision.reason:
                        return decision.reason
                if round >= rounds:
                    return None
                since, most = time.perf_counter(), (round + 1) * agents
                while self.done < most:
                    self.advance(most - self.done)
                seconds += time.perf_counter() - since

    def advance(self, most: int) -> list[int]:
        """Compute the next wakes that do not depend on each other, at most ``most``; return their agents."""
        queue, outgoing = self.queue, {}
        chosen: list[int] = []
        again: list[tuple[float, int]] = []
        soonest: dict[int, float] = {}  # when a message of those that are chosen arrives, by target
        until = (math.inf, 0)
        while queue and len(chosen) < most:
            time, i = queue[0]
            if queue[0] > until or soonest.get(i, math.inf) <= time:
                break
            heappop(queue)
            chosen.append(i)
            outgoing[i] = self._sent(i, time)
            for target, arrives, _ in outgoing[i]:
                soonest[target] = min(soonest.get(target, math.inf), arrives)
            again.append((self.times.next_wake(i, self.number[i] + 1, time), i))
            until = min(until, again[-1])
            self._read(i, time)
        for block in self.blocks.of(sorted(chosen) if len(chosen) > 1 else chosen):
            part = block.rows
            own, mailbox = self.state._make([v[part] for v in self.state]), self.mailbox._make([v[part] for v in self.mailbox])
            state, messages = self.solver.wake(block.problem, block.arcs, own, mailbox)
            messages = messages._make([value if value.base is None else value.copy() for value in messages])  # parts of states
            for field, value in zip(self.state, state, strict=True):
                field[part] = value
            if self.solver.adds:
                for field in self.mailbox:
                    field[part] = 0
            for row, i in enumerate(range(part.start, part.stop)):
                number, time = self.number[i], self.wakes_at[i]
                for target, arrives, place in outgoing[i]:
                    heappush(self.inbox[target], (arrives, place, number, time, messages, row))
        for following in again:
            i = following[1]
            self.clock[i], self.wakes_at[i] = self.wakes_at[i], following[0]
            self.number[i] += 1
            heappush(queue, following)
        self.done += len(chosen)
        return chosen

    def _read(self, i: int, time: float) -> None:
        """Put the newest messages that have arrived by ``time`` into the mailbox of agent i."""
        inbox, newest, sent_at = self.inbox[i], self.newest[i], self.sent_at[i]
        while inbox and inbox[0][0] <= time:
            _, place, number, sent, messages, row = heappop(inbox)
            self.read[i] += 1
            if self.solver.adds:
                sent_at[place] = max(sent_at[place], sent)
                for field, value in zip(self.mailbox, messages, strict=True):
                    field[i, place] += value[row]
            elif number > newest[place]:
                newest[place], sent_at[place] = number, sent
                for field, value in zip(self.mailbox, messages, strict=True):
                    field[i, place] = value[row]
        oldest = min(sent_at[: self.sources[i]], default=time)
        self.stale[i] = max(self.stale[i], time - oldest)

    def _sent(self, i: int, time: float) -> list[tuple[int, float, int]]:
        """Return the messages of agent i that will arrive: targets, times, and the places where targets keep them."""
        number, targets = self.number[i], self.times.targets[i]
        if not self.solver.sends_at(number):
            return []
        drawn = self.times.of_wake(i, number)
        at = number - drawn.first
        self.sent[i] += len(targets)
        self.lost[i] += sum(drawn.lost[at])
        each = zip(targets, self.kept_at[i], drawn.delays[at], drawn.lost[at], strict=True)
        return [(target, time + delay, place) for target, place, delay, lost in each if place is not None and not lost]

    def report(self) -> np.ndarray:
        """Return the agents' numbers for the columns ``clock``, ``wakes``, ``staleness`` and ``lost``."""
        return np.array([self.clock, self.number, self.stale, self.lost], float).T

    def counts(self) -> dict[str, Any]:
        """Return the counts of this run: a message for each wake and arc, whether it arrives or not."""
        size = sum(self.sizes)
        sent, item = int(self.sent.sum()), self.problem.dtype.itemsize
        counts = {
            "exchanges": (self.done - self.before) // len(self.number),
            "messages": sent,
            "floats": sent * size,
            "bytes": sent * size * item,
        }
        return counts | self.blocks.work() | {"traffic": (self.sent + self.read) * size * item}

    def _saved(self, round: int) -> dict[str, Any]:
        """Return all that a run goes on from, as arrays with a row for each agent."""
        fields: dict[str, Any] = {"round": round} | self.state._asdict()
        fields |= {f"mailbox.{name}": value for name, value in self.mailbox._asdict().items()}
        fields |= {f"events.{name}": np.array(getattr(self, name)) for name in _LISTS}
        return fields | saved(self.inbox, self.mailbox)

    def _restore(self, fields: dict[str, Any]) -> None:
        for prefix, known in (("", self.state), ("mailbox.", self.mailbox)):
            for name, value in known._asdict().items():
                value[...] = fields[f"{prefix}{name}"]
        for name in _LISTS:
            setattr(self, name, fields[f"events.{name}"].tolist())
        self.inbox = restored(fields, self.mailbox)
        self.queue = sorted((time, i) for i, time in enumerate(self.wakes_at))
        self.done = self.before = int(fields["round"]) * len(self.number)
