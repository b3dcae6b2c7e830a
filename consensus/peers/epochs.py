"""The epochs of a run that goes on without those who are lost: each is a run of its own among those who are present."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
from threadpoolctl import threadpool_limits

from consensus.checkpoints.storage import history_of
from consensus.engines.protocols import Problem, Solver, State
from consensus.engines.rank_engine import AllRanks, RankEngine
from consensus.engines.rounds import run_rounds
from consensus.engines.states import Begin
from consensus.errors import WorkerError
from consensus.observe import Gathered, Observer
from consensus.observe.gather import total
from consensus.observe.measure import begun, mean_of
from consensus.observe.protocols import Measures
from consensus.peers import messages_pb2 as pb
from consensus.peers.agreement import FINISHED, RUNS, Agreement, Epoch, Word
from consensus.peers.link import LOG, Link
from consensus.peers.network import PeerNetwork
from consensus.peers.ranks import SAYS, Here, PeerRanks
from consensus.peers.roster import Roster
from consensus.problems import Problem as Samples
from consensus.problems.held_out import OwnedTest
from consensus.workers.blocks import blocks_of

ENDED = (pb.Note.STOPPED, pb.Note.FINISHED, pb.Note.FAILED)
_LOOKS = 0.1  # seconds between two looks for words
_TIMES = 8  # median absolute deviations above the usual wait, from which on a peer is late


class EpochOver(BaseException):
    """End of the rounds of an epoch: another one takes its place. No step of a solver catches it."""


class Present(AllRanks):
    """Rows and counts of those who are present, among all peers: those of the others are NaN, and zero."""

    def __init__(self, ranks: PeerRanks, peers: int) -> None:
        super().__init__(ranks, np.ones(ranks.size, np.int64))
        self.members, self.peers = np.array(ranks.members), peers
        self.ended: np.ndarray | None = None  # the rows of the result

    def rows(self, block: np.ndarray) -> np.ndarray:
        return super().rows(block) if self.ended is None else self.ended

    def total(self, counts: dict[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        whole = total(self.ranks.allgather(counts))
        traffic = np.zeros(self.peers, np.int64)
        traffic[self.members] = whole.get("traffic", 0)
        return whole | ({"traffic": traffic} if "traffic" in whole else {}), seconds

    def among_all(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of those present as rows of all peers."""
        whole = np.full((self.peers, *rows.shape[1:]), np.nan, np.result_type(rows, np.float32))
        whole[self.members] = rows
        return whole


class AmongAll(Measures):
    """Measurements with a number for each peer, NaN for those who are away."""

    def __init__(self, measures: Measures, present: Present) -> None:
        self._measures, self._present = measures, present

    def measure(self, w: np.ndarray, mean: np.ndarray, round: int = 0, past: object = None) -> dict[str, float | np.ndarray]:
        row = self._measures.measure(w, mean, round, past)
        return {name: self._present.among_all(np.asarray(value)) if np.ndim(value) else value for name, value in row.items()}


