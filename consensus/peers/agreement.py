"""The agreement of peers on who is present: one epoch after another, each with more than half of all peers.

Every peer says a word of itself, of which the latest version counts. Words pass from neighbour to neighbour until all have
them, in any order and as often as they like, so that a lost one is only late. The next epoch is one that more than half of all
peers accept, by the two phases of Paxos (Lamport, "Paxos made simple", 2001) with words in place of messages: so there is one
next epoch, whoever is cut off, comes back or proposes another one meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import networkx as nx

RUNS, STOPPED, FINISHED = range(3)


class Epoch(NamedTuple):
    """The ``members`` that run, from the iterates after ``round`` rounds of those who have them, without the edges ``cut``."""

    number: int
    members: tuple[int, ...]
    round: int
    cut: tuple[tuple[int, int], ...] = ()


class Word(NamedTuple):
    """A statement of a peer about itself, and about the epoch after the latest that it knows."""

    peer: int
    version: int
    epoch: Epoch
    state: int
    rounds: tuple[int, ...] = ()  # of whose iterates it has
    lost: tuple[int, ...] = ()  # neighbours that it does not reach, or waited for in vain
    ballot: int = 0  # the number of its proposal, which a number of two peers is never
    proposal: Epoch | None = None
    promised: int = 0  # ballots below this are none for it
    accepted: int = 0  # the ballot of its choice
    choice: Epoch | None = None


class Agreement:
    """One peer's part in the agreement. It has no clock, no thread and no connection of its own.

    ``graph`` has the peers by number, ``settle`` the seconds that who is stopped waits for the others; ``keep(word)`` writes
    the own word to the disk before others hear it; ``own`` is the last one that was written, if this peer was started again.
    """

    def __init__(
        self, graph: nx.Graph, me: int, settle: float, keep: Callable[[Word], object] = id, own: Word | None = None
    ) -> None:
        self.graph, self.me, self.settle, self._keep = graph, me, settle, keep
        everyone = tuple(sorted(graph))
        self.size = len(everyone)
        if own is None:
            own = Word(me, 1, Epoch(1, everyone, 0), RUNS)
        else:  # its iterates are gone
            own = own._replace(version=own.version + 1, state=STOPPED, rounds=(), lost=())
        self.words = {me: own}
        self._since = self._next = 0.0  # when it stopped, and when it may propose
        keep(own)

    @property
    def own(self) -> Word:
        """Its own word."""
        return self.words[self.me]

    @property
    def epoch(self) -> Epoch:
        """The latest epoch that this peer knows."""
        return self.own.epoch

    @property
    def over(self) -> bool:
        """True if somebody has come to the end of the run in this epoch."""
        return any(word.state == FINISHED for word in self._same())

    @property
    def stops(self) -> bool:
        """True if somebody, who lost a neighbour or came back, asks for the next epoch."""
        return any(word.state == STOPPED for word in self._same() if word.peer != self.me)

    @property
    def present(self) -> list[int]:
        """The peers that are stopped, as this one is, and connected with it by others that are and edges that work."""
        stopped = {word.peer for word in self._same() if word.state == STOPPED}
        found, new = {self.me} & stopped, [self.me] * (self.me in stopped)
        while new:
            peer = new.pop()
            more = [near for near in self.graph[peer] if near in stopped - found and self._works(peer, near)]
            found.update(more)
            new += more
        return sorted(found)

    def hear(self, words: Iterable[Word]) -> None:
        """Take words, of whomever, from whomever."""
        for word in words:
            if word.peer != self.me and (word.peer not in self.words or word.version > self.words[word.peer].version):
                self.words[word.peer] = word

    def stop(self, rounds: Iterable[int], now: float) -> None:
        """Stop the rounds of the present epoch, with the iterates after some ``rounds``."""
        self._since = self._next = now
        self._say(state=STOPPED, rounds=tuple(sorted(rounds)), lost=())

    def finish(self) -> None:
        """Say that the run has come to its end."""
        self._say(state=FINISHED)

    def look(self, now: float, lost: Iterable[int] = ()) -> None:
        """Learn what was decided, and take part in deciding; ``lost`` are the neighbours that this peer does not reach."""
        latest = max((word.epoch for word in self.words.values()), key=lambda epoch: epoch.number)
        if latest.number <= self.epoch.number:
            latest = self._decided() or latest
        if latest.number > self.epoch.number:
            self._since = self._next = now
            self._say(**Word(self.me, self.own.version, latest, RUNS if self.me in latest.members else STOPPED)._asdict())
        if self.own.state != STOPPED:
            return
        self._say(lost=tuple(sorted(lost)))
        self._vote()
        self._propose(now)
        self._vote()
        if (decided := self._decided()) is not None and decided.number > self.epoch.number:
            self.look(now, lost)

    def missing(self) -> str:
        """Return why there is no next epoch yet, with {numbers} of peers, or an empty text if it is on its way."""
        present = self.present
        absent = ", ".join(f"{{{peer}}}" for peer in sorted(self.graph) if peer not in present)
        if 2 * len(present) <= self.size:
            return f"{len(present)} of {self.size} peers are present and connected, and it takes more than half: {absent} lack"
        if not any(self.words[peer].rounds for peer in present):
            return f"all who are present were started again, and none of them has iterates of this run: {absent} may have some"
        return ""

    def _same(self) -> list[Word]:
        """Return the words about the epoch after the present one."""
        return [word for word in self.words.values() if word.epoch.number == self.epoch.number]

    def _cut(self, peers: Sequence[int]) -> list[tuple[int, int]]:
        """Return the edges between some peers that do not work."""
        return [(a, b) for a in peers for b in sorted(self.graph[a]) if a < b and b in peers and not self._works(a, b)]

    def _works(self, a: int, b: int) -> bool:
        """Return whether two peers reach each other by the edge between them."""
        return b not in self.words[a].lost and a not in self.words[b].lost

    def _say(self, **changes: Any) -> None:  # noqa: ANN401  # of the fields of a word
        said = self.own._replace(**changes)
        if said != self.own:
            said = said._replace(version=self.own.version + 1)
            self._keep(said)
            self.words[self.me] = said

    def _decided(self) -> Epoch | None:
        """Return the next epoch, if more than half have accepted it under one ballot."""
        votes = Counter((word.accepted, word.choice) for word in self._same() if word.choice is not None)
        return next((choice for (_, choice), count in votes.items() if 2 * count > self.size), None)

    def _vote(self) -> None:
        """Promise the highest ballot, and accept its proposal."""
        others = self._same()
        promised = max(self.own.promised, *(word.ballot for word in others))
        self._say(promised=promised)
        for word in others:
            if word.proposal is not None and word.ballot == promised > self.own.accepted:
                self._say(accepted=promised, choice=word.proposal)

    def _propose(self, now: float) -> None:
        own, same = self.own, self._same()
        if own.ballot and own.ballot == own.promised and own.proposal is None:
            promises = [word for word in same if word.promised == own.ballot]
            if 2 * len(promises) > self.size:
                last = max(promises, key=lambda word: word.accepted)
                proposal = last.choice if last.accepted else self._next_epoch()
                if proposal is not None:
                    self._say(proposal=proposal)
                return
        place = self.present.index(self.me)
        if now < self._next or not self._ready(now, place) or self._next_epoch() is None:
            return
        self._next = now + (2 + place) * self.settle
        highest = max(max(word.promised, word.ballot) for word in same)
        self._say(ballot=(highest // self.size + 1) * self.size + self.me, proposal=None)

    def _ready(self, now: float, place: int) -> bool:
        """Return whether all others are present or lost, and edges work, or were given time; the first of those begins."""
        present, waited = self.present, now - self._since
        absent = set(self.graph).difference(present)
        known = all(peer in self.words[near].lost for peer in absent for near in self.graph[peer] if near in present)
        known = known and not self._cut(present)
        return waited >= self.settle * (place if known else place + 1)

    def _next_epoch(self) -> Epoch | None:
        """Return the epoch of those present from the last round that most of them have; None if there can be none."""
        present = tuple(self.present)
        held = Counter(round for peer in present for round in self.words[peer].rounds)
        if 2 * len(present) <= self.size or not held:
            return None
        round = max(held, key=lambda round: (held[round], round))
        return Epoch(self.epoch.number + 1, present, round, tuple(self._cut(present)))
