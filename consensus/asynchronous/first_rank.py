"""The first rank's part of a run without rounds: it asks, records and ends the run; and the answers of the others."""

from __future__ import annotations

import time

import numpy as np

from consensus.asynchronous.post import ANSWER, COUNT, ORDER, RankPost
from consensus.asynchronous.rank import AgentsOfRank
from consensus.asynchronous.tally import Seen, Tally
from consensus.engines.ranks import Ranks
from consensus.errors import WorkerError
from consensus.observe import Observer
from consensus.workers import waiting

ANSWERS, ENDS = 1, 2  # what the first rank orders


class FirstRank:
    """Counts the wakes of all ranks; when a round is due, it asks each for its iterates, and records when all have answered.

    Parameters
    ----------
    agents : AgentsOfRank
        Its own agents, which go on waking meanwhile.
    everyone : structured ndarray (A,)
        The reports of all agents at the start.
    blocks : list of slice
        The agents of each rank.
    ranks : Ranks
        The ranks.
    post : RankPost
        What carries their messages.
    tally : Tally
        Turns reports into rows.
    observer : Observer
        Records them.
    rounds : int
        After which the run ends.

    Attributes
    ----------
    reason : str or None
        Why it ended early.
    """

    def __init__(
        self,
        agents: AgentsOfRank,
        everyone: np.ndarray,
        blocks: list[slice],
        ranks: Ranks,
        post: RankPost,
        tally: Tally,
        observer: Observer,
        rounds: int,
    ) -> None:
        self._agents, self._everyone, self._own, self._ranks = agents, everyone, blocks[0], ranks
        self._tally, self._observer, self._rounds = tally, observer, rounds
        self._wakes, others = np.zeros(ranks.size, int), range(1, ranks.size)
        self._counts = [post.arrivals(rank, self._wakes[rank : rank + 1], COUNT) for rank in others]
        self._answers = {rank: post.arrivals(rank, everyone[blocks[rank]], ANSWER) for rank in others}
        self._orders = {rank: post.departures(rank, np.zeros(1, int), ORDER) for rank in others}
        self._order = 0
        self._untold: set[int] = set()
        self._unanswered: set[int] = set()
        self._asked: float | None = None
        self.reason: str | None = None

    def look(self) -> bool:
        """Do what is due now; return whether the run has ended, of which all ranks have been told."""
        for box in self._counts:
            box.take()
        self._wakes[0] = self._agents.report["wakes"].sum()
        round = self._round(self._wakes)
        self._observer.tick(max(self._observer.round, round))
        if self._asked is None and self._observer.due.passed(round) is not None:
            self._asked, self._unanswered = time.monotonic(), set(self._answers)
            self._tell(ANSWERS)
        elif self._untold:
            self._tell(self._order, again=True)
        if self._asked is None:
            return False
        self._unanswered -= {rank for rank in self._unanswered if self._answers[rank].take()}
        if self._unanswered:
            seconds = self._ranks.timeout
            if time.monotonic() - self._asked > seconds:
                late = ", ".join(self._ranks.names[rank] for rank in sorted(self._unanswered)[:5])
                raise WorkerError(
                    f"{late} did not answer the first rank for over {seconds:g} s: raise "
                    f"Async{self._ranks.transport.engine}(timeout=...) if a wake takes that long"
                )
            return False
        self._asked = None
        self._everyone[self._own] = self._agents.answer()
        over = self.record(self._agents.now())
        if over:
            wait = waiting.Wait()
            self._tell(ENDS)
            while self._untold:  # they have taken the last order, as they answered
                wait.pause()
                self._tell(ENDS, again=True)
        return over

    def record(self, seconds: float) -> bool:
        """Record the newest due round of the reports; return whether the run has ended."""
        wakes = self._everyone["wakes"].copy()
        due = self._observer.due.passed(self._round(wakes))
        assert due is not None, "the agents have woken as often as it took to ask"
        seen = Seen(self._everyone["w"].copy(), wakes, self._everyone["stale"].copy(), self._everyone["lost"].copy())
        work = self._everyone["work"].sum(axis=0)
        self.reason = self._observer.see(self._tally.gathered(due, seen, work, seconds)).reason
        return self.reason is not None or due >= self._rounds

    def _round(self, wakes: np.ndarray) -> int:
        return min(int(wakes.sum()) // len(self._everyone), self._rounds)

    def _tell(self, order: int, again: bool = False) -> None:
        """Send an order to all, or again to those whose last message is still on its way."""
        self._order, self._untold = order, self._untold if again else set(self._orders)
        self._untold -= {rank for rank in self._untold if self._orders[rank].offer(np.array([order]))}


class OtherRank:
    """Tells the first rank how often the agents of another one woke, and all of them if it asks.

    Parameters
    ----------
    agents : AgentsOfRank
        The agents of this rank.
    post : RankPost
        What carries messages to and from the first rank.
    """

    def __init__(self, agents: AgentsOfRank, post: RankPost) -> None:
        self._agents, self._order = agents, np.zeros(1, int)
        self._count = post.departures(0, np.zeros(1, int), COUNT)
        self._answer = post.departures(0, agents.report, ANSWER)
        self._orders = post.arrivals(0, self._order, ORDER)

    def look(self) -> bool:
        """Do what the first rank orders; return whether it says that the run ends."""
        if self._orders.take() and self._order[0] == ENDS:
            return True
        self._count.offer(self._agents.report["wakes"].sum())
        if self._order[0] == ANSWERS and self._answer.free:
            self._answer.offer(self._agents.answer())
            self._order[0] = 0
        return False
