"""Downpour SGD: replicas that do not wait for each other."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.centralised.parameter_server import ParameterServer
from consensus.centralised.replica import Board, Replica
from consensus.centralised.system import Advance, System, Traffic
from consensus.problems import BaseProblem, Minibatches
from consensus.workers.blocks import blocks_by_load
from consensus.workers.pool import Pool, WorkerDied, pool

KEPT = ("local", "accrued", "seen", "finished", "joined")  # of the replicas' memory


class DownpourState(NamedTuple):
    """The state of all R replicas and S shards.

    Attributes
    ----------
    round : int
        Number of rounds so far.
    w : ndarray (1, P)
        The server's parameters.
    sums : ndarray (1, P)
        Adagrad's sums of squared gradients.
    versions : ndarray of int (1, S)
        Number of updates of each shard.
    local, accrued : ndarray (1, R, P)
        The replicas' own parameters, and their gradients since their last push.
    seen : ndarray of int (1, R, S)
        Versions of the shards at the last fetch of each replica.
    finished : ndarray of int (1, R)
        Steps that each replica has finished.
    joined : ndarray of int (1, R)
        1 for replicas that have joined, 0 for others.
    staleness : ndarray (1, 2)
        Mean and largest staleness since the last row.
    """

    round: int
    w: np.ndarray
    sums: np.ndarray
    versions: np.ndarray
    local: np.ndarray
    accrued: np.ndarray
    seen: np.ndarray
    finished: np.ndarray
    joined: np.ndarray
    staleness: np.ndarray


@dataclass(frozen=True)
class DownpourSGD(System[DownpourState]):
    """Asynchronous gradient descent: replicas train on their own data, a server in shards applies gradients as they arrive.

    A replica holds some of the agents. In a step it estimates a gradient g of U from a minibatch of its own samples, at its own
    parameters x: ``a <- a + g``, ``x <- x - learning_rate g``. After every ``push`` steps a goes to the server, and is set to
    zero; after every ``fetch`` steps x is copied from the server. The server's shards, each under a lock of its own, apply a
    with Adagrad, ``h <- h + a^2``, ``w <- w - learning_rate a / sqrt(h)``, or plainly, ``w <- w - learning_rate a``. Replicas
    do not wait: the staleness of a gradient is the number of updates that the server made since its replica fetched. The
    history's columns ``staleness`` and ``staleness_worst`` show the mean and the largest since the row before.

    A round is ``replicas`` steps in all: faster replicas take more. At recorded rounds all replicas stop, so ``record_every=1``
    keeps them together more than they otherwise would be.

    A replica that dies, even by ``kill -9``, does not stop the run: others get its data. If all die: ``WorkerError``.

    Parameters
    ----------
    replicas : int
        Processes; no more than agents.
    fetch, push : int
        Steps between two fetches, and between two pushes.
    shards : int
        Shards of the server.
    adagrad : bool
        Whether the server's steps are Adagrad's.
    seed : int, optional
        Seed of the order in which replicas take their steps: a run has the same bits every time, and gradients are still
        computed at the same time. By default the order is that in which replicas are ready.
    learning_rate : float
        Step size, > 0.
    batch : int
        Samples a step; each of a replica's agents draws its part of them, rounded up, as :class:`consensus.Minibatches` does.
    warm_start : int
        Rounds that one replica takes alone; then the others join.

    References
    ----------
    Dean et al., "Large scale distributed deep networks", NeurIPS 2012, section 4.1.

    Examples
    --------
    >>> from consensus.centralised import DownpourSGD
    >>> DownpourSGD(replicas=4, fetch=5, push=5, shards=2)
    DownpourSGD(replicas=4, fetch=5, push=5, shards=2, adagrad=True, seed=None, learning_rate=0.05, batch=32, warm_start=1)
    """

    replicas: int
    fetch: int = 1
    push: int = 1
    shards: int = 1
    adagrad: bool = True
    seed: int | None = None
    learning_rate: float = 0.05
    batch: int = 32
    warm_start: int = 1

    history_columns = MappingProxyType({"staleness": np.max, "staleness_worst": np.max})
    smooth = True

    def __post_init__(self) -> None:
        for name in ("replicas", "fetch", "push", "shards", "batch"):
            _checks.count(name, getattr(self, name))
        _checks.flag("adagrad", self.adagrad)
        if self.seed is not None:
            _checks.count("seed", self.seed, least=0)
        _checks.number("learning_rate", self.learning_rate, above=0)
        _checks.count("warm_start", self.warm_start, least=0)

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        Minibatches(1).check(problem)
        self._at_most(problem, replicas=self.replicas, shards=self.shards)

    def init(self, problem: BaseProblem, w: np.ndarray) -> DownpourState:
        many, vectors = (1, self.replicas), (1, self.replicas, problem.parameters)
        whole = [np.zeros(shape, np.int64) for shape in ((1, self.shards), (*many, self.shards), many, many)]
        versions, seen, finished, joined = whole
        local, accrued = np.tile(w, (*many, 1)), np.zeros(vectors, w.dtype)
        return DownpourState(0, w, np.zeros_like(w), versions, local, accrued, seen, finished, joined, np.zeros((1, 2)))

    def report(self, state: DownpourState) -> np.ndarray:
        return state.staleness

    @contextmanager
    def running(self, problem: BaseProblem, traffic: Traffic, state: DownpourState) -> Iterator[Advance[DownpourState]]:
        server = ParameterServer.of(state.w[0], state.sums[0], state.versions[0], self.learning_rate, self.adagrad)
        board = Board.of(self.replicas, self.shards, problem.agents, problem.parameters, problem.dtype)
        for name in KEPT:
            getattr(board, name).array[...] = getattr(state, name)[0]
        board.taken.array[...], board.alive.array[...] = state.finished[0], 1
        for number, rows in enumerate(blocks_by_load(problem.load, self.replicas)):
            board.owner.array[rows] = number
        settings = self.fetch, self.push, self.batch, self.warm_start * self.replicas, self.seed or 0, self.seed
        data, begun = problem.shared(), state.finished[0]
        with pool([Replica(data, server, board, number, *settings) for number in range(self.replicas)], "replica") as replicas:

            def advance(state: DownpourState, due: int) -> DownpourState:
                board.limit.array[0] = due * self.replicas
                before = board.pushes.array.sum(), board.staleness.array[:, 0].sum()
                board.staleness.array[:, 1] = 0
                while board.finished.array.sum() < board.limit.array[0]:
                    _go(replicas, board, server)
                _count(traffic, board, server, begun)
                pushes, late = board.pushes.array.sum() - before[0], board.staleness.array[:, 0].sum() - before[1]
                staleness = [[late / max(1, pushes * self.shards), board.staleness.array[:, 1].max()]]
                shared = {name: getattr(server, name) for name in ("w", "sums", "versions")}
                shared |= {name: getattr(board, name) for name in KEPT}
                copies = {name: memory.array[None].copy() for name, memory in shared.items()}
                return DownpourState(round=due, staleness=np.array(staleness, float), **copies)

            yield advance


def _go(replicas: Pool, board: Board, server: ParameterServer) -> None:
    """Let the replicas work up to the limit; give the data of those that die to others."""
    for worker in sorted(replicas.alive):
        replicas.submit(worker)
    while replicas.busy:
        try:
            replicas.result()
        except WorkerDied as death:
            if not replicas.alive:
                raise replicas.lost(death.worker) from None
            with server.locks.held(len(server.slices)):
                board.alive.array[death.worker] = 0
                board.taken.array[death.worker] = board.finished.array[
                    death.worker
                ]  # a step that it had begun is another one's
                theirs = np.flatnonzero(board.owner.array == death.worker)
                board.owner.array[theirs] = np.resize(sorted(replicas.alive), len(theirs))
                board.generation.array[0] += 1


def _count(traffic: Traffic, board: Board, server: ParameterServer, before: np.ndarray) -> None:
    """Count what was sent and computed since ``before`` steps were done: a push or a fetch is a message per shard."""
    parameters, shards = len(server.w.array), len(server.slices)
    moves = board.pushes.array + board.fetches.array  # of each replica
    busiest = max(int(moves.max()) * parameters, int(moves.sum()) * max(part.stop - part.start for part in server.slices))
    traffic.total(
        exchanges=int(board.pushes.array.max()),
        messages=int(moves.sum()) * shards,
        numbers=int(moves.sum()) * parameters,
        busiest=busiest,
        gradients=int((board.finished.array - before).max()),
        samples=int(board.samples.array.sum()),
    )