class Epochs:
    """The epochs of one run of a peer, from its ``problem`` of one agent, from its ``solver`` as the user gave it."""

    def __init__(
        self,
        engine: Any,  # noqa: ANN401  # Peers, which imports this
        problem: Problem,
        solvers: tuple[Solver, Solver],
        begin: Begin,
        rounds: int,
        observer: Observer,
    ) -> None:
        self.engine, self.observer = engine, observer
        self.here: Here = engine.here
        self.roster: Roster = engine.roster
        self.problem, self.rounds, self._begin = problem, rounds, begin
        self._given, self._prepared = solvers
        self._test = observer.recorder.test
        self.agreement: Agreement
        self._entered = 0  # the last epoch of which this peer was a part
        self._cut: list[tuple[int, int]] = []  # its edges that this epoch goes without
        self._points: dict[int, np.ndarray] = {}  # iterates after some rounds of the present epoch, to go back to
        self._marks: dict[int, tuple[int, int]] = {}  # by recorded round: the epoch, and how many are present
        self._totals: dict[int, tuple[dict[str, Any], float]] = {}  # and what was counted
        self._numbers: dict[int, tuple[float, ...]] = {}  # and this peer's own columns
        self._sent: dict[int, pb.Word] = {}
        self._gather: Present
        self._reason: str | None = None
        self._file = self.here.audit.path.with_name(f"{self.here.name}.epochs")

    def run(self) -> str | None:
        """Run one epoch after another, until one of them comes to the end of the run; return the reason to stop early."""
        self._meet()
        begin = None
        with self._whole_again():
            while True:
                try:
                    if self.agreement.own.state == RUNS:
                        self._enter()
                        return self._finish(self._epoch())
                except EpochOver as over:
                    LOG.warning("%s", over)
                begin = self.observer.latest
                if not self._next():
                    return self._alone(begin)

    # Who is present.

    def _meet(self) -> None:
        """Agree on a number of this run, by which a peer that was started again knows that what it kept is of this run."""
        found = json.loads(self._file.read_text()) if self._file.exists() and self.engine._again else {}
        self._number = self.engine.ranks.broadcast(found.get("run") or secrets.token_hex(16))
        own = _word_of(found["word"]) if found.get("run") == self._number else None
        graph = self.roster.graph()
        self.agreement = Agreement(graph, self.here.me, self.roster.grace, self._keep, own)
        if own is None:
            self._points = {0: self._begin.numbers["w"]}

    def _keep(self, word: Word) -> None:
        """Write the own word to the disk, before others hear it."""
        part = self._file.with_name(f"{self._file.name}.part")
        with open(part, "w", encoding="utf-8") as file:
            json.dump({"run": self._number, "word": word}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self._file)

    def listen(self) -> None:
        """Take words that arrived, and pass on what is new."""
        with self.here.lock:
            arrived, self.here.words = self.here.words, []
        for words in arrived:
            self.agreement.hear(filter(None, (_read(word, self.here.size) for word in words.words)))
        for peer, word in self.agreement.words.items():
            if peer not in self._sent or self._sent[peer].version != word.version:
                self._sent[peer] = _written(word)
        for link in self.here.links.values():
            link.tell(self._sent)

    def _look(self, link: Link | None, seconds: float) -> None:
        """End the rounds if somebody asks for the next epoch, or if this peer waited for a neighbour for too long."""
        self.listen()
        name = self.here.name
        if self.agreement.stops or any(word.epoch.number > self._entered for word in self.agreement.words.values()):
            raise EpochOver(f"{name} stops {self.engine.ranks.place()}: others ask who is present")
        for a, b in self._cut:
            back = self.here.links[a + b - self.here.me]
            if back.greeted and time.time() - back.since > self.roster.grace:
                raise EpochOver(f"{name} stops {self.engine.ranks.place()}: its link to {back.name} works again")
        if link is not None and (link.state == pb.Note.STOPPED or seconds > self._late()):
            why, _ = self.engine.ranks.state(link)
            since = time.strftime("%H:%M:%S", time.localtime(time.time() - seconds))
            raise EpochOver(
                f"{name} has waited for {link.name} {self.engine.ranks.place()} since {since} ({seconds:.1f} s): {why}. "
                f"Those who are present go on without it if they are more than half; it comes back when its owner starts the "
                "same command again, or its connection is back"
            )

    def _late(self) -> float:
        """Return after how many seconds a neighbour is late."""
        waits = np.array(self.engine.ranks.waits or [0.0])
        usual = float(np.median(waits))
        return max(self.roster.grace, usual + _TIMES * float(np.median(np.abs(waits - usual))))

    def _next(self) -> bool:
        """Agree with the others on the next epoch; return False if the run has come to its end at one of them."""
        agreement, links, begin, said = self.agreement, self.here.links, time.monotonic(), 0
        if agreement.own.state == RUNS:
            agreement.stop(self._points, begin)
        for link in links.values():
            link.leave()
        while True:
            self.listen()
            if agreement.over:
                return False
            lost = [peer for peer, link in links.items() if not link.greeted or link.state in ENDED]
            agreement.look(time.monotonic(), lost)
            self.listen()
            if agreement.own.state == RUNS:
                return True
            if agreement.epoch.number > self._entered:
                self._points = {}  # the others went on without this peer
            seconds = time.monotonic() - begin
            if seconds > self.engine.timeout:
                raise WorkerError(f"{self._waits(seconds)}. patience={self.engine.timeout:g}: give Peers(patience=...) more")
            if seconds >= SAYS[min(said, len(SAYS) - 1)] * max(1, said - len(SAYS) + 2):
                said += 1
                LOG.warning("%s", self._waits(seconds))
            with self.here.lock:
                if not self.here.words:
                    self.here.changed.wait(_LOOKS)

    def _waits(self, seconds: float) -> str:
        """Return for whom this peer waits, since when, and what to do."""
        since = time.strftime("%H:%M:%S", time.localtime(time.time() - seconds))
        why = self.agreement.missing().format(*self.roster.names) or "the others have yet to answer"
        return (
            f"{self.here.name} waits since {since} ({seconds:.0f} s) for the epoch after epoch {self.agreement.epoch.number}: "
            f"{why}. Who is away comes back when its owner starts the same command again, or mends its connection; the run "
            "goes on then"
        )

    # One epoch.

    @contextmanager
    def _whole_again(self) -> Iterator[None]:
        """Let the engine be that of all peers again in the end."""
        engine, ranks = self.engine, self.engine.ranks
        try:
            yield
        finally:
            ranks.waited = engine.ranks.waited
            engine.ranks, engine.size, engine.rank, engine.root = ranks, self.here.size, self.here.me, self.here.me == 0
            ranks.leave("after its rounds")

    def _enter(self) -> None:
        """Let the engine be that of those who are present, and messages those of the epoch."""
        engine, epoch = self.engine, self.agreement.epoch
        for link in self.here.links.values():
            link.enter(epoch.number)
        waited, waits = engine.ranks.waited, engine.ranks.waits
        ranks = PeerRanks(self.here, self.roster, engine.timeout, epoch, self._look)
        ranks.waited, ranks.waits = waited, waits
        engine.ranks, engine.size, engine.rank, engine.root = ranks, ranks.size, ranks.me, ranks.me == 0
        self._entered, self._cut = epoch.number, [edge for edge in epoch.cut if self.here.me in edge]
        if epoch.number > 1:
            names, away = [self.roster.names[peer] for peer in epoch.members], set(self.roster.names)
            said = ", ".join(name for name in self.roster.names if name in away.difference(names)) or "nobody"
            cut = "".join(f"; no link between {self.roster.names[a]} and {self.roster.names[b]}" for a, b in epoch.cut)
            LOG.warning(
                "%s: epoch %d begins after round %d with %s; away: %s%s",
                self.here.name, epoch.number, epoch.round, ", ".join(names), said, cut,
            )  # fmt: skip

    def _epoch(self) -> str | None:
        """Run the rounds of an epoch; return the reason to stop early."""
        engine, epoch, observer = self.engine, self.agreement.epoch, self.observer
        ranks = engine.ranks
        self._gather = gather = Present(ranks, self.here.size)
        w, solver = self._begun(epoch, ranks), self._prepared
        self._points = {epoch.round: w}
        problem, schedule = _among(self.problem, ranks), self.roster.network(epoch.members, epoch.cut)
        self._attach(problem, gather)
        if epoch.number > 1:
            solver = RankEngine.prepare(engine, self._given, problem, schedule)
        rows, keep = slice(ranks.me, ranks.me + 1), nx.diameter(ranks.graph) + 2
        network = PeerNetwork(schedule, rows, problem.dtype, False, ranks, blocks_of(ranks.size, ranks.size))
        ranks.enter(lambda: f"in round {observer.round + 1} of epoch {epoch.number}", ranks.names)
        ranks.round = lambda: observer.round
        observer.tick(epoch.round)
        kept = deque([(epoch.round, 0)])  # rounds whose iterates are kept, and exchanges until then

        def report(state: State, counts: dict[str, Any], seconds: float) -> str | None:
            round = epoch.round + state.round
            if counts["exchanges"] > kept[-1][1]:
                kept.append((round, counts["exchanges"]))
                self._points[round] = state.w.copy()
                if len(kept) > keep:
                    self._points.pop(kept.popleft()[0], None)
            observer.tick(round, state.w)
            if not observer.due(round):
                return None
            own = gather.rows(solver.report(state)) if solver.history_columns else None
            decision = observer.see(Gathered(round, state.w, own, *gather.total(counts, seconds)))
            self._marks[round] = epoch.number, ranks.size
            self._totals[round], self._numbers[round] = observer._total, engine.traffic()
            return decision.reason

        with threadpool_limits(engine.cores, user_api="blas"):
            own = Begin.start(w).block(slice(0, 1))
            return run_rounds(
                problem,
                network,
                solver,
                own,
                self.rounds - epoch.round,
                report,
                lambda round: observer.due(epoch.round + round),
            )

    def _begun(self, epoch: Epoch, ranks: PeerRanks) -> np.ndarray:
        """Return this peer's iterate at the beginning: its own, or the mean of those who have one; and take their history."""
        own = self._points.get(epoch.round)
        self._points = {} if own is None else {epoch.round: own}
        have = ranks.allgather(own is not None)
        if not any(have):
            raise EpochOver(f"{self.here.name}: nobody in epoch {epoch.number} has the iterates after round {epoch.round}")
        if epoch.number > 1:
            first = have.index(True)
            self._take(ranks.allgather(self._story(epoch.round) if first == ranks.me else None)[first], epoch.round)
        if not all(have):
            like, first = self._begin.numbers["w"], have.index(True)

            def more(sums: np.ndarray) -> np.ndarray:
                return sums if own is None else begun(own, None if ranks.me == first else sums)

            mean = mean_of(ranks.chain(more, np.zeros((2, like.shape[1]), like.dtype)), sum(have))
            return mean[None] if own is None else own
        assert own is not None, "all have one"
        return own

    def _story(self, round: int) -> dict[str, Any]:
        """Return what was recorded before a round, for all who are present."""
        history = self.observer.history
        rows = int(np.searchsorted(history["round"], round)) if history.rows else 0
        columns = {name: history[name][:rows] for name in history} if rows else {}
        last = int(columns["round"][-1]) if rows else None
        return {"columns": columns, "marks": self._marks, "total": ({}, 0.0) if last is None else self._totals[last]}

    def _take(self, story: dict[str, Any], round: int) -> None:
        """Go on from what was recorded before a round."""
        observer, last = self.observer, (story["total"][0], story["total"][1])
        observer.recorder.history = history_of(story["columns"], observer.history.labels)
        observer._before = observer._total = last
        self._marks = {recorded: tuple(mark) for recorded, mark in story["marks"].items() if recorded < round}
        if story["columns"]:
            self._totals[int(story["columns"]["round"][-1])] = last
        observer.due.next = round
        if observer.keeper is not None:  # an objective of others is not comparable
            observer.keeper.best = observer.keeper.regular = None

    def _attach(self, problem: Problem, gather: Present) -> None:
        """Let the observer measure those who are present."""
        recorder = self.observer.recorder
        recorder.points = gather.ranks.size
        if isinstance(self._test, OwnedTest):
            recorder.test = self._test._replace(rows=np.array(problem.rows))
        self.observer.attach(problem.restrict(slice(0, problem.agents)), gather)
        if gather.ranks.size < gather.peers:
            recorder._measures = AmongAll(recorder._measures, gather)

    # The end.

    def _finish(self, reason: str | None) -> str | None:
        """Collect the result of all who are present, and tell them that this peer has it."""
        self._reason = reason
        assert self.observer.latest is not None, "its start was seen"
        w = self.observer.latest[1]
        self._ended(self._gather.among_all(self._gather.rows(w)).astype(w.dtype), self._gather.members)
        return reason

    def _alone(self, latest: tuple[int, np.ndarray] | None) -> str | None:
        """End the run as another peer did, which has its own result."""
        finished = [word.peer for word in self.agreement.words.values() if word.state == FINISHED]
        if self.agreement.epoch.number > self._entered or not self._points or latest is None:
            raise WorkerError(
                f"the run has ended at {self.roster.names[finished[0]]} while {self.here.name} was away: ask "
                f"{self.roster.names[finished[0]]} for its result"
            )
        rows = np.full((self.here.size, latest[1].shape[1]), np.nan, latest[1].dtype)
        rows[self.here.me] = latest[1][0]
        self._ended(rows, np.array([self.here.me]))
        return self._reason

    def _ended(self, rows: np.ndarray, members: np.ndarray) -> None:
        self.agreement.finish()
        self.listen()
        self._file.unlink(missing_ok=True)
        self._gather.ended = rows
        if len(members) < self.here.size:
            self.observer.recorder.honest = members

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns ``epoch`` and ``present``, and this peer's own, NaN of rounds at which it was away."""
        rounds = [int(round) for round in self.observer.history["round"]]
        marks = np.array([self._marks[round] for round in rounds])
        return {"epoch": marks[:, 0], "present": marks[:, 1]}

    @property
    def numbers(self) -> dict[int, tuple[float, ...]]:
        """Counts of this peer for itself, by recorded round."""
        return self._numbers


