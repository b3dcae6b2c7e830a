"""Blocks of agents on ranks, of one machine or many, whatever carries their messages."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from threadpoolctl import threadpool_limits

from consensus import _checks
from consensus._files import Hold
from consensus.checkpoint import Checkpoint
from consensus.engines import rank_files
from consensus.engines.agreement import agree
from consensus.engines.all_ranks import AllRanks
from consensus.engines.base import Engine
from consensus.engines.halo import HaloNetwork
from consensus.engines.protocols import Problem, Solver
from consensus.engines.ranks import Ranks, pack
from consensus.engines.rounds import reports, run_rounds
from consensus.engines.states import Begin
from consensus.engines.transport import Transport
from consensus.errors import Preempted
from consensus.observe import Observer
from consensus.workers.blocks import blocks_of
from topologies import _names
from topologies.schedules import ScheduleLike

T = TypeVar("T")


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
                if self.size > 1 and getattr(solver, "secret", False):
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
