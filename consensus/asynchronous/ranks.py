"""Solvers without rounds on ranks that do not wait for each other, and on those of MPI."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from threadpoolctl import threadpool_limits

from consensus._arrays.parallel import one_blas_thread
from consensus.asynchronous.arcs import arcs_of
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.first_rank import FirstRank, OtherRank
from consensus.asynchronous.post import MPIPost, RankPost, seconds_ahead
from consensus.asynchronous.rank import AgentsOfRank
from consensus.asynchronous.tally import Tally, check_newest, check_wakes
from consensus.engines import MPI, Begin
from consensus.engines.protocols import Problem, Solver
from consensus.engines.rank_engine import RankEngine
from consensus.engines.transport import ENDS, LostRank
from consensus.errors import WorkerError
from consensus.observe import Observer
from consensus.workers.blocks import blocks_of
from topologies import _names
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

S = TypeVar("S", bound=Solver)
_STAYS = 0.5  # seconds: as soon as another rank has ended, mpiexec kills the first one, which may be writing


class AsyncRanks(RankEngine):
    """Base class of engines on ranks that do not wait for each other."""

    without_rounds = True

    @abstractmethod
    def _post(self) -> RankPost:
        """Return a carrier of the ranks' messages, for one run; all ranks call it together."""

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.agents != problem.network_size:
            name = type(self).__name__
            raise ValueError(f"{name} measures all agents on the first rank: give each rank the problem of all agents")

    def prepare(self, solver: S, problem: Problem, network: ScheduleLike) -> S:
        check_wakes(type(self).__name__, solver, self.ranks.transport.engine.lower())
        return super().prepare(solver, problem, network)

    def run(
        self, problem: Problem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        waking, agents = cast(AsynchronousSolver, solver), problem.network_size
        check_newest(type(self).__name__, waking, observer.saver is not None or begin.resumed)
        if waking.pairs:
            name, engine = type(waking).__name__, type(self).__name__
            raise TypeError(f"{name} needs two agents at once, and {engine} has messages: use Simulated() or AsyncProcesses()")
        blocks = blocks_of(agents, self.size)
        labels = _names.of_run(problem, schedule)
        names = [f"rank {rank} ({_names.block(block, labels)})" for rank, block in enumerate(blocks)]
        self.ranks.enter(lambda: f"after {observer.round} rounds", names)
        with (
            threadpool_limits(self.cores, user_api="blas"),
            one_blas_thread,
            np.errstate(over="ignore", invalid="ignore", divide="ignore"),
            self._terminated(observer, names[self.rank]),
        ):
            try:
                return self._wake(problem, schedule, waking, begin.numbers["w"], rounds, observer, blocks)
            except BaseException as error:  # as this rank ends, it still obeys SIGTERM: others may have ended first
                if self.size == 1:
                    raise
                if isinstance(error, LostRank):
                    error = self._lost(error)
                self.ranks.abort(error, f"{names[self.rank]} failed; the job is aborted. {self._keep_history(observer)}")
            finally:
                self.ranks.leave("at the end of consensus.solve")

    def _wake(
        self,
        problem: Problem,
        schedule: ScheduleLike,
        solver: AsynchronousSolver,
        start: np.ndarray,
        rounds: int,
        observer: Observer,
        blocks: list[slice],
    ) -> str | None:
        arcs, ranks, rows = arcs_of(*solver.matrices(schedule), dtype=problem.dtype), self.ranks, blocks[self.rank]
        post = self._post()
        own = AgentsOfRank(problem.restrict(rows), solver, arcs, blocks, ranks, post, start[rows].copy())
        reports = own.answer()
        packed = reports.view(np.uint8).reshape(len(reports), -1)
        everyone = ranks.allgather_rows(packed, np.array([block.stop - block.start for block in blocks])).view(reports.dtype)
        first = None
        part: FirstRank | OtherRank
        if self.root:
            tally = Tally(arcs, own.messages)
            part = first = FirstRank(own, everyone[:, 0], blocks, ranks, post, tally, observer, rounds)
        else:
            part = OtherRank(own, post)
        over = ranks.broadcast(first.record(0.0) if first else None)
        began = time.monotonic() if self.root else 0.0
        own.begin(seconds_ahead(ranks) - ranks.broadcast(began))  # zero on all ranks when the first one calls this
        while not over:
            own.sweep()
            over = part.look()
            if first is None:
                observer.tick(int(own.report["wakes"].min()))
        post.end(ranks)
        history, latest, reason = ranks.broadcast((observer.history, observer.latest, first.reason) if first else None)
        if first is None and latest is not None:
            observer.recorder.history = history
            observer.tick(*latest)
        return reason

    def _lost(self, lost: LostRank) -> WorkerError:
        said = (lost.rank, ENDS) in self.ranks.transport.notes()
        what = "has ended the job, and says why" if said else "has ended, or its connection broke"
        return WorkerError(f"{self.ranks.place()}: {self.ranks.names[lost.rank]} {what}")

    def _keep_history(self, observer: Observer) -> str:
        if self.root:
            return super()._keep_history(observer)
        time.sleep(_STAYS)
        return "The first rank writes the history"


class AsyncMPI(AsyncRanks, MPI):
    """Run a solver without rounds on MPI ranks, of one machine or many, with no barrier between them.

    Start the script as for :class:`consensus.engines.MPI`. Each rank wakes its own agents again and again, by the newest
    messages that have arrived, so that a slow rank holds nobody up. At most one message at a time is on its way from a rank to
    another: messages that agents would send meanwhile count as ``lost``, and fill no memory; when the receiver has taken the
    first one, the newest follows. The order of wakes is the machines', so no two runs are equal.

    Ranks tell the first one how often their agents woke. When a round is due, it asks them for their iterates, and records when
    all have answered, which they do between two wakes. Agents go on waking, and rounds that are due meanwhile are left out. The
    first rank measures all agents between its own wakes: make ``record_every`` large. The history has the columns of
    :class:`Simulated`, by the first rank's clock; the offsets of the other clocks are measured once, at the start.

    Errors, ctrl-C and dead ranks end the job as with :class:`consensus.engines.MPI`; the first rank writes the history.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm, optional
        The ranks that run; by default all.
    cores : int
        Threads inside a rank.
    timeout : float
        Seconds that a rank may take to answer the first one, or to begin or end with all others, before the job is aborted.

    Raises
    ------
    TypeError
        If the solver has rounds, or needs more than the newest message of each agent.
    ValueError
        If a checkpoint is asked for: there is no round at which all agents could be saved. If ranks hold their own agents'
        data alone: the first one measures all.

    Examples
    --------
    >>> import networkx as nx, numpy as np, consensus
    >>> from consensus.asynchronous import ASYSONATA, AsyncMPI
    >>> from consensus.surrogates import FullLinearization
    >>> centres = np.arange(5.0)[:, None]
    >>> value = lambda w, rows: ((w - centres[rows]) ** 2).sum(axis=1)
    >>> problem = consensus.Problem.from_functions(value, lambda w, rows: 2 * (w - centres[rows]), agents=5, parameters=1)
    >>> solver = ASYSONATA(FullLinearization(tau=10.0), 0.3)
    >>> result = consensus.solve(problem, nx.cycle_graph(5), solver, rounds=300, engine=AsyncMPI(), record_every=300)
    >>> result.mean.round(4).tolist()  # on one rank, as without mpiexec
    [2.0]
    """

    def __init__(self, communicator: Comm | None = None, cores: int = 1, timeout: float = 600.0) -> None:
        super().__init__(communicator, cores, timeout=timeout)

    def _post(self) -> RankPost:
        return MPIPost(self.communicator)
