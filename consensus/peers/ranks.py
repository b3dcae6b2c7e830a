"""Peers as the ranks of an engine, with messages along the edges of their network alone."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NoReturn, TypeVar

import networkx as nx
import numpy as np

from consensus.engines.ranks import Ranks, Step, pack
from consensus.engines.transport import COLLECTED, MIXED, Pairs
from consensus.errors import WorkerError
from consensus.peers.agreement import Epoch
from consensus.peers.audit import KINDS, Audit
from consensus.peers.link import LOG, Digests, Link, Owner, Part, expected
from consensus.peers.messages_pb2 import Note, Words
from consensus.peers.roster import Roster

T = TypeVar("T")
SAYS = (5.0, 60.0, 600.0)  # seconds of a wait after which the log says for whom; the last one again and again
_TELLS = 2.0  # seconds of a wait after which neighbours are told for whom: before it is time for lines in their own logs
_REFUSES = 5  # times that a message may be sent again that is not what its round allows
_LOOKS = 0.5  # seconds between two looks at the clock
_WAITS = 64  # that say which ones are usual


class RunOver(WorkerError):
    """The run ended at another peer by an error that would come again."""


class Here(Owner):
    """A peer's own state: its ``links`` by number, guarded by its ``lock``."""

    engine = "Peers"
    absent = ""

    def __init__(self, roster: Roster, audit: Audit) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.name, self.run, self.audit = roster.names[roster.me], roster.digest, audit
        self.me, self.size, self.leaves = roster.me, len(roster.peers), roster.leaves
        self.words: list[Words] = []  # that arrived, and nobody has looked at yet
        self.links = {other: Link(self, roster.names[other]) for other in roster.neighbours}

    def heard(self, words: Words) -> None:
        with self.lock:
            self.words.append(words)
            self.changed.notify_all()


def routes(me: int, tree: nx.Graph) -> list[Step]:
    """Return what a peer receives and sends, step by step, so that all come to have the rows of all along a ``tree``.

    See :func:`consensus.engines.ranks.routes`: in step d rows arrive that began d edges away.
    """
    away = nx.single_source_shortest_path_length(tree, me)
    toward = {owner: path[1] for owner, path in nx.single_source_shortest_path(tree, me).items() if owner != me}
    steps: list[Step] = []
    for step in range(1, nx.diameter(tree) + 1):
        receives = [(toward[owner], owner) for owner in sorted(away) if away[owner] == step]
        sends = [
            (other, owner)
            for owner in sorted(away)
            if away[owner] == step - 1
            for other in sorted(tree.neighbors(me))
            if other != toward.get(owner)
        ]
        steps.append((receives, sends))
    return steps


