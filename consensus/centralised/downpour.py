"""Downpour SGD: replicas that wait for nobody."""

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


class DownpourState(NamedTuple):
    """Where all R replicas and S shards are.

    Fields: the server's parameters w, Adagrad's sums (1, P) and versions (1, S); the replicas' own parameters and accrued
    gradients (1, R, P), the versions that they have seen (1, R, S), how many steps they have finished and who has joined (1,
    R); the mean and the largest staleness since the last row (1, 2).
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
class DownpourSGD(System):
    """Asynchronous gradient descent: replicas train on their own data, a server in shards applies gradients as they come.

    A replica has a part of the agents, and does, over and over: a gradient g of U estimated from a minibatch of its own
    samples, at its own parameters x; ``a <- a + g``, ``x <- x - learning_rate g``; after every ``push`` steps a goes to the
    server, and is set to zero; after every ``fetch`` steps x is copied from there. The server's shards, each under a lock of
    its own, apply what comes with Adagrad, ``h <- h + a^2``, ``w <- w - learning_rate a / sqrt(h)``, or plainly,
    ``w <- w - learning_rate a``. Nobody waits for others: a gradient comes late by as many updates as the server made since its
    replica fetched. The history's columns ``staleness`` and ``staleness_worst`` show the mean and the largest of these in the
    rounds since the row before.

    A round is ``replicas`` steps, of whichever replicas take them: faster ones take more. At recorded rounds all come to rest,
    with the gradients that they have computed, so ``record_every=1`` keeps replicas together more than they otherwise would be.

    A replica that dies, by ``kill -9`` even, does not stop the run: others get its data. All of them: ``WorkerError``.

    Parameters
    ----------
    replicas : int
        Processes; no more than agents.
    fetch, push : int
        Steps between two fetches, and between two pushes.
    shards : int
        Of the server.
    adagrad : bool
    seed : int, optional
        With one, replicas take their steps in an order drawn from it, and a run is the same to the bit every time. Gradients
        are still computed at the same time. Without, the order is that in which they are ready.
    learning_rate : float
        > 0.
    batch : int
        Samples a step; each of a replica's agents draws its part of them, rounded up, as :class:`consensus.Minibatches` does.
    warm_start : int
        So many rounds at first are one replica's; then the others join.

    References
    ----------
    Dean et al., "Large scale distributed deep networks", NeurIPS 2012, section 4.1 (the loop of a replica: from memory of its
    appendix).

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
        for name, most, what in (("replicas", problem.agents, "agents"), ("shards", problem.parameters, "parameters")):
            if getattr(self, name) > most:
                raise ValueError(f"{name} must be at most the problem's {what}, {most}; got {getattr(self, name)}")

    def init(self, problem: BaseProblem, w: np.ndarray) -> DownpourState:
        many, vectors = (1, self.replicas), (1, self.replicas, problem.parameters)
        whole = [np.zeros(shape, np.int64) for shape in ((1, self.shards), (*many, self.shards), many, many)]
        versions, seen, finished, joined = whole
        local, accrued = np.tile(w, (*many, 1)), np.zeros(vectors, w.dtype)
        return DownpourState(0, w, np.zeros_like(w), versions, local, accrued, seen, finished, joined, np.zeros((1, 2)))

    def report(self, state: DownpourState) -> np.ndarray:
        return state.staleness

    @contextmanager
    def running(self, problem: BaseProblem, traffic: Traffic, state: DownpourState) -> Iterator[Advance]:
        server = ParameterServer.of(state.w[0], state.sums[0], state.versions[0], self.learning_rate, self.adagrad)
        board = Board.of(self.replicas, self.shards, problem.agents, problem.parameters, problem.dtype)
        for name in ("local", "accrued", "seen", "finished", "joined"):
            getattr(board, name).array[...] = getattr(state, name)[0]
        board.taken.array[...], board.alive.array[...] = state.finished[0], 1
        for number, rows in enumerate(blocks_by_load(problem.load, self.replicas)):
            board.owner.array[rows] = number
        settings = self.fetch, self.push, self.batch, self.warm_start * self.replicas, self.seed or 0, self.seed
        data, begun = problem.shared(), state.finished[0]
        with pool([Replica(data, server, board, number, *settings) for number in range(self.replicas)], "replica") as replicas:

            def advance(state, due):
                board.limit.array[0] = due * self.replicas
                before = board.pushes.array.sum(), board.staleness.array[:, 0].sum()
                board.staleness.array[:, 1] = 0
                while board.finished.array.sum() < board.limit.array[0]:
                    _go(replicas, board, server)
                _count(traffic, board, server, begun)
                pushes, late = board.pushes.array.sum() - before[0], board.staleness.array[:, 0].sum() - before[1]
                staleness = [[late / max(1, pushes * self.shards), board.staleness.array[:, 1].max()]]
                kept = (getattr(board, name).array[None].copy() for name in ("local", "accrued", "seen", "finished", "joined"))
                own = (shared.array[None].copy() for shared in (server.w, server.sums, server.versions))
                return DownpourState(due, *own, *kept, np.array(staleness, float))

            yield advance


def _go(replicas: Pool, board: Board, server: ParameterServer) -> None:
    """Let the replicas work up to the limit; hand on the data of those that die."""
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
                board.taken.array[death.worker] = board.finished.array[death.worker]  # what it had begun is others' now
                theirs = np.flatnonzero(board.owner.array == death.worker)
                board.owner.array[theirs] = np.resize(sorted(replicas.alive), len(theirs))
                board.generation.array[0] += 1


def _count(traffic: Traffic, board: Board, server: ParameterServer, before: np.ndarray) -> None:
    """What was sent and computed since the run began, with ``before`` steps done: a push or a fetch is a message a shard."""
    parameters, shards = len(server.w.array), len(server.slices)
    moves = board.pushes.array + board.fetches.array  # of each replica
    numbers, size = int(moves.sum()) * parameters, server.w.array.itemsize
    busiest = max(int(moves.max()) * parameters, int(moves.sum()) * max(part.stop - part.start for part in server.slices))
    traffic.counts |= {"exchanges": int(board.pushes.array.max()), "messages": int(moves.sum()) * shards, "floats": numbers}
    traffic.counts |= {"bytes": numbers * size, "bytes_busiest": busiest * size}
    steps = int((board.finished.array - before).max())
    traffic.counts |= {"gradients": steps, "samples": int(board.samples.array.sum())}
