"""The engine of peers: a run of organisations that trust no server, each on a machine of its own."""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

import numpy as np
from threadpoolctl import threadpool_limits

from consensus import _checks
from consensus._arrays.files import Hold
from consensus.asynchronous.base import AsynchronousSolver
from consensus.checkpoints.best import from_state
from consensus.checkpoints.checkpoint import Checkpoint, check_fits, read, write
from consensus.checkpoints.storage import history_of
from consensus.communication.states import flatten
from consensus.engines.protocols import Problem, Solver, State
from consensus.engines.rank_engine import AllRanks, RankEngine
from consensus.engines.ranks import agree
from consensus.engines.rounds import run_rounds
from consensus.engines.states import Begin
from consensus.errors import DivergenceError, LocalSolveError, WorkerError
from consensus.observe import Gathered, Observer
from consensus.observe.gather import total
from consensus.peers import epochs, wakes
from consensus.peers.audit import Audit
from consensus.peers.epochs import ENDED, Epochs
from consensus.peers.link import LOG
from consensus.peers.messages_pb2 import Note
from consensus.peers.network import PeerNetwork
from consensus.peers.ranks import Here, PeerRanks, RunOver
from consensus.peers.roster import Roster
from consensus.peers.service import Service
from consensus.peers.wakes import OVER, RESUMED, Wakes
from consensus.solvers.needs import needs_of
from consensus.workers.blocks import blocks_of
from topologies.schedules import ScheduleLike, Static

T = TypeVar("T")
S = TypeVar("S", bound=Solver)
_DAY = 86400.0
_LINGER = 60.0  # seconds for which a peer that has ended serves its neighbours
_MARK = "peers."  # of what is the engine's own in a checkpoint:
_SENT, _TAKEN, _RESUMED, _REASON = "peers.sent", "peers.taken", RESUMED, "peers.reason"
_OWN, _BEFORE, _BEFORE_SECONDS = "peers.own.", "peers.before.", "peers.seconds before"
_ROUNDS = 8  # whose edges are looked at before the first
TRAFFIC = ("waited", "resent", "bytes_on_wire")