class PeerRanks(Ranks):
    """The :class:`consensus.engines.ranks.Ranks` of peers: what goes to all of them passes along a spanning tree.

    They are all peers, or the members of an ``epoch``; ``look(link, seconds)`` is called before each exchange, and while this
    one waits for a neighbour.
    """

    def __init__(
        self,
        here: Here,
        roster: Roster,
        patience: float,
        epoch: Epoch | None = None,
        look: Callable[[Link | None, float], None] = lambda link, seconds: None,
    ) -> None:
        self._here, self.roster, self._look = here, roster, look
        super().__init__(here, patience)  # type: ignore[arg-type]  # nothing is sent by its transport
        self.members = tuple(range(here.size)) if epoch is None else epoch.members
        self.me, self.size = self.members.index(here.me), len(self.members)
        self.graph = roster.graph(self.members, () if epoch is None else epoch.cut)
        self.tree = nx.bfs_tree(self.graph, min(nx.center(self.graph))).to_undirected()
        self._paths = dict(nx.all_pairs_shortest_path(self.tree))
        self._routes = routes(self.me, self.tree)
        self.names = [roster.names[peer] for peer in self.members]
        self.waited = 0.0
        self.waits: deque[float] = deque(maxlen=_WAITS)  # seconds of the last ones

    def enter(self, place: Callable[[], str], names: list[str]) -> None:
        self.place = place

    def leave(self, where: str) -> None:
        self.place: Callable[[], str] = lambda: where
        self.round: Callable[[], int] = lambda: -1

    def meet(self) -> None:
        """Do nothing: peers are on machines of their own."""

    def abort(self, error: BaseException, said: str) -> NoReturn:
        raise error

    def exchange(self, receives: Pairs, sends: Pairs, kind: int = MIXED) -> None:
        round = self.round()
        self._look(None, 0.0)
        digests: Digests = {}
        for rank, rows in sends:
            self._link(rank).send(kind, round, rows, digests)
        for rank, rows in receives:
            self._receive(self._link(rank), kind, round, rows)

    def gather_rows(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        parts = np.split(np.empty((counts.sum(), *rows.shape[1:]), rows.dtype), np.cumsum(counts)[:-1])
        parts[self.me][...] = rows
        for owner in range(1, self.size):
            self._carry(owner, 0, parts[owner])
        return rows if self.me else np.concatenate(parts)

    def chain(self, step: Callable[[np.ndarray], np.ndarray], value: np.ndarray) -> np.ndarray:
        last = self.size - 1
        for rank in range(self.size):
            if rank == self.me:
                value = np.ascontiguousarray(step(value))
            if rank < last:
                passing = value if rank == self.me else np.empty_like(value)
                self._carry(rank, rank + 1, passing)
                value = passing if rank + 1 == self.me else value
        return self._down(last, value if self.me == last else np.empty_like(value))

    def broadcast(self, value: T | None) -> T:
        content = np.array(bytearray(pack(value) if self.me == 0 else b""), np.uint8)
        size = self._down(0, np.array([content.size]))
        received: T = self._unpacked(0, self._down(0, content if self.me == 0 else np.empty(int(size[0]), np.uint8)))
        return received

    def _down(self, root: int, rows: np.ndarray) -> np.ndarray:
        """Return the array of one peer, ``root``, which all others pass on."""
        before = None if self.me == root else self._paths[self.me][root][1]
        if before is not None:
            self.exchange([(before, rows)], [], COLLECTED)
        self.exchange([], [(other, rows) for other in sorted(self.tree.neighbors(self.me)) if other != before], COLLECTED)
        return rows

    def _carry(self, source: int, target: int, rows: np.ndarray) -> None:
        """Take part in passing an array from one peer to another one; it is filled on the way."""
        path = self._paths[source][target]
        if self.me in path:
            place = path.index(self.me)
            if place:
                self.exchange([(path[place - 1], rows)], [], COLLECTED)
            if place + 1 < len(path):
                self.exchange([], [(path[place + 1], rows)], COLLECTED)

    def _link(self, rank: int) -> Link:
        link = self._here.links.get(self.members[rank])
        if link is None:
            raise ValueError(
                f"the network of the run has an edge between {self._here.name} and {self.names[rank]}, which "
                f"{self.roster.path.name} has not: add it to the edges of [network], or use peers.network"
            )
        return link

    def _receive(self, link: Link, kind: int, round: int, rows: np.ndarray) -> None:
        content = rows.reshape(-1).view(np.uint8).data if rows.size else memoryview(b"")
        done = part = refused = 0
        while True:
            message, wrong = self._awaited(link), None
            if message.round != round:
                wrong = f"a message of round {message.round} where one of round {round} is due"
            wrong = wrong or expected(message, rows, kind, part)
            if wrong and (message.round != round or message.kind != kind):
                raise WorkerError(
                    f"{link.name} sent {KINDS[message.kind]} of round {message.round} where {KINDS[kind]} of round {round} are "
                    f"due: its script differs from that of {self._here.name}, or from what it was before it was started again"
                )
            if wrong:
                LOG.error("%s: refused from %s in round %d: %s", self._here.name, link.name, round, wrong)
                if refused == _REFUSES:
                    raise WorkerError(f"{link.name} sends what round {round} does not allow, again and again: {wrong}")
                link.reject(wrong, part + 1)
                done, part, refused = 0, 0, refused + 1
                continue
            size = len(message.payload)
            content[done : done + size] = message.payload
            done, part = done + size, part + 1
            if done >= message.whole:
                break
        if rows.dtype.newbyteorder("<") != rows.dtype:
            rows.byteswap(inplace=True)

    def _awaited(self, link: Link) -> Part:
        """Return the next message of a neighbour; say for whom this peer waits if it takes long."""
        here, begin, said, told, since = self._here, 0.0, 0, "", ""
        try:
            with here.lock:
                while True:
                    try:
                        message = link.next()
                    except LookupError as lost:
                        raise self._lost_messages(link, str(lost)) from None
                    if message is not None:
                        if said:
                            LOG.info("%s: %s is there again after %.0f s", here.name, link.name, time.monotonic() - begin)
                        return message
                    if link.state == Note.FAILED:
                        raise RunOver(link.said)
                    if not since:
                        begin, since = time.monotonic(), time.strftime("%H:%M:%S")
                    seconds = time.monotonic() - begin
                    self._look(link, seconds)
                    if seconds > self.timeout:
                        raise self._impatient(link, seconds)
                    says = seconds >= (SAYS[said] if said < len(SAYS) else (said - len(SAYS) + 2) * SAYS[-1])
                    if says or seconds >= _TELLS:
                        told = self._tell(link, since, told, says)
                    if says:
                        said += 1
                        self._say(link, since, seconds)
                    here.changed.wait(_LOOKS)
        finally:
            self.waits.append(time.monotonic() - begin if since else 0.0)
            self.waited += self.waits[-1]
            if told:
                for other in here.links.values():
                    other.note(Note.GOES_ON, "")

    def _say(self, link: Link, since: str, seconds: float) -> None:
        why, remedy = self.state(link)
        place = self.place()
        LOG.warning(
            "%s waits for %s %s since %s (%.0f s): %s. %s", self._here.name, link.name, place, since, seconds, why, remedy
        )
        self._here.audit.flush()

    def _tell(self, link: Link, since: str, told: str, again: bool) -> str:
        """Tell the other neighbours for whom all wait in the end, if it is not what they were told; return what they know."""
        name = self._here.name
        said = f"{name} itself waits for {link.name} {self.place()} since {since}"
        if link.state == Note.WAITS:  # what comes back to its origin goes no further
            said = (told or said) if link.said.startswith(f"{name} itself ") else link.said
        if again or said != told:
            for other in self._here.links.values():
                if other is not link:
                    other.note(Note.WAITS, said)
        return said

    def state(self, link: Link) -> tuple[str, str]:
        """Return why a neighbour does not come, and what its owner can do."""
        again = f"The owner of {link.name} starts the same command again; the run goes on then"
        since = time.strftime("%H:%M:%S", time.localtime(link.since))
        if link.state in (Note.STOPPED, Note.FAILED, Note.FINISHED):
            return link.said, again
        if not link.greeted:
            return (
                f"there is no connection since {since} ({link.why or 'it broke'})",
                f"If {link.name} does not run: {again[0].lower()}{again[1:]}. If it runs, see that its address in "
                f"{self.roster.path.name} is reachable from here",
            )
        if link.state == Note.WAITS:
            return link.said, f"See the log of {link.name}"
        return f"it is connected since {since}, and computes, or is suspended", f"See the log of {link.name}"

    def _impatient(self, link: Link, seconds: float) -> WorkerError:
        why, remedy = self.state(link)
        return WorkerError(
            f"{self._here.name} has waited for {link.name} {self.place()} for {seconds:.0f} s, patience={self.timeout:g}: "
            f"{why}. {remedy}; or give Peers(patience=...) more seconds. With checkpoint= all peers can go on later by resume="
        )

    def _lost_messages(self, link: Link, numbers: str) -> WorkerError:
        return WorkerError(
            f"{self._here.name} was started again, and {link.name} no longer keeps the messages {numbers} that it needs: "
            "a peer can come back alone if the run has checkpoint=, and one peer is lost at a time. End all peers, and start "
            "them with resume=, or, without checkpoints, from the beginning"
        )