def _among(problem: Problem, ranks: PeerRanks) -> Any:  # noqa: ANN401  # a Problem of samples
    """Return the problem of one agent as one of those who are present."""
    block: Any = problem.restrict(slice(0, 1))
    rows, labels = np.array([ranks.me]), getattr(problem, "labels", None)
    labels = None if labels is None else tuple(labels[peer] for peer in ranks.members)
    block.rows, block.network_size, block.labels = rows, ranks.size, labels
    block.shards = replace(block.shards, rows=rows, network_size=ranks.size, labels=labels)
    return block


def check(problem: Any, solver: Any, network: Any, roster: Roster) -> None:  # noqa: ANN401  # of any kind
    """Raise ``ValueError`` or ``TypeError`` if a run cannot go on without a peer."""
    file, name = roster.path.name, type(solver).__name__
    remedy = f'take lost = "wait" in {file}'
    if type(problem) is not Samples:
        raise TypeError(
            f'problem must be a consensus.Problem of samples with lost = "leave" in {file}, which is made anew for those '
            f"present; got {problem}: {remedy}"
        )
    own = roster.network().weights(0)
    same = getattr(network, "period", 1) == 1 and network.key(0) == network.key(1)
    if not same or (abs(network.weights(network.key(0)) - own)).nnz:
        raise ValueError(
            f'network must be peers.network with lost = "leave" in {file}, because it is made anew for those who are present: '
            f"give that, or {remedy}"
        )
    if getattr(solver, "secret", False) or getattr(solver, "secure", None) is not None:
        raise ValueError(
            f'{name} keeps secrets, and sums of different peers, as with lost = "leave" in {file}, would tell them: {remedy}'
        )
    if hasattr(solver, "personal") and solver.personal(problem) is not None:
        raise ValueError(f'{name} has models of each agent\'s own, which lost = "leave" in {file} does not know: {remedy}')