class AllPeers(AllRanks):
    """Rows that peers collect and save: each writes its own checkpoint, with the numbers of its messages."""

    def __init__(self, engine: Peers, sizes: np.ndarray) -> None:
        super().__init__(engine.ranks, sizes)
        self._engine = engine
        self.run: Rounds  # which sets it

    def total(self, counts: dict[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        """Return the counts of all peers, and this peer's own seconds: those would differ when it was started again."""
        return total(self.ranks.allgather(counts)), seconds

    def save(self, hold: Hold, checkpoint: Checkpoint) -> None:
        if hold.path.exists():
            _keep(hold.path, _before(hold.path))
        write(hold.path, self.run.marked(checkpoint))
        for link in self._engine.here.links.values():
            link.drop(self._engine.began[link.name], link.taken)
        self._engine.here.audit.flush()


class Peers(RankEngine):
    """Run with peers of other organisations, each a process on a machine of its own, without a server or a launcher.

    Every peer has the same file, which names the peers, their certificates and the edges between them, and runs the same
    script, each when it likes; those that are there wait for the others. Peers with an edge are connected by gRPC, with TLS at
    both ends: who has not the certificate in the file is refused. Nothing that arrives is unpickled, and nothing is sent but
    along edges: what all peers must have passes from neighbour to neighbour. The bits are those of :class:`Stacked`.

    A solver without rounds, as :class:`consensus.asynchronous.ASYSONATA`, waits for nobody: each peer wakes at its own pace,
    by the newest messages that have arrived, and who was killed comes back to its own checkpoint. With rounds, when a link
    breaks or a peer is gone, the others wait, say for whom and since when, and go on when it is back: with a ``checkpoint=`` in
    :func:`consensus.solve` also after its process was killed and started again, by the same command. See ``docs/peers.md``.
    Needs gRPC: ``pip install 'consensus-opt[peers]'``.

    Parameters
    ----------
    path : path
        The file of the run, in TOML, with the tables ``[peers]`` and ``[network]``.
    me : str
        Name of this peer. Its key lies beside its certificate.
    patience : float
        Seconds that this peer waits for another one, by default a day.
    audit : path, optional
        The file that gets a line of JSON for each message, sent or received; by default ``NAME.audit.jsonl`` beside ``path``.
    cores : int
        Threads of this process, for example for the blocks of :class:`consensus.surrogates.Blocks`.

    Attributes
    ----------
    network : topologies.Static
        The network of the file, with the names of the peers and Metropolis weights.

    Raises
    ------
    ImportError
        If gRPC is missing.
    ValueError
        If the file, a certificate or the key is not as it must be.
    consensus.errors.WorkerError
        If this peer cannot listen at its address.

    Examples
    --------
    A run of one peer, which meets nobody:

    >>> import pathlib, tempfile, consensus
    >>> from consensus.peers import Peers, keys
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=1, parameters=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = keys("oslo", folder)
    ...     path = pathlib.Path(folder, "run.toml")
    ...     _ = path.write_text('''
    ...         [peers]
    ...         oslo = {address = "localhost:7443", certificate = "oslo.pem"}
    ...         [network]
    ...         edges = []
    ...     ''')
    ...     with Peers(path, me="oslo") as peers:
    ...         result = consensus.solve(problem, peers.network, consensus.solvers.DGD(0.1), rounds=5, engine=peers)
    >>> result.reason
    'all 5 rounds done'
    """

    without_rounds = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        me: str,
        patience: float = _DAY,
        audit: str | os.PathLike[str] | None = None,
        cores: int = 1,
    ) -> None:
        self.roster = Roster.read(path, me)
        beside = self.roster.path.with_name(f"{me}.audit.jsonl")
        self.here = Here(self.roster, Audit(beside if audit is None else _checks.path("audit", audit)))
        super().__init__(self.here, cores, False, _checks.number("patience", patience, above=0))  # type: ignore[arg-type]
        self.ranks: PeerRanks = PeerRanks(self.here, self.roster, self.timeout)
        self.network: Static = self.roster.network()
        self.began: dict[str, int] = {}  # by neighbour the number of the last message before the rounds
        self.offered = 0  # newest messages, of solvers without rounds
        self._loaded = self._met = False
        self._given: Solver | None = None  # the solver, as the user gave it
        self._epochs: Epochs | None = None
        self._state = Note.FINISHED, f"{me} has ended"
        self._service: Service | None = Service(self.roster, self.here)
        self._service.start()
        atexit.register(self.close)

    def __repr__(self) -> str:
        return f"Peers({self.roster.path.name!r}, me={self.here.name!r})"

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._stopped(error)
        self.close()

    def close(self) -> None:
        """Leave: a peer whose run has ended serves its neighbours until they have what they need, a minute at most."""
        if self._service is None:
            return
        service, self._service = self._service, None
        atexit.unregister(self.close)
        state, said = self._state
        begin, links = time.monotonic(), self.here.links.values()
        for link in links:
            link.acknowledge()
        while state == Note.FINISHED and time.monotonic() - begin < _LINGER:
            if self._epochs is not None:
                self._epochs.listen()  # to tell who comes back now that the run has ended
            with self.here.lock:
                for link in links:
                    link.note(Note.FINISHED, said)
                if all(not link.process or (link.acknowledged >= link.sent and link.state in ENDED) for link in links):
                    break
                self.here.changed.wait(0.5)
        for link in links:
            link.note(state, said)
        if any(link.greeted for link in links):
            time.sleep(0.1)  # for the notes to leave
        service.stop()
        self.here.audit.close()

    def rows(self, agents: int) -> slice:
        if _checks.count("agents", agents) != self.size:
            raise ValueError(
                f"there must be one agent for each of the {self.size} peers in {self.roster.path.name}; got {agents}"
            )
        return slice(self.rank, self.rank + 1)

    @contextmanager
    def agreed(self) -> Iterator[dict[str, object]]:
        given: dict[str, object] = {}
        error: Exception | None = None
        try:
            yield given
        except Exception as caught:
            error = caught
        self.ranks.leave("before its rounds")
        if not self._met:
            self.ranks.allgather(None)  # from now on it is known whether this peer was started again
            self._met = True
        for name in ("checkpoint", "resume"):  # each has a path of its own
            if name in given:
                given[name] = "a path" if given[name] is not None else None
        if self._again:
            given.pop("resume", None)  # the others need not have had one
        agree(self.ranks, error, given)

    def check(self, problem: Problem) -> None:
        if self._service is None:
            raise ValueError(f"{self} is closed: make another one")
        super().check(problem)

    def prepare(self, solver: S, problem: Problem, network: ScheduleLike) -> S:
        with self.agreed():
            self._check_edges(network)
            if needs_of(solver).wakes:
                wakes.check(cast(AsynchronousSolver, solver), self.roster)
            elif self.roster.leaves:
                epochs.check(problem, solver, network, self.roster)
                if self._epochs is not None:
                    raise ValueError(
                        f'{self} has had its run, the only one with lost = "leave": close it, and make another one'
                    )
        self._given = solver
        return super().prepare(solver, problem, network)

    def hold(self, hold: Hold) -> None:
        self._check_stays("checkpoint")
        own = _read(hold.path) if self._again else None
        if own is not None and own.counts[_RESUMED] and not self._loaded:
            self.load(hold.path, lambda _: None)  # as this peer did before it was started again
        with self.agreed():
            hold.take()
            if hold.path.exists() and not self._again and not self._loaded:
                raise ValueError(
                    f"checkpoint must be a new file, and {hold.path} is there already, perhaps of this very run: give "
                    "resume= as well, at all peers, to go on from it, or move it away"
                )

    def load(self, path: str | os.PathLike[str], check: Callable[[Checkpoint], None]) -> Checkpoint:
        """Read this peer's own checkpoint: of all peers' last two the latest round that all have.

        Parameters
        ----------
        path : path
            This peer's checkpoint.
        check : callable
            ``check(found)`` raises an error if it is no checkpoint of this run.

        Returns
        -------
        Checkpoint
            With the rows of this peer.
        """
        self._check_stays("resume")
        path, again = Path(path), self._again
        latest = _read(path) if again else None
        if latest is not None and not latest.counts[_RESUMED]:
            return _plain(latest)  # the others did not load when this run began
        self._loaded = True
        with self.agreed():
            offers = {found.round: found for place in (_before(path), path) if (found := _read(place))}
            if not offers:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        everyone = self.ranks.allgather(sorted(offers))
        common = set.intersection(*(set(own) for own in everyone))
        if self._given is not None and needs_of(self._given).wakes:
            common = {max(offers)}  # messages have running sums: whatever wakes they come from fit together
        if latest is None and not common:
            rounds = "; ".join(f"{name}: {own}" for name, own in zip(self.roster.names, everyone, strict=True))
            raise ValueError(f"resume must be checkpoints of one round at all peers; the rounds of those there are {rounds}")
        found = _plain(offers[max(common)] if latest is None else latest)
        with self.agreed():
            check(found)
        return found

    def run(
        self, problem: Problem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        rows = self.rows(problem.network_size)
        problem = problem.restrict(rows if problem.agents == problem.network_size else slice(0, problem.agents))
        if needs_of(solver).wakes:
            return self._run_of_wakes(problem, schedule, cast(AsynchronousSolver, solver), begin, rounds, observer)
        if self.roster.leaves:
            return self._run_of_epochs(problem, solver, begin.block(rows), rounds, observer)
        network = PeerNetwork(schedule, rows, problem.dtype, False, self.ranks, blocks_of(self.size, self.size))
        gather = AllPeers(self, network.counts_of_ranks)
        try:
            self._check_clock(observer)
            run = Rounds(self, solver, observer, gather, begin)
            observer.attach(problem.restrict(slice(0, problem.agents)), gather)
            self.ranks.enter(lambda: f"in round {observer.round + 1}", [])
            self.ranks.round = lambda: observer.round
            with threadpool_limits(self.cores, user_api="blas"):
                if getattr(solver, "secret", False):
                    solver = solver.among_owners(range(rows.start, rows.stop), gather.rows)
                own = run.begin if run.begin.resumed else run.begin.block(rows)
                reason = run_rounds(problem, network, solver, own, rounds, run.report, observer.due)
            run.end()
        except BaseException as error:
            self._stopped(error, f"in round {observer.round + 1}")
            raise
        finally:
            self.ranks.leave("after its rounds")
        return reason

    def _run_of_epochs(self, problem: Problem, solver: Solver, begin: Begin, rounds: int, observer: Observer) -> str | None:
        """Run with those who are present: see :mod:`consensus.peers.epochs`."""
        with self.agreed():
            self._check_clock(observer)
            if observer.recorder.honest is not None:
                raise ValueError(
                    f'honest must be left out with lost = "leave" in {self.roster.path.name}: those present are measured'
                )
        assert self._given is not None, "it was prepared"
        self._epochs = run = Epochs(self, problem, (self._given, solver), begin, rounds, observer)
        try:
            reason = run.run()
        except BaseException as error:
            self._stopped(error, f"in round {observer.round + 1}")
            raise
        self._add_columns(observer, run.numbers, run.columns())
        return reason

    def _run_of_wakes(
        self,
        problem: Problem,
        schedule: ScheduleLike,
        solver: AsynchronousSolver,
        begin: Begin,
        rounds: int,
        observer: Observer,
    ) -> str | None:
        """Run without rounds: see :mod:`consensus.peers.wakes`."""
        with self.agreed():
            wakes.check_stops(solver, observer.stopper)
        gather, run = AllPeers(self, np.ones(self.size, np.int64)), None
        observer.attach(problem.restrict(slice(0, problem.agents)), gather)
        try:
            run = Wakes(self, cast(Any, problem), schedule, solver, begin, rounds, observer, gather)
            if self._again:
                self._rejoin(run, solver, observer)
            reason = run.run()
        except BaseException as error:
            self._stopped(error, f"after {observer.round} rounds")
            raise
        finally:
            if run is not None:
                run.post.close()
            self.ranks.leave("after its wakes")
        self._add_columns(observer, run.numbers)
        return reason

    def _rejoin(self, run: Wakes, solver: AsynchronousSolver, observer: Observer) -> None:
        """Let this peer, which was started again, go on from its checkpoint; without one, from the start."""
        saver, name = observer.saver, type(solver).__name__
        found = None if saver is None else _read(saver.path)
        if saver is not None and found is not None:
            check_fits(saver.path, _plain(found), saver.fingerprint, observer.due.rounds)
            run.restore(found.fields, bool(found.counts.get(OVER)))
            LOG.info("%s comes back to its round %d", self.here.name, found.round)
        elif solver.divides and saver is None:
            raise ValueError(
                f"{name} has masses that ended with the process of {self.here.name}, which cannot come back without "
                "checkpoint=: end all peers, and start the run again"
            )
        if not run.over and any(link.acknowledged > link.sent for link in self.here.links.values()):
            raise WorkerError(
                f"{self.here.name} was started again at the end of the run, without the checkpoint of its last wake, which the "
                "others have measured: end all peers, and start them again"
            )
        for link in self.here.links.values():
            link.detach(link.stream, f"{self.here.name} was started again")  # the next stream begins with the newest message

    def _add_columns(
        self, observer: Observer, numbers: dict[int, tuple[float, ...]], more: dict[str, np.ndarray] | None = None
    ) -> None:
        """Add columns of this peer's own to the history."""
        history, lacking = observer.history, (np.nan,) * len(TRAFFIC)
        found = np.array([numbers.get(int(round), lacking) for round in history["round"]])
        if found.size:
            columns = dict(history) | (more or {}) | {name: found[:, place] for place, name in enumerate(TRAFFIC)}
            observer.recorder.history = history_of(columns, history.labels)

    def traffic(self) -> tuple[float, ...]:
        """Return what this peer has done so far, by the columns that it adds to its history.

        Returns
        -------
        tuple of float
            Seconds in which it waited, messages that it sent again, and bytes of all that it sent, before TLS.
        """
        links = self.here.links.values()
        return self.ranks.waited, sum(link.resent for link in links), sum(link.bytes for link in links)

    @property
    def _again(self) -> bool:
        """True if the others know this peer from before it was started again."""
        return any(link.restarted for link in self.here.links.values())

    def _stopped(self, error: BaseException, where: str = "outside of its rounds") -> None:
        """Leave because of an error, and say so to the neighbours; what it says of data stays here."""
        if self._service is None:
            return
        name = self.here.name
        if isinstance(error, RunOver):
            self._state = Note.FAILED, str(error)
        elif isinstance(error, DivergenceError | LocalSolveError):
            self._state = Note.FAILED, f"{name} ended {where}: {type(error).__name__}, its own log says more"
        elif isinstance(error, KeyboardInterrupt | SystemExit):
            self._state = Note.STOPPED, f"{name} was stopped by its owner {where}"
        else:
            self._state = Note.STOPPED, f"{name} stopped {where} by an error, {type(error).__name__}"
        self.close()

    def _check_edges(self, network: ScheduleLike) -> None:
        """Reject a network with an edge that the file does not have."""
        matrices = [network.weights(key) for key in dict.fromkeys(network.key(round) for round in range(_ROUNDS))]
        if hasattr(network, "union"):
            matrices.append(network.union())
        for matrix in matrices:
            entries = matrix.tocoo()
            for pair in zip(entries.row.tolist(), entries.col.tolist(), strict=True):
                if pair[0] != pair[1] and (min(pair), max(pair)) not in self.roster.edges:
                    a, b = (self.roster.names[agent] for agent in pair)
                    raise ValueError(
                        f"network must have edges of {self.roster.path.name} alone, and has one between {a} and {b}: add it to "
                        "[network] there, or give peers.network"
                    )

    def _check_stays(self, argument: str) -> None:
        """Reject checkpoints of a run that goes on without who is lost: nobody comes back to an old round."""
        if self.roster.leaves:
            with self.agreed():
                raise ValueError(
                    f'{argument} must be left out with lost = "leave" in {self.roster.path.name}: who was started again begins '
                    'at the mean of those who are present; or take lost = "wait" there'
                )

    def _check_clock(self, observer: Observer) -> None:
        """Reject ends that depend on a clock, which differs between peers, and when one of them is started again."""
        rules = observer.stopper.rules
        if observer.stopper.seconds is not None or any(rule.column == "seconds" for rule in rules):
            raise ValueError(
                "seconds must be left out with Peers, whose clocks differ: give rounds=, exchanges= or another stop="
            )


class Rounds:
    """The reports of one run of a peer, which may come back to it from its checkpoint.

    ``counts`` are this peer's own, of its processes before, too; ``begin`` is where it begins.
    """

    def __init__(self, engine: Peers, solver: Solver, observer: Observer, gather: AllPeers, begin: Begin) -> None:
        self.engine, self.solver, self.observer, self.gather, self.begin = engine, solver, observer, gather, begin
        self.counts: dict[str, Any] = {}
        self.reason: str | None = None
        self._seen: int | None = None  # the round whose report the others have already
        self._earlier: dict[str, Any] = {}  # counts of this peer's processes before
        self._numbers: dict[int, tuple[float, ...]] = {}  # by round
        gather.run = self
        links, saver = engine.here.links.values(), observer.saver
        engine.began = {link.name: link.taken for link in links}
        self.resumed = int(begin.resumed)
        self.before = observer._before  # what was counted when the run began
        if engine._again:
            hides = getattr(solver, "secret", False) or getattr(solver, "secure", None) is not None
            if hides:
                raise ValueError(
                    f"{type(solver).__name__} has secrets that ended with the process of {engine.here.name}, which cannot come "
                    "back alone: end all peers, and start the run again"
                )
            found = None if saver is None else _read(saver.path)
            if saver is not None and found is not None:
                self._rejoin(found, saver.fingerprint, str(saver.path))
        elif saver is not None:
            _before(saver.path).unlink(missing_ok=True)
            if begin.resumed:  # so that who is lost before the next checkpoint comes back to this one
                found = _read(saver.path)
                assert found is not None, "it was loaded"
                write(saver.path, self.marked(found._replace(fields=begin.numbers)))
        for link in links:
            link.forgets = engine.began[link.name] if saver is None else None

    def _rejoin(self, found: Checkpoint, fingerprint: dict[str, str | None], path: str) -> None:
        engine, observer, plain = self.engine, self.observer, _plain(found)
        check_fits(path, plain, fingerprint, observer.due.rounds)
        fields, best = from_state(plain.fields, plain.best)
        observer.resume(plain._replace(fields=fields, best=best), path)
        observer.recorder.history = plain.history.copy()
        observer.due.next = observer.spacing.after(observer.history)
        counts = found.counts
        self.before = observer._before = _part(counts, _BEFORE), counts[_BEFORE_SECONDS]
        self._earlier, self.resumed = _part(counts, _OWN), int(counts[_RESUMED])
        self.begin, self._seen = Begin(fields, resumed=True), plain.round
        self.reason = found.fingerprint.get(_REASON) or None
        for number, link in enumerate(engine.here.links.values()):
            link.jump(int(counts[_SENT][number]), int(counts[_TAKEN][number]))
            link.drop(engine.began[link.name], link.taken)
        LOG.info("%s comes back to round %d", engine.here.name, plain.round)

    def marked(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return a checkpoint with the numbers of this peer's messages and counts."""
        links = list(self.engine.here.links.values())
        marks: dict[str, Any] = {_RESUMED: self.resumed, _BEFORE_SECONDS: self.before[1]}
        if links:
            marks |= {_SENT: [link.sent for link in links], _TAKEN: [link.taken for link in links]}
        marks |= {_OWN + name: count for name, count in self.counts.items()}
        marks |= {_BEFORE + name: count for name, count in self.before[0].items()}
        fingerprint = checkpoint.fingerprint | {_REASON: self.reason}
        return checkpoint._replace(counts=_part(checkpoint.counts, "") | marks, fingerprint=fingerprint)

    def report(self, state: State, counts: dict[str, Any], seconds: float) -> str | None:
        """Report a round, as :func:`consensus.engines.reports` says."""
        observer, solver, gather = self.observer, self.solver, self.gather
        observer.tick(state.round, state.w)
        if state.round == self._seen:
            return self.reason
        if not observer.due(state.round):
            return None
        self.counts = {name: count + self._earlier.get(name, 0) for name, count in (counts | {"seconds": seconds}).items()}
        own = gather.rows(solver.report(state)) if solver.history_columns else None
        counts = {name: count for name, count in self.counts.items() if name != "seconds"}
        decision = observer.see(Gathered(state.round, state.w, own, *gather.total(counts, self.counts["seconds"])))
        self._numbers[state.round] = self.engine.traffic()
        self.reason = decision.reason
        if decision.save or (decision.reason and observer.saver):
            observer.save(flatten(state))
        return decision.reason

    def end(self) -> None:
        """Add this peer's own columns to the history."""
        for link in self.engine.here.links.values():
            link.acknowledge()
            link.forgets = None
        self.engine._add_columns(self.observer, self._numbers)


def _before(path: Path) -> Path:
    """Return where the checkpoint before the one at a path is."""
    return path.with_name(f"{path.name}.before")


def _keep(path: Path, other: Path) -> None:
    """Let a file be at another path as well; it is never away from its own."""
    other.unlink(missing_ok=True)
    try:
        os.link(path, other)
    except OSError:  # the file system has no links
        shutil.copyfile(path, other)


def _read(path: Path) -> Checkpoint | None:
    """Return a peer's checkpoint with its marks, None if there is none."""
    if not path.exists():
        return None
    found = read(path)
    if _RESUMED not in found.counts:
        raise ValueError(f"{path} is a checkpoint of another engine: Peers goes on from its own")
    return found


def _plain(found: Checkpoint) -> Checkpoint:
    """Return a checkpoint without the marks of this engine."""
    fingerprint = {name: value for name, value in found.fingerprint.items() if name != _REASON}
    return found._replace(counts=_part(found.counts, ""), fingerprint=fingerprint)


def _part(counts: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the counts whose names begin with a prefix, without it; with none those without the marks of this engine."""
    if prefix:
        found = {name.removeprefix(prefix): count for name, count in counts.items() if name.startswith(prefix)}
        # Numbers stay Python's: what was sent before is sent again with the same bytes.
        return {name: np.array(count) if isinstance(count, list) else count for name, count in found.items()}
    return {name: count for name, count in counts.items() if not name.startswith(_MARK)}
