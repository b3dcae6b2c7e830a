"""The agents of one rank, which wake without waiting for those of others."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, cast

import numpy as np

from consensus.asynchronous.arcs import Arcs
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.blocks import Block, Blocks
from consensus.asynchronous.mailbox import Mailbox
from consensus.asynchronous.post import Arrivals, Departures, Post
from consensus.asynchronous.tally import WORK
from consensus.engines.protocols import AnyProblem, AnyState
from consensus.engines.ranks import Ranks
from consensus.engines.rounds import all_small
from consensus.errors import DivergenceError


class AgentsOfRank:
    """States of a rank's agents, the newest messages of all that they read, and the mail to other ranks.

    Parameters
    ----------
    problem : Problem
        The problem of the rank's agents.
    solver : AsynchronousSolver
        The solver.
    arcs : Arcs
        All arcs.
    blocks : list of slice
        The agents of each rank.
    ranks : Ranks
        The ranks.
    post : Post
        What carries the mail.
    start : ndarray (agents, P)
        Where these begin.

    Attributes
    ----------
    report : structured ndarray (agents,)
        For the history: ``w``, ``wakes``, ``stale`` and ``lost`` of each agent; ``work`` of all in the first row.
    messages : NamedTuple of ndarray (agents, ...)
        The messages at the start.
    here : structured ndarray
        The newest messages of own agents and of their sources, in the order of agents; zeros for places without a source.
    arrived : int
        How many messages were found since it was set to 0.
    """

    def __init__(
        self,
        problem: AnyProblem,
        solver: AsynchronousSolver,
        arcs: Arcs,
        blocks: list[slice],
        ranks: Ranks,
        post: Post,
        start: np.ndarray,
    ) -> None:
        self.solver, self._post, self._ahead, rows = solver, post, 0.0, blocks[ranks.me]
        own = arcs.block(rows)
        self._blocks = Blocks(problem, own, single=getattr(solver, "batch", None) is not None)
        state, messages = solver.init(self._blocks.problem, own, start)
        self.state = state._make([np.array(value) for value in state])
        self.messages = messages
        self._parts = self._blocks.of(range(own.sources.shape[0]))
        numbers = {"wakes": "i8", "stale": "f8", "lost": "i8"}
        fields = [("w", state.w.dtype, state.w.shape[1:]), *numbers.items(), ("work", "f8", (len(WORK),))]
        self.report = np.zeros(len(state.w), np.dtype(fields, align=True))

        fields = [("sent", "f8"), *((name, value.dtype, value.shape[1:]) for name, value in messages._asdict().items())]
        mail = np.dtype(fields, align=True)
        known = np.union1d(np.arange(rows.start, rows.stop), own.sources[own.sources >= 0])
        self._own = _between(known, rows)
        self.here = np.zeros(len(known) + 1, mail)
        self._unused = own.sources < 0
        self._places = np.where(self._unused, len(known), np.searchsorted(known, own.sources))
        sizes = np.array([block.stop - block.start for block in blocks])
        for name, value in messages._asdict().items():
            self.here[name][:-1] = ranks.allgather_rows(value, sizes)[known]

        self._mail: list[tuple[Departures, np.ndarray, np.ndarray]] = []  # to a rank, of these own agents, along so many arcs
        self._letters: list[Arrivals] = []
        for rank, block in enumerate(blocks):
            if rank == ranks.me:
                continue
            theirs = arcs.sources[block]
            agents, copies = np.unique(theirs[(theirs >= rows.start) & (theirs < rows.stop)], return_counts=True)
            if len(agents):
                self._mail.append((post.departures(rank, np.zeros(len(agents), mail)), agents - rows.start, copies))
            part = _between(known, block)
            if part.stop > part.start:
                self._letters.append(post.arrivals(rank, self.here[part]))
        self.arrived = 0

    def begin(self, ahead: float) -> None:
        """Set the clock: the seconds since the beginning are ``ahead`` of ``time.monotonic``."""
        self._ahead = ahead
        self.here["sent"] = self.now()

    def now(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() + self._ahead

    def sweep(self) -> None:
        """Let each agent wake once, and send what can be sent without waiting."""
        self.arrived = 0
        self.wake()
        self.send()
        if not self.arrived and self._letters:
            self._post.pause()

    def wake(self) -> None:
        """Let each agent wake once."""
        for part in self._parts:
            self._wake(part)

    def look(self) -> None:
        """Take the messages that have arrived, for the next wakes."""
        self.arrived += sum(box.take() for box in self._letters)

    def send(self) -> None:
        """Send the newest messages of own agents, where that does not take waiting."""
        for box, agents, copies in self._mail:
            if not box.offer(self.here[self._own][agents]):
                self.report["lost"][agents] += copies

    def _wake(self, part: Block) -> None:
        rows = part.rows
        own = self.state._make([value[rows] for value in self.state])
        mailbox = Mailbox(partial(self._newest, rows))
        new, messages = self.solver.wake(part.problem, part.arcs, own, cast(Any, mailbox))
        if not all_small(new.w):
            raise DivergenceError(int(self.report["wakes"][rows].min()), self.solver)
        here = self.here[self._own][rows]
        for name, value in zip(messages._fields, messages, strict=True):
            here[name] = value
        here["sent"] = self.now()
        for field, value in zip(self.state, new, strict=True):
            field[rows] = value
        self.report["wakes"][rows] += 1

    def _newest(self, rows: slice) -> AnyState:
        """Take the messages that have arrived; return the newest ones for agents, and keep the greatest age."""
        self.look()
        places = self._places[rows]
        ages = np.where(self._unused[rows], 0.0, self.now() - self.here["sent"][places]).max(axis=1)
        self.report["stale"][rows] = np.maximum(self.report["stale"][rows], ages)
        return self.messages._make([self.here[name][places] for name in self.messages._fields])

    def answer(self) -> np.ndarray:
        """Return the report of this moment; ages count from here on."""
        self.report["w"] = self.state.w
        self.report["work"][0] = self.work()
        report = self.report.copy()
        self.report["stale"] = 0
        return report

    def work(self) -> np.ndarray:
        """Return the counts of :data:`WORK` of all agents so far."""
        counts = self._blocks.work()
        return np.array([counts[name] for name in WORK])


def _between(known: np.ndarray, rows: slice) -> slice:
    """Return where the agents ``rows`` are in ``known``, which increases."""
    first, last = np.searchsorted(known, (rows.start, rows.stop))
    return slice(int(first), int(last))
