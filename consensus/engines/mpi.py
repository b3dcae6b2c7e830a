"""Blocks of agents on MPI ranks, of one machine or many."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from consensus import _checks
from consensus.engines.agreement import agree
from consensus.engines.base import Engine
from consensus.engines.halo import MPINetwork
from consensus.engines.protocols import Problem, Solver
from consensus.engines.ranks import Ranks
from consensus.engines.rounds import reports, run_rounds
from consensus.engines.states import Begin
from consensus.observe import Observer
from consensus.observe.counts import total
from consensus.workers.blocks import blocks_of
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from mpi4py.MPI import Comm


class AllRanks:
    """Puts the blocks of all ranks together, for the observer; ``sizes`` are their numbers of agents."""

    def __init__(self, ranks: Ranks, sizes: np.ndarray) -> None:
        self.ranks, self.sizes = ranks, sizes

    def rows(self, block: np.ndarray) -> np.ndarray:
        return self.ranks.allgather_rows(block, self.sizes)

    def total(self, counts: dict[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        theirs, times = zip(*self.ranks.allgather((counts, seconds)), strict=True)
        return total(theirs), max(times)

    def once(self, function: Callable[[], Any]) -> Any:
        return self.ranks.broadcast(function() if self.ranks.me == 0 else None)


class MPI(Engine):
    """Run on MPI ranks, each with a block of neighbouring agents; the same bits as :class:`Stacked` on one machine.

    Start the script itself under MPI, ``mpiexec -n 4 python script.py``: every rank runs it, and calls
    :func:`consensus.solve` with the same arguments. A rank may hold its own agents' data only: see :meth:`rows` and
    :func:`consensus.data.load_shards`. Needs mpi4py: ``pip install consensus-opt[mpi]``.

    Ranks compare their arguments first: what differs, or is refused on one of them, is an error on all. An exception inside
    rounds ends the whole job at once, with that rank's traceback; the history so far is written beside the checkpoint, or else
    into the working directory. When a rank dies, and on ctrl-C, the ranks that live write it: mpiexec sends them SIGTERM, and
    kills them a quarter of a second later (Open MPI). A rank inside a long compiled computation has no time to write; if all of
    them are, the history since the last checkpoint is lost. Ranks that keep others waiting are named in a warning after some
    seconds.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm, optional
        By default all ranks.
    cores : int
        Threads inside a rank, for example for the blocks of :class:`consensus.surrogates.Blocks`.
    strict : bool
        Check in every exchange that each message runs along an edge of that round's graph (slow; for tests).
    timeout : float
        Seconds that a rank waits for the others, in :func:`consensus.solve` and in its rounds, before the job is aborted.
    """

    def __init__(
        self, communicator: "Comm | None" = None, cores: int = 1, strict: bool = False, timeout: float = 600.0
    ) -> None:
        try:
            from mpi4py import MPI as mpi  # importing it starts MPI
        except ImportError as error:
            raise ImportError("the MPI engine needs mpi4py and an MPI: pip install consensus-opt[mpi]") from error
        if communicator is not None:
            needed = ("Get_size", "Get_rank", "Iallgather", "Abort")
            _checks.offers("communicator", communicator, needed, "a communicator, such as mpi4py.MPI.COMM_WORLD")
        self.communicator = mpi.COMM_WORLD if communicator is None else communicator
        self.cores, self.strict = _checks.count("cores", cores), _checks.flag("strict", strict)
        self.size, self.rank = self.communicator.Get_size(), self.communicator.Get_rank()
        self.root = self.rank == 0
        self.timeout = _checks.number("timeout", timeout, above=0)
        self.ranks = Ranks(self.communicator, self.timeout)

    def __repr__(self) -> str:
        return f"MPI(rank {self.rank} of {self.size}, cores={self.cores})"

    def rows(self, agents: int) -> slice:
        """The slice of agents that this rank holds in a network of ``agents``.

        Raises
        ------
        ValueError
            If there are fewer agents than ranks: a rank would have none.
        """
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
                f"load those of MPI().rows({problem.network_size})"
            )

    @contextmanager
    def agreed(self) -> Iterator[dict[str, Any]]:
        given: dict[str, Any] = {}
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
        network = MPINetwork(schedule, rows, problem.dtype, self.strict, self.ranks, blocks)
        gather = AllRanks(self.ranks, network.counts_of_ranks)
        observer.attach(problem.restrict(slice(0, problem.agents)), gather)
        names = [f"rank {rank} (agents {block.start} to {block.stop - 1})" for rank, block in enumerate(blocks)]
        self.ranks.enter(lambda: f"in round {observer.round + 1}", names)
        try:
            with threadpool_limits(self.cores, user_api="blas"), self._terminated(observer, names[self.rank]):
                report = reports(observer, solver, gather)
                return run_rounds(problem, network, solver, begin.block(rows), rounds, report, observer.due)
        except BaseException as error:
            if self.size == 1:
                raise
            self.ranks.abort(
                error,
                f"{names[self.rank]} failed in round {observer.round + 1}; the job is aborted. {self._keep_history(observer)}. "
                "If there is a checkpoint, go on with solve(..., resume=path)",
            )
        finally:
            self.ranks.leave("at the end of consensus.solve")

    def allgather(self, items: Iterable[Any]) -> list[Any]:
        return [item for part in self.ranks.allgather(list(items)) for item in part]

    def broadcast(self, function: Callable[[], Any]) -> Any:
        value, error = None, None
        if self.root:
            try:
                value = function()
            except Exception as caught:
                error = caught
        value, error = self.ranks.broadcast((value, error))
        if error is not None:
            raise error
        return value

    @contextmanager
    def _terminated(self, observer, name):
        """Write the history if this rank is told to end, as all others are when one dies."""

        def write(number, _):
            said = f"{name} was told to end in round {observer.round + 1}. {self._keep_history(observer)}.\n"
            if self.rank < 2:  # of which one lives, if one rank has died
                os.write(2, said.encode())
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        theirs = signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        if self.size == 1 or theirs or threading.current_thread() is not threading.main_thread():
            yield
            return
        import pandas  # noqa: F401  a rank that is told to end has no time to import what writes its history

        signal.signal(signal.SIGTERM, write)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _keep_history(self, observer):
        """Write what was recorded, the same on all ranks: the error that carries it does not outlive the job. Say where."""
        history = observer.history.copy()  # a signal may have come while a row was appended
        if not history.rows:
            return "Nothing was recorded yet"
        path = Path(f"history-of-{type(observer.recorder.solver).__name__}-until-round-{history.last()['round']}.csv")
        if observer.saver:
            path = observer.saver.path.with_name(f"{observer.saver.path.name}.history.csv")
        try:
            history.to_csv(path)  # other ranks may be doing the same
        except OSError as error:
            return f"The history of its {history.rows} recorded rounds could not be written to {path} ({error})"
        return f"The history of its {history.rows} recorded rounds is in {path.resolve()}"
