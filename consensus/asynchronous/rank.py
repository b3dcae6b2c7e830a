"""The agents of one MPI rank, which wake without waiting for those of others."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from consensus.asynchronous.arcs import Arcs
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.blocks import Block, Blocks
from consensus.asynchronous.mailbox import Mailbox
from consensus.asynchronous.post import ANSWER, COUNT, MAIL, ORDER, Incoming, Outgoing, end, seconds_ahead
from consensus.asynchronous.tally import WORK
from consensus.engines.protocols import AnyProblem, AnyState
from consensus.engines.ranks import Ranks
from consensus.engines.rounds import all_small
from consensus.errors import DivergenceError
from consensus.workers import waiting

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

ANSWERS, ENDS = 1, 2  # what the first rank orders


class AgentsOfRank:
    """States of a rank's agents, the newest messages of all that they read, and the mail to other ranks.

    Parameters
    ----------
    problem : Problem
        The problem of all agents.
    solver : AsynchronousSolver
        The solver.
    arcs : Arcs
        All arcs.
    blocks : list of slice
        The agents of each rank.
    ranks : Ranks
        The ranks.
    communicator : mpi4py.MPI.Comm
        Theirs.
    start : ndarray (A, P)
        Where all agents begin.

    Attributes
    ----------
    report : structured ndarray (agents,)
        For the first rank: ``w``, ``wakes``, ``stale`` and ``lost`` of each agent; ``work`` of all in the first row.
    messages : NamedTuple of ndarray (agents, ...)
        The messages at the start.
    """

    def __init__(
        self,
        problem: AnyProblem,
        solver: AsynchronousSolver,
        arcs: Arcs,
        blocks: list[slice],
        ranks: Ranks,
        communicator: Comm,
        start: np.ndarray,
    ) -> None:
        self.solver, self.ranks, self._communicator, rows = solver, ranks, communicator, blocks[ranks.me]
        own = arcs.block(rows)
        self._blocks = Blocks(problem.restrict(rows), own, single=getattr(solver, "batch", None) is not None)
        state, messages = solver.init(self._blocks.problem, own, start[rows].copy())
        self.state = state._make([np.array(value) for value in state])
        self.messages = messages
        self._parts = self._blocks.of(range(own.sources.shape[0]))
        numbers = {"wakes": "i8", "stale": "f8", "lost": "i8"}
        fields = [("w", state.w.dtype, state.w.shape[1:]), *numbers.items(), ("work", "f8", (len(WORK),))]
        self.report = np.zeros(len(state.w), np.dtype(fields, align=True))

        # The newest messages of own agents and of their sources, in the order of agents; zeros for places without a source.
        fields = [("sent", "f8"), *((name, value.dtype, value.shape[1:]) for name, value in messages._asdict().items())]
        mail = np.dtype(fields, align=True)
        known = np.union1d(np.arange(rows.start, rows.stop), own.sources[own.sources >= 0])
        self._own = _between(known, rows)
        self._here = np.zeros(len(known) + 1, mail)
        self._unused = own.sources < 0
        self._places = np.where(self._unused, len(known), np.searchsorted(known, own.sources))
        sizes = np.array([block.stop - block.start for block in blocks])
        for name, value in messages._asdict().items():
            self._here[name][:-1] = ranks.allgather_rows(value, sizes)[known]

        self._mail: list[tuple[Outgoing, np.ndarray, np.ndarray]] = []  # to a rank, of these own agents, along so many arcs
        self._letters: list[Incoming] = []
        for rank, block in enumerate(blocks):
            if rank == ranks.me:
                continue
            theirs = arcs.sources[block]
            agents, copies = np.unique(theirs[(theirs >= rows.start) & (theirs < rows.stop)], return_counts=True)
            if len(agents):
                box = Outgoing(communicator, rank, MAIL, np.zeros(len(agents), mail))
                self._mail.append((box, agents - rows.start, copies))
            part = _between(known, block)
            if part.stop > part.start:
                self._letters.append(Incoming(communicator, rank, MAIL, self._here[part]))
        self._arrived = 0
        self._order, self._orders = np.zeros(1, int), list[Incoming]()
        self._replies: dict[int, Outgoing] = {}
        if ranks.me:
            self._orders = [Incoming(communicator, 0, ORDER, self._order)]
            buffers = {COUNT: np.zeros(1, int), ANSWER: np.zeros_like(self.report)}
            self._replies = {tag: Outgoing(communicator, 0, tag, buffer) for tag, buffer in buffers.items()}

    def begin(self) -> None:
        """Set the clock, which is zero on all ranks when the first one calls this; all call it together."""
        began = time.monotonic() if self.ranks.me == 0 else 0.0
        self._ahead = seconds_ahead(self.ranks)
        self._ahead -= self.ranks.broadcast(began)
        self._here["sent"] = self.now()

    def now(self) -> float:
        """Return the seconds since the beginning, by the first rank's clock."""
        return time.monotonic() + self._ahead

    def sweep(self) -> None:
        """Let each agent wake once, and send what can be sent without waiting."""
        self._arrived = 0
        for part in self._parts:
            self._wake(part)
        for box, agents, copies in self._mail:
            if box.free:
                box.buffer[...] = self._here[self._own][agents]
                box.send()
            else:
                self.report["lost"][agents] += copies
        if not self._arrived and self._letters:
            waiting.Wait(yields=1).pause()  # where ranks share a core, others have their turn

    def _wake(self, part: Block) -> None:
        rows = part.rows
        own = self.state._make([value[rows] for value in self.state])
        mailbox = Mailbox(partial(self._newest, rows))
        new, messages = self.solver.wake(part.problem, part.arcs, own, cast(Any, mailbox))
        if not all_small(new.w):
            raise DivergenceError(int(self.report["wakes"][rows].min()), self.solver)
        here = self._here[self._own][rows]
        for name, value in zip(messages._fields, messages, strict=True):
            here[name] = value
        here["sent"] = self.now()
        for field, value in zip(self.state, new, strict=True):
            field[rows] = value
        self.report["wakes"][rows] += 1

    def _newest(self, rows: slice) -> AnyState:
        """Take the messages that have arrived; return the newest ones for agents, and keep the greatest age."""
        self._arrived += sum(box.take() for box in self._letters)
        places = self._places[rows]
        ages = np.where(self._unused[rows], 0.0, self.now() - self._here["sent"][places]).max(axis=1)
        self.report["stale"][rows] = np.maximum(self.report["stale"][rows], ages)
        return self.messages._make([self._here[name][places] for name in self.messages._fields])

    def obey(self) -> bool:
        """Tell the first rank how often agents woke, and all if it asks; return whether it says that the run ends."""
        if self._orders[0].take() and self._order[0] == ENDS:
            return True
        count, answer = self._replies[COUNT], self._replies[ANSWER]
        if count.free:
            count.buffer[0] = self.report["wakes"].sum()
            count.send()
        if self._order[0] == ANSWERS and answer.free:
            answer.buffer[...] = self.answer()
            answer.send()
            self._order[0] = 0
        return False

    def answer(self) -> np.ndarray:
        """Return the report of this moment; ages count from here on."""
        self.report["w"] = self.state.w
        counts = self._blocks.work()
        self.report["work"][0] = [counts[name] for name in WORK]
        report = self.report.copy()
        self.report["stale"] = 0
        return report

    def end(self, outgoing: list[Outgoing], incoming: list[Incoming]) -> None:
        """End all messages, and those given; all ranks call it together."""
        mail = [box for box, _, _ in self._mail]
        end(
            self.ranks,
            self._communicator,
            [*mail, *self._replies.values(), *outgoing],
            [*self._letters, *self._orders, *incoming],
        )


def _between(known: np.ndarray, rows: slice) -> slice:
    """Return where the agents ``rows`` are in ``known``, which increases."""
    first, last = np.searchsorted(known, (rows.start, rows.stop))
    return slice(int(first), int(last))
