"""Runs without rounds: each peer wakes at its own pace, and sends its neighbours the newest of its messages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from consensus._arrays.parallel import one_blas_thread
from consensus.asynchronous.arcs import arcs_of
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.rank import AgentsOfRank
from consensus.asynchronous.tally import WORK, Seen, Tally
from consensus.checkpoints.checkpoint import Checkpoint, write
from consensus.engines.protocols import AnyProblem
from consensus.engines.rank_engine import AllRanks
from consensus.engines.states import Begin
from consensus.errors import WorkerError
from consensus.observe import Observer
from consensus.observe.stopping import Stopper
from consensus.peers.link import LOG, Link
from consensus.peers.messages_pb2 import Note
from consensus.peers.ranks import SAYS, Here, PeerRanks, RunOver
from consensus.peers.roster import Roster
from consensus.workers.blocks import blocks_of
from topologies.schedules import ScheduleLike

RESUMED, OVER = "peers.resumed", "peers.over"  # marks in a checkpoint
_NEWS = 0.05  # seconds for which the next wake waits for news
_AHEAD = 2  # by so many rounds for each peer one may be ahead of the slowest, as far as it knows: news of it passes other peers
_ROWS = 100  # recorded rounds, unless their distance is given


class PeerPost:
    """The mail of a peer: messages of which the newest counts, each with what the sender knows of everybody's rounds.

    Parameters
    ----------
    here : Here
        This peer.
    before : list of int
        The number of the last message of each peer before this run.

    Attributes
    ----------
    known : ndarray of int (peers,)
        How many rounds each peer has done, as far as is known here.
    number : int
        That of the last message of this peer.
    round : int
        Its wakes.
    now : callable
        The seconds since the beginning.
    """

    def __init__(self, here: Here, before: list[int]) -> None:
        self.here, self._before = here, before
        self.known, self.number, self.round = np.zeros(len(before), "<i8"), before[here.me], 0
        self.now: Callable[[], float] = lambda: 0.0

    def departures(self, rank: int, like: np.ndarray) -> Leaving:
        return Leaving(self, self.here.links[rank])

    def arrivals(self, rank: int, target: np.ndarray) -> Coming:
        link = self.here.links[rank]
        with self.here.lock:
            link.newest.reset(self.known.nbytes + target.nbytes, self._before[rank])
        return Coming(self, link, target)

    def pause(self) -> None:
        """Wait for news, a moment at most."""
        here, end = self.here, time.monotonic() + _NEWS
        with here.lock:
            while all(link.newest.payload is None for link in here.links.values()) and (left := end - time.monotonic()) > 0:
                here.changed.wait(left)

    def close(self) -> None:
        """Take no more."""
        with self.here.lock:
            for link in self.here.links.values():
                link.newest.reset(None, -1)


class Leaving:
    """The messages to a neighbour: see :class:`consensus.asynchronous.post.Departures`."""

    def __init__(self, post: PeerPost, link: Link) -> None:
        self._post, self._link = post, link

    def offer(self, rows: np.ndarray) -> bool:
        post, rows = self._post, rows.astype(_little(rows.dtype), copy=False)
        return self._link.offer(post.number, post.round, np.concatenate([post.known.view(np.uint8), rows.view(np.uint8)]))


class Coming:
    """The messages from a neighbour: see :class:`consensus.asynchronous.post.Arrivals`."""

    def __init__(self, post: PeerPost, link: Link, target: np.ndarray) -> None:
        self._post, self._link, self._target = post, link, target

    def take(self) -> bool:
        post, target = self._post, self._target
        with post.here.lock:
            payload = self._link.newest.take()
        if payload is None:
            return False
        np.maximum(post.known, np.frombuffer(payload, "<i8", len(post.known)), out=post.known)
        target[...] = np.frombuffer(payload, _little(target.dtype), offset=post.known.nbytes)
        target["sent"] = post.now()  # clocks of peers differ: its age begins when it arrives
        return True


class Wakes:
    """One run without rounds of a peer, whose agent ``problem`` has; ``begin`` has the starts of all, or its checkpoint.

    A *round* is a wake that counts: one by which this peer is not too far ahead of the slowest. All end when all have done all
    rounds, and until then who has done its own goes on waking. What is recorded is measured at the end, together.
    """

    def __init__(
        self,
        engine: Any,  # noqa: ANN401  # Peers, which imports this
        problem: AnyProblem,
        schedule: ScheduleLike,
        solver: AsynchronousSolver,
        begin: Begin,
        rounds: int,
        observer: Observer,
        gather: AllRanks,
    ) -> None:
        self.engine, self.solver, self.rounds, self.observer, self.gather = engine, solver, rounds, observer, gather
        self.ranks: PeerRanks = engine.ranks
        self.here: Here = engine.here
        self.numbers: dict[int, tuple[float, ...]] = {}  # this peer's own columns, by recorded round
        self._saver = observer.saver
        every = observer.spacing.every
        if every is not None and every < 1:
            raise ValueError(f"record_every must be a whole number of rounds with {solver}, which has none; got {every:g}")
        self._every = max(1, -(-rounds // _ROWS)) if every is None else every
        arcs = arcs_of(*solver.matrices(schedule), dtype=problem.dtype)
        self.post = PeerPost(self.here, self.ranks.allgather(engine.offered))
        w, size = begin.numbers["w"], engine.size
        blocks, rows = blocks_of(size, size), engine.rows(size)
        own = w if begin.resumed else w[rows].copy()
        self.agents = AgentsOfRank(problem, solver, arcs, blocks, self.ranks, self.post, own)
        self.post.now = self.agents.now
        self._tally = Tally(arcs, self.agents.messages)
        self.done, self.over, self._resumed = 0, rounds == 0, begin.resumed
        self._kinds: dict[str, Any] = {"round": "i8", "seconds": "f8", "traffic": ("f8", 3)}
        self._kinds |= {name: self.agents.report.dtype[name] for name in self.agents.report.dtype.names or ()}
        self._kept: list[Any] = []  # records of these, which are to be measured
        self._low, self._since, self._said = -1, time.monotonic(), 0
        self._before, self._work = 0.0, np.zeros(len(WORK))  # seconds and work of this peer's processes before
        if begin.resumed:
            self.restore(begin.numbers)
        else:
            self._record(self._row(0))

    def restore(self, fields: dict[str, Any], over: bool = False) -> None:
        """Go on from a checkpoint of this peer, which may be that of its last wake."""
        agents = self.agents
        for name, value in agents.state._asdict().items():
            value[...] = fields[name]
        for name in agents.messages._fields:
            agents.here[name] = fields[f"mail.{name}"][0]
        for name in ("wakes", "stale", "lost"):
            agents.report[name] = fields[f"report.{name}"]
        self.post.known[:] = fields["known"][0]
        self.done, self.over, self._before = int(fields["round"]), over, float(fields["seconds"][0])
        self._work = fields["work"][0] - agents.work()
        self._kept = []
        if "kept.round" in fields:
            kept = np.zeros(fields["kept.round"].shape[1], [*self._kinds.items()])
            for name in self._kinds:
                kept[name] = fields[f"kept.{name}"][0]
            self._kept = [row for row in kept if over or row["round"] < self.rounds]

    def run(self) -> str | None:
        """Wake until all have done their rounds; return the reason to end the history early."""
        begun = time.monotonic()
        self.agents.begin(self._before - begun)
        with (
            threadpool_limits(self.engine.cores, user_api="blas"),
            one_blas_thread,
            np.errstate(over="ignore", invalid="ignore", divide="ignore"),
        ):
            self._tell()
            while not self.over:
                known, self.agents.arrived = self.post.known.copy(), 0
                wakes = self._may_count or not self.solver.divides  # masses would go to who is away until nothing is left
                (self.agents.wake if wakes else self.agents.look)()
                self._count(wakes)
                if wakes or (self.post.known > known).any():
                    self._tell()
                self._look()
                if not self.agents.arrived and self.here.links:
                    self.post.pause()
        return self._measured()

    def _tell(self) -> None:
        """Send neighbours the newest message."""
        self.post.number += 1
        self.post.round = int(self.agents.report["wakes"][0])
        self.engine.offered = self.post.number
        self.agents.send()

    @property
    def _may_count(self) -> bool:
        """True if the next wake is a round, because this peer is not too far ahead."""
        return self.done < min(self.rounds, int(self.post.known.min()) + _AHEAD * len(self.post.known))

    def _count(self, wakes: bool) -> None:
        """Let the last wake be a round, if there was one that may; keep what is to be recorded; save what is due."""
        known, me = self.post.known, self.here.me
        counts = wakes and self._may_count
        if counts:
            self.done += 1
            known[me] = max(known[me], self.done)
            self.observer.tick(self.done)
            if self.done < self.rounds and self.done % self._every == 0:
                self._kept.append(self._row(self.done))
        self.over = self.done == self.rounds and int(known.min()) >= self.rounds
        if self.over:
            self._kept.append(self._row(self.rounds))
        # Masses that have left must not be there again after a restart.
        due = (wakes and self.solver.divides) or (counts and self.done % self._saver.every == 0) if self._saver else False
        if self._saver and (due or self.over):
            self._save()

    def _row(self, round: int) -> Any:  # noqa: ANN401  # a record
        row = np.zeros(1, [*self._kinds.items()])
        row["round"], row["seconds"], row["traffic"] = round, self.agents.now() if round else 0.0, self.engine.traffic()
        answer = self.agents.answer()
        for name in answer.dtype.names or ():
            row[name] = answer[name]
        row["work"] += self._work
        return row[0]

    def _save(self) -> None:
        assert self._saver is not None, "it is asked for"
        agents = self.agents
        fields = {"round": self.done, "seconds": np.array([agents.now()]), "known": self.post.known[None]}
        fields |= agents.state._asdict() | {f"mail.{name}": agents.here[name][None] for name in agents.messages._fields}
        fields |= {f"report.{name}": agents.report[name] for name in ("wakes", "stale", "lost")}
        fields["work"] = (agents.work() + self._work)[None]
        if self._kept:
            kept = np.array(self._kept)
            fields |= {f"kept.{name}": kept[name][None] for name in self._kinds}
        marks = {RESUMED: int(self._resumed), OVER: int(self.over)}
        write(self._saver.path, Checkpoint(fields, self.observer.history, marks, 0.0, self._saver.fingerprint))
        self.here.audit.flush()

    def _look(self) -> None:
        """Say for whom this peer waits, if it does, and raise an error if that takes too long."""
        for link in self.here.links.values():
            if link.state == Note.FAILED:
                raise RunOver(link.said)
        low, now = int(self.post.known.min()), time.monotonic()
        if low > self._low or self.over or self._may_count:
            self._low, self._since, self._said = low, now, 0
            return
        seconds = now - self._since
        if seconds > self.engine.timeout:
            said = self._waits(seconds)
            raise WorkerError(f"{said}. patience={self.engine.timeout:g}: give Peers(patience=...) more seconds")
        if seconds >= SAYS[min(self._said, len(SAYS) - 1)] * max(1, self._said - len(SAYS) + 2):
            self._said += 1
            LOG.warning("%s", self._waits(seconds))
            self.here.audit.flush()

    def _waits(self, seconds: float) -> str:
        """Return for whom this peer waits, since when, why, and what to do."""
        late = int(self.post.known.argmin())
        name, since = self.ranks.names[late], time.strftime("%H:%M:%S", time.localtime(time.time() - seconds))
        link = self.here.links.get(late)
        if link is None:
            beside = " and ".join(self.ranks.names[other] for other in sorted(self.ranks.graph.neighbors(late)))
            why, remedy = "it is no neighbour", f"See its log, and those of {beside}, its neighbours"
        else:
            why, remedy = self.ranks.state(link)
        return (
            f"{self.here.name} waits for {name} since {since} ({seconds:.0f} s), of which it knows {self._low} of "
            f"{self.rounds} rounds: {why}. {remedy}"
        )

    def _measured(self) -> str | None:
        """Measure with all others what was kept; return the reason to end the history early."""
        for row in self._kept:
            self.numbers[int(row["round"])] = tuple(row["traffic"])
            reason = self._record(row)
            if reason is not None:
                return reason
        return None

    def _record(self, row: Any) -> str | None:  # noqa: ANN401  # a record
        observer, round = self.observer, int(row["round"])
        own = np.concatenate([[row["seconds"], row["wakes"], row["stale"], row["lost"]], row["work"]])
        seconds, wakes, stale, lost, *work = self.gather.rows(own[None]).T
        seen = Seen(row["w"][None].copy(), wakes.astype(int), stale, lost.astype(int))
        assert len(work) == len(WORK), "each has a column"
        observer.due.next = round
        found = self._tally.gathered(round, seen, np.sum(work, axis=1), float(seconds.max()))
        return observer.see(found).reason


def _little(dtype: np.dtype) -> np.dtype:
    """Return a dtype of records with the least byte first."""
    return dtype.newbyteorder("<")


def check(solver: AsynchronousSolver, roster: Roster) -> None:
    """Raise an error if a solver needs more than the newest messages, or a run is to go on without peers."""
    name = type(solver).__name__
    if solver.pairs:
        raise TypeError(f"{name} needs two agents at once, and Peers have messages: take ASYSONATA or RASGP")
    if solver.adds:
        raise TypeError(f"{name} needs all messages, and Peers have the newest of each neighbour alone: take RASGP")
    if roster.leaves:
        raise ValueError(
            f'lost must be "wait" in {roster.path.name} for {name}, which wakes without rounds: nobody waits there, as long as '
            "its own rounds are not done"
        )


def check_stops(solver: AsynchronousSolver, stopper: Stopper) -> None:
    """Raise ``ValueError`` if a run is to end by what is measured, or by a clock."""
    if stopper.rules or any(end is not None for end in (stopper.tolerance, stopper.exchanges, stopper.seconds)):
        raise ValueError(
            "stop, tolerance, exchanges and seconds must be left out with Peers and a solver without rounds, as "
            f"{type(solver).__name__}: its rows are measured when all wakes are over. Give rounds= alone"
        )