def _written(word: Word) -> pb.Word:
    def epoch(found: Epoch | None) -> pb.Epoch | None:
        if found is None:
            return None
        cut = [end for edge in found.cut for end in edge]
        return pb.Epoch(number=found.number, members=found.members, round=found.round, cut=cut)

    fields = word._asdict()
    return pb.Word(**fields | {name: epoch(fields[name]) for name in ("epoch", "proposal", "choice")})


def _read(found: pb.Word, peers: int) -> Word | None:
    """Return a word that arrived, None if it is none."""

    def epoch(name: str) -> Epoch | None:
        one = getattr(found, name)
        cut = tuple(zip(one.cut[::2], one.cut[1::2], strict=False))
        return Epoch(one.number, tuple(one.members), one.round, cut) if found.HasField(name) else None

    first, proposal, choice = epoch("epoch"), epoch("proposal"), epoch("choice")
    given = [one for one in (first, proposal, choice) if one is not None]
    sets = [one.members for one in given] + [tuple(found.lost)]
    fits = all(members == tuple(sorted(set(members))) and all(peer < peers for peer in members) for members in sets)
    fits = fits and all(a in one.members and b in one.members and a < b for one in given for a, b in one.cut)
    if first is None or not fits or found.peer >= peers or found.state > FINISHED or len(found.rounds) > peers + 2:
        LOG.error("refused a word that is none of a peer")
        return None
    if bool(found.accepted) != (choice is not None):
        return None
    rounds, lost = tuple(found.rounds), tuple(found.lost)
    numbers = found.ballot, proposal, found.promised, found.accepted, choice
    return Word(found.peer, found.version, first, found.state, rounds, lost, *numbers)


def _word_of(found: Sequence[Any]) -> Word:
    """Return a word that was kept as JSON."""

    def epoch(one: Sequence[Any] | None) -> Epoch | None:
        return None if one is None else Epoch(one[0], tuple(one[1]), one[2], tuple((a, b) for a, b in one[3]))

    word = Word(*found)
    first = epoch(found[2])
    assert first is not None
    return word._replace(
        epoch=first, rounds=tuple(word.rounds), lost=tuple(word.lost), proposal=epoch(found[7]), choice=epoch(found[10])
    )
