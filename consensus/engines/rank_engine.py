"""Engines of ranks: the network of agents on several of them, what they gather for the observer, and a run."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from consensus import _checks
from consensus._arrays.files import Hold
from consensus.checkpoints.checkpoint import Checkpoint, write
from consensus.communication.block import BlockNetwork
from consensus.communication.packed import Codec
from consensus.communication.plans import Edges, Plan
from consensus.engines import rank_files
from consensus.engines.base import Engine
from consensus.engines.protocols import Problem, Solver
from consensus.engines.ranks import Ranks, agree, pack
from consensus.engines.rounds import reports, run_rounds
from consensus.engines.states import Begin
from consensus.engines.transport import MIXED, UNEVEN, Pairs, Transport
from consensus.errors import Preempted
from consensus.observe import Observer
from consensus.observe.gather import total
from consensus.observe.protocols import Masks
from consensus.workers.blocks import blocks_of
from topologies import _names
from topologies.schedules import ScheduleLike


class Halo(NamedTuple):
    """The rows that ranks exchange for one mixing matrix: ``below`` are received from lower ranks, ``total`` in all.

    ``sends`` has the places of own rows for each receiving rank, ``receives`` for each sending rank its part of the received
    rows.
    """

    sends: list[tuple[int, np.ndarray | slice]]
    receives: list[tuple[int, slice]]
    below: int
    total: int


def _at(rows: np.ndarray) -> np.ndarray | slice:
    """Return where these rows are: by a slice, which copies nothing, if they follow each other."""
    return slice(rows[0], rows[-1] + 1) if rows[-1] - rows[0] < len(rows) else rows


class HaloNetwork(BlockNetwork):
    """A network of messages between ranks: a row goes once to each rank that needs it, however many edges need it.

    Every rank computes the plan from the schedule, without negotiation. Rows keep the order of agents, so that sums have the
    same bits as on every other engine.
    """

    def __init__(
        self, schedule: ScheduleLike, rows: slice, dtype: np.dtype, strict: bool, ranks: Ranks, blocks: list[slice]
    ) -> None:
        super().__init__(schedule, rows, dtype, strict)
        self.ranks, self.me, self.bytes_between_hosts = ranks, ranks.me, 0
        self.counts_of_ranks = np.array([block.stop - block.start for block in blocks])
        self.owner = np.repeat(np.arange(len(blocks)), self.counts_of_ranks)

    @property
    def counts(self) -> dict[str, int]:
        return super().counts | ({"bytes_between_hosts": self.bytes_between_hosts} if self.ranks.elsewhere else {})

    def _transfer(self, receives: Pairs, sends: Pairs, kind: int = MIXED) -> None:
        """Exchange arrays with other ranks, and count what goes to other machines."""
        elsewhere = self.ranks.elsewhere
        if elsewhere:
            self.bytes_between_hosts += sum(rows.nbytes for rank, rows in sends if rank in elsewhere)
        self.ranks.exchange(receives, sends, kind)

    def _prepare(self, whole: sp.csr_array, matrix: sp.csr_array) -> tuple[sp.csr_array, Halo]:
        first, count = self.rows.start, self.rows.stop - self.rows.start
        entries = whole.tocoo()
        to, source = self.owner[entries.row], self.owner[entries.col]
        out = (source == self.me) & (to != self.me)
        sends = np.unique(to[out] * np.int64(self.agents) + entries.col[out])  # by rank, then by agent; each once
        ranks, rows = np.divmod(sends, self.agents)
        needed = np.unique(entries.col[(to == self.me) & (source != self.me)])
        below = int(np.searchsorted(needed, first))
        order = np.concatenate([needed[:below], np.arange(first, first + count), needed[below:]])
        local = sp.csr_array((matrix.data, np.searchsorted(order, matrix.indices), matrix.indptr), shape=(count, len(order)))
        owners = self.owner[needed]
        halo = Halo(
            sends=[(int(rank), _at(rows[ranks == rank] - first)) for rank in np.unique(ranks)],
            receives=[(int(r), slice(*np.searchsorted(owners, (r, r + 1)))) for r in np.unique(owners)],
            below=below,
            total=len(needed),
        )
        return local, halo

    def _gather(self, plan: Plan, blocks: Sequence[np.ndarray]) -> list[np.ndarray]:
        halo, count = plan.extra, len(blocks[0])
        dtypes = {block.dtype for block in blocks}
        sent = dtypes.pop() if len(dtypes) == 1 else np.uint8  # arrays beside packed rows go as bytes
        flat = [np.ascontiguousarray(block).reshape(count, -1).view(sent) for block in blocks]
        joined = flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)
        received = np.empty((halo.total, joined.shape[1]), joined.dtype)
        receives = [(rank, received[part]) for rank, part in halo.receives]
        self._transfer(receives, [(rank, joined[rows]) for rank, rows in halo.sends])
        arrived = np.split(received, np.cumsum([columns.shape[1] for columns in flat])[:-1], axis=1)
        wholes = [np.concatenate([a[: halo.below], own, a[halo.below :]]) for a, own in zip(arrived, flat, strict=True)]
        return [whole.view(block.dtype).reshape(-1, *block.shape[1:]) for whole, block in zip(wholes, blocks, strict=True)]

    def _gather_encoded(self, plan: Plan, rows: np.ndarray, lengths: np.ndarray, codec: Codec) -> tuple[np.ndarray, np.ndarray]:
        """Send the rows for another rank in the bytes of ``codec``, as one message."""
        halo, columns = plan.extra, rows.shape[1]
        sent = [(rank, np.arange(len(rows))[some].tolist()) for rank, some in halo.sends]
        messages = {row: codec.encode(rows[row]) for row in {row for _, some in sent for row in some}}
        sends = [(rank, np.frombuffer(b"".join(messages[row] for row in some), np.uint8)) for rank, some in sent]
        most = codec.most(columns)
        arrived = [(rank, np.empty((part.stop - part.start) * most, np.uint8)) for rank, part in halo.receives]
        self._transfer(arrived, sends, UNEVEN)
        received = np.empty((halo.total, columns))
        for (_, part), (_, message) in zip(halo.receives, arrived, strict=True):
            end = 0
            for row in range(part.start, part.stop):
                received[row], size = codec.decode(message[end:], columns)
                end += size
        sizes = codec.sizes(received)
        below = halo.below
        whole = np.concatenate([received[:below], rows, received[below:]])
        return whole, np.concatenate([sizes[:below], lengths, sizes[below:]])[:, None].astype(float)

    def _received_each(self, plan: Plan, edges: Edges, messages: np.ndarray) -> np.ndarray:
        """Send messages for agents of another rank to that rank alone, in the order of their senders and places."""
        agents, places = edges.there.nonzero()
        others, back = edges.others[agents, places], edges.places[agents, places]
        arrived, owners = np.zeros_like(messages), self.owner[others]
        here = owners == self.me
        arrived[agents[here], places[here]] = messages[others[here] - self.rows.start, back[here]]
        # Messages arrive in the order of the other ends: agents first, then places.
        ranks = {int(rank): np.flatnonzero(owners == rank) for rank in np.unique(owners[~here])}
        arrivals = {rank: some[np.lexsort((back[some], others[some]))] for rank, some in ranks.items()}
        buffers = {rank: np.empty((len(some), messages.shape[2]), messages.dtype) for rank, some in arrivals.items()}
        sends = [(rank, messages[agents[some], places[some]]) for rank, some in ranks.items()]
        self._transfer(list(buffers.items()), sends)
        for rank, some in arrivals.items():
            arrived[agents[some], places[some]] = buffers[rank]
        return arrived


T = TypeVar("T")
_PART_BYTES = 1 << 20  # of the rows that are on all ranks at a time


class AllRanks:
    """The :class:`consensus.observe.Gather` of ranks with blocks of ``sizes`` agents.

    ``signal`` is one by which the system has told this rank to end, 0 if there is none; ranks hear of it as they gather counts.
    """

    def __init__(self, ranks: Ranks, sizes: np.ndarray) -> None:
        self.ranks, self.sizes = ranks, sizes
        self.signal = self._signal_of_any = 0
        self._masks: Masks | None = None
        self._sums = 0  # that were masked

    def rows(self, block: np.ndarray) -> np.ndarray:
        return self.ranks.allgather_rows(block, self.sizes)

    def parts(self, block: np.ndarray) -> Iterator[np.ndarray]:
        ends = np.cumsum(self.sizes)
        starts, agents = ends - self.sizes, int(ends[-1])
        few = max(1, _PART_BYTES // max(1, block[:1].nbytes))
        for first in range(0, agents, few):
            low, high = (np.clip(edge, starts, ends) - starts for edge in (first, first + few))
            yield self.ranks.allgather_rows(block[low[self.ranks.me] : high[self.ranks.me]], high - low)

    def chain(self, step: Callable[[np.ndarray], np.ndarray], value: np.ndarray) -> np.ndarray:
        return self.ranks.chain(step, value)

    def masked_sum(self, codes: np.ndarray, masks: Callable[[range], Masks]) -> np.ndarray:
        if self.ranks.size > 1:
            if self._masks is None:
                end = int(self.sizes[: self.ranks.me + 1].sum())
                self._masks = masks(range(end - int(self.sizes[self.ranks.me]), end))
                self._masks.agree(self.rows(self._masks.public))
            codes = codes + self._masks.drawn(self._sums, codes.shape[1])
            self._sums += 1
        return self.chain(lambda total: total + codes.sum(axis=0), np.zeros(codes.shape[1], np.uint64))

    def total(self, counts: dict[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        theirs, times, signals = zip(*self.ranks.allgather((counts, seconds, self.signal)), strict=True)
        self._signal_of_any = max(signals)
        return total(theirs), max(times)

    def preempted(self) -> str | None:
        """Return which signal told one of the ranks to end, None if none did."""
        return f"told to end by {signal.Signals(self._signal_of_any).name}" if self._signal_of_any else None

    def once(self, function: Callable[[], T]) -> T:
        return self.ranks.broadcast(function() if self.ranks.me == 0 else None)

    def decide(self, function: Callable[[Callable[[], np.ndarray]], T], block: np.ndarray) -> T:
        if self.ranks.me:
            answer: tuple[T] | None
            while True:
                answer = self.ranks.broadcast(None)
                if answer is not None:
                    return answer[0]
                self.ranks.gather_rows(block, self.sizes)  # for which the first rank asks
        over = False

        def everyone() -> np.ndarray:
            if over:
                raise RuntimeError("the rows of other ranks are there while a callback runs: keep a copy of info.w then")
            self.ranks.broadcast(None)
            return self.ranks.gather_rows(block, self.sizes)

        result = function(everyone)
        over = True
        self.ranks.broadcast((result,))
        return result

    def save(self, hold: Hold, checkpoint: Checkpoint) -> None:
        if self.ranks.size == 1:
            write(hold.path, checkpoint)
        else:
            rank_files.save(self.ranks, self.sizes, hold, checkpoint)


class RankEngine(Engine):
    """Base class of engines on ranks, each with a block of consecutive agents, that call :func:`consensus.solve` together.

    Parameters
    ----------
    transport : Transport
        What carries their messages.
    cores : int
        Threads inside a rank.
    strict : bool
        Whether to check in every exchange that each message runs along an edge of that round's graph.
    timeout : float
        Seconds that a rank waits for the others.

    Attributes
    ----------
    rank : int
        This rank.
    ranks : Ranks
        Its communication with the others.
    """

    keeps_secrets = True

    def __init__(self, transport: Transport, cores: int, strict: bool, timeout: float) -> None:
        self.cores, self.strict = _checks.count("cores", cores), _checks.flag("strict", strict)
        self.timeout = _checks.number("timeout", timeout, above=0)
        self.ranks = Ranks(transport, self.timeout)
        self.size, self.rank = transport.size, transport.me
        self.root = self.rank == 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank {self.rank} of {self.size}, cores={self.cores})"

    def rows(self, agents: int) -> slice:
        if _checks.count("agents", agents) < self.size:
            raise ValueError(
                f"{agents} agents are too few for {self.size} ranks, of which {self.size - agents} would have none: "
                f"start at most {agents} ranks"
            )
        return blocks_of(agents, self.size)[self.rank]

    def check(self, problem: Problem) -> None:
        rows = self.rows(problem.network_size)
        whole = problem.agents == problem.network_size
        if not whole and not np.array_equal(problem.rows, np.arange(rows.start, rows.stop)):
            raise ValueError(
                f"it holds the agents {rows.start} to {rows.stop - 1}, but its problem has {problem.rows.tolist()}: "
                f"load those of {self.ranks.transport.engine}().rows({problem.network_size})"
            )

    @contextmanager
    def agreed(self) -> Iterator[dict[str, object]]:
        given: dict[str, object] = {}
        error: Exception | None = None
        try:
            yield given
        except Exception as caught:
            if self.size == 1:
                raise
            error = caught
        if self.size == 1:
            return
        self.ranks.leave("at the beginning of consensus.solve")
        agree(self.ranks, error, given)

    def run(
        self, problem: Problem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        rows = self.rows(problem.network_size)
        problem = problem.restrict(rows if problem.agents == problem.network_size else slice(0, problem.agents))
        blocks = blocks_of(problem.network_size, self.size)
        self.ranks.meet()
        network = HaloNetwork(schedule, rows, problem.dtype, self.strict, self.ranks, blocks)
        gather = AllRanks(self.ranks, network.counts_of_ranks)
        observer.attach(problem.restrict(slice(0, problem.agents)), gather)
        labels = _names.of_run(problem, schedule)
        names = [f"rank {rank} ({_names.block(block, labels)})" for rank, block in enumerate(blocks)]
        self.ranks.enter(lambda: f"in round {observer.round + 1}", names)
        try:
            with threadpool_limits(self.cores, user_api="blas"), self._terminated(observer, names[self.rank], gather):
                if self.size > 1 and solver.secret:
                    solver = solver.among_owners(range(rows.start, rows.stop), gather.rows)
                report = reports(observer, solver, gather, gather.preempted)
                own = begin if begin.resumed else begin.block(rows)  # a checkpoint is loaded with the rows of this rank
                reason = run_rounds(problem, network, solver, own, rounds, report, observer.due)
                told = None
                if reason and reason == gather.preempted():
                    assert observer.saver is not None, "without checkpoints a rank ends at once"
                    told = Preempted(observer.round, observer.saver.path)
                    if self.root:
                        print(told, file=sys.stderr, flush=True)
                    self.ranks.allgather(None)  # all have written the checkpoint: one that exits may end the job
        except BaseException as error:
            if self.size == 1:
                raise
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, signal.SIG_IGN)  # others may have ended the job: this rank ends in a moment, too
            self.ranks.abort(
                error,
                f"{names[self.rank]} failed in round {observer.round + 1}; the job is aborted. {self._keep_history(observer)}. "
                "If there is a checkpoint, go on with solve(..., resume=path)",
            )
        finally:
            self.ranks.leave("at the end of consensus.solve")
        if told:
            raise told
        return reason

    def load(self, path: str | os.PathLike[str], check: Callable[[Checkpoint], None]) -> Checkpoint:
        if self.size == 1:
            return super().load(path, check)
        return rank_files.load(self.ranks, self.agreed, Path(path), check, lambda agents: blocks_of(agents, self.size))

    def hold(self, hold: Hold) -> None:
        if self.size == 1:
            super().hold(hold)
        else:
            rank_files.hold(self.ranks, self.agreed, hold)

    def allgather(self, items: Iterable[T]) -> list[T]:
        return [item for part in self.ranks.allgather(list(items)) for item in part]

    def broadcast(self, function: Callable[[], T]) -> T:
        def outcome() -> tuple[T | None, Exception | None]:
            try:
                value = function()
                pack(value)  # an error now is one on all ranks
                return value, None
            except Exception as caught:
                return None, caught

        value, error = self.ranks.broadcast(outcome() if self.root else None)
        if error is not None:
            raise error
        return cast(T, value)

    @contextmanager
    def _terminated(self, observer: Observer, name: str, gather: AllRanks | None = None) -> Iterator[None]:
        """Obey SIGTERM, which all other ranks get when one dies, and which schedulers send some time before they end a job.

        The history is written at once, as there may be no more time. With checkpoints the run goes on to the next observed
        round, at which ``gather`` tells all ranks; on SIGUSR1 it does the same without haste.
        """
        saves = gather is not None and observer.saver is not None

        def obey(number: int, _: object) -> None:
            if gather and saves:
                again, gather.signal = gather.signal == number, number
                if again:  # a job's signals come twice, if torchrun gets and passes them on
                    return
            if number == signal.SIGTERM and self.size > 1:
                said = f"{name} was told to end in round {observer.round + 1}. {self._keep_history(observer)}.\n"
                if self.rank < 2:  # one of the two lives, if one rank has died
                    os.write(2, said.encode())
            if not saves:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

        wanted = [signal.SIGTERM] if saves or self.size > 1 else []
        wanted += [signal.SIGUSR1] if saves and hasattr(signal, "SIGUSR1") else []
        if threading.current_thread() is not threading.main_thread():
            wanted = []
        obeyed = [number for number in wanted if signal.getsignal(number) is signal.SIG_DFL]  # else they are the user's
        if obeyed:
            import pandas  # noqa: F401  there is no time to import what writes the history after the signal
        for number in obeyed:
            signal.signal(number, obey)
        try:
            yield
        finally:
            for number in obeyed:
                signal.signal(number, signal.SIG_DFL)

    def _keep_history(self, observer: Observer) -> str:
        """Write the history, which is the same on all ranks, because its error ends with the job; return where it is."""
        history = observer.history.copy()  # a signal may interrupt the appending of a row
        if not history.rows:
            return "Nothing was recorded yet"
        path = Path(f"history-of-{type(observer.recorder.solver).__name__}-until-round-{history.last()['round']}.csv")
        if observer.saver:
            path = observer.saver.path.with_name(f"{observer.saver.path.name}.history.csv")
        try:
            history.to_csv(path)  # at the same time as other ranks, perhaps
        except OSError as error:
            return f"The history of its {history.rows} recorded rounds could not be written to {path} ({error})"
        return f"The history of its {history.rows} recorded rounds is in {path.resolve()}"
