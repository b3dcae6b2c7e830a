"""Downpour SGD: replicas that fetch from and push to a parameter server, asynchronously."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus._arrays.streams import stream
from consensus.asynchronous.locks import Locks
from consensus.problems import BaseProblem, LazyProblem, Minibatches, Problem
from consensus.problems.state import SharedProblem
from consensus.servers.pool import Pool, WorkerDied, pool
from consensus.servers.rows import drawn
from consensus.servers.system import Advance, System, Traffic
from consensus.workers.blocks import blocks_by_load, blocks_of
from consensus.workers.shared_memory import SharedArray
from consensus.workers.waiting import Wait


class ParameterServer(NamedTuple):
    """The parameters in slices, each with its part of Adagrad's sums, under a lock of its own.

    Attributes
    ----------
    slices : list of slice
        The parameters of each of the S shards.
    w, sums : SharedArray (P,)
        Parameters, and Adagrad's sums of squared gradients.
    versions : SharedArray (S,)
        Number of updates of each shard.
    locks : Locks
        A lock for each shard, and a last one that is free for other uses.
    learning_rate : float
        Step size.
    adagrad : bool
        Whether Adagrad sets the steps.
    """

    slices: list[slice]
    w: SharedArray
    sums: SharedArray
    versions: SharedArray
    locks: Locks
    learning_rate: float
    adagrad: bool

    @classmethod
    def of(
        cls, w: np.ndarray, sums: np.ndarray, versions: np.ndarray, learning_rate: float, adagrad: bool
    ) -> "ParameterServer":
        """Return one with these parameters and sums (P,), in as many shards as there are ``versions``."""
        memory = tuple(SharedArray(array.shape, array.dtype) for array in (w, sums, versions))
        for shared, array in zip(memory, (w, sums, versions)):
            shared.array[...] = array
        locks = Locks(SharedArray((len(versions) + 1,), np.uint8))
        return cls(blocks_of(len(w), len(versions)), memory[0], memory[1], memory[2], locks, learning_rate, adagrad)

    def fetch(self, into: np.ndarray, seen: np.ndarray) -> None:
        """Copy the parameters ``into`` (P,), shard after shard, and their versions into ``seen`` (S,)."""
        for shard, part in enumerate(self.slices):
            with self.locks.held(shard):
                into[part] = self.w.array[part]
                seen[shard] = self.versions.array[shard]

    def push(self, gradient: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """Apply a ``gradient`` (P,), shard after shard; return its staleness (S,), the updates of each shard since ``seen``.

        With Adagrad ``sums += gradient^2, w -= learning_rate gradient / sqrt(sums)``, else ``w -= learning_rate gradient``.
        """
        late = np.empty(len(self.slices), np.int64)
        w, sums, versions = self.w.array, self.sums.array, self.versions.array
        for shard, part in enumerate(self.slices):
            own = gradient[part]
            with self.locks.held(shard):
                late[shard] = versions[shard] - seen[shard]
                if self.adagrad:
                    sums[part] += own**2
                    own = own / np.sqrt(np.where(sums[part] > 0, sums[part], 1))
                w[part] -= self.learning_rate * own
                versions[shard] += 1
        return late


class Board(NamedTuple):
    """Memory of all R replicas and the coordinator; it is changed under the server's last lock.

    Attributes
    ----------
    local, accrued : SharedArray (R, P)
        The replicas' own parameters, and their gradients since their last push.
    seen : SharedArray (R, S)
        Versions of the server's shards at the last fetch of each replica.
    taken, finished : SharedArray (R,)
        Steps that each replica has taken, and has finished.
    joined, alive : SharedArray (R,)
        1 for replicas that have joined, and for those that are alive.
    owner : SharedArray (A,)
        Replica that holds each agent's data.
    generation : SharedArray (1,)
        Number of changes of ``owner``.
    limit : SharedArray (1,)
        Number of steps, over all replicas, at which they stop.
    pushes, fetches, samples : SharedArray (R,)
        Counts of each replica.
    staleness : SharedArray (R, 2)
        Sum and largest of the staleness of each replica.
    """

    local: SharedArray
    accrued: SharedArray
    seen: SharedArray
    taken: SharedArray
    finished: SharedArray
    joined: SharedArray
    alive: SharedArray
    owner: SharedArray
    generation: SharedArray
    limit: SharedArray
    pushes: SharedArray
    fetches: SharedArray
    samples: SharedArray
    staleness: SharedArray

    @classmethod
    def of(cls, replicas: int, shards: int, agents: int, parameters: int, dtype: np.dtype) -> "Board":
        """Return an empty one."""
        each, whole = (replicas,), np.dtype(np.int64)
        vectors = [SharedArray((replicas, parameters), dtype) for _ in range(2)]
        sizes = ((replicas, shards), each, each, each, each, (agents,), (1,), (1,), each, each, each, (replicas, 2))
        return cls(*vectors, *(SharedArray(shape, whole) for shape in sizes))


class Replica(NamedTuple):
    """Settings of one replica: its ``number``, how often it fetches and pushes, samples a step, and the seeds."""

    problem: SharedProblem
    server: ParameterServer
    board: Board
    number: int
    fetch: int
    push: int
    batch: int
    warm: int
    seed: int
    order: int | None

    def begin(self) -> Callable[[], None]:
        return _Training(self).go


class _Training:
    """A replica at work, from the limit of one request to that of the next."""

    def __init__(self, replica: Replica) -> None:
        self.of, self.server, self.board = replica, replica.server, replica.board
        self.whole = replica.problem.problem()
        assert isinstance(self.whole, Problem | LazyProblem), "it has samples"
        self.generation = -1
        self.gradient: np.ndarray | None = None

    def go(self) -> None:
        """Take steps up to the limit."""
        board, number, last = self.board, self.of.number, len(self.server.slices)
        if not board.joined.array[number]:
            if not self._wait(lambda total: total >= self.of.warm or number == self._first()):
                return
            with self.server.locks.held(last):  # a step that was taken, in a drawn order, has been finished
                self._fetch()
                board.joined.array[number] = 1
        while True:
            if self.gradient is None:
                self.gradient = self._computed()
            if not self._wait(self._may):
                return
            with self.server.locks.held(last):  # another replica may have been faster
                total = int(board.taken.array.sum())
                if total >= board.limit.array[0] or not self._may(total):
                    continue
                board.taken.array[number] += 1
                if self.of.order is not None:  # before any other replica's step
                    self._step()
            if self.of.order is None:
                self._step()

    def _step(self) -> None:
        """Accrue the gradient and take a step along it; push and fetch where these are due."""
        of, board, number = self.of, self.board, self.of.number
        done = int(board.finished.array[number]) + 1
        accrued, local = board.accrued.array[number], board.local.array[number]
        assert self.gradient is not None, "computed before"
        accrued += self.gradient
        local -= self.server.learning_rate * self.gradient
        if done % of.push == 0:
            late = self.server.push(accrued, board.seen.array[number])
            accrued[...] = 0
            board.pushes.array[number] += 1
            staleness = board.staleness.array[number]
            staleness[:] = staleness[0] + late.sum(), max(staleness[1], late.max())
        if done % of.fetch == 0:
            self._fetch()
        self.gradient = None
        board.finished.array[number] = done

    def _fetch(self) -> None:
        number = self.of.number
        self.server.fetch(self.board.local.array[number], self.board.seen.array[number])
        self.board.fetches.array[number] += 1

    def _computed(self) -> np.ndarray:
        """Return an estimate (P,) of the gradient of U at the own parameters, from a minibatch of the own agents' samples."""
        of, board = self.of, self.board
        if self.generation != board.generation.array[0]:
            self.generation = int(board.generation.array[0])
            own = np.flatnonzero(board.owner.array == of.number)
            consecutive = own[-1] - own[0] + 1 == len(own)
            self.problem = self.whole.restrict(slice(own[0], own[-1] + 1) if consecutive else own)
            self.rule = drawn(self.problem, of.batch, of.seed)
            self.scale = self.whole.shards.sizes.sum() / self.problem.shards.sizes.sum()
        problem, w = self.problem, board.local.array[[of.number]]
        before = problem.work.samples
        batch = self.rule.at(problem, int(board.finished.array[of.number]))
        gradient = problem.gradient(np.broadcast_to(w, (problem.agents, problem.parameters)), batch).sum(axis=0)
        board.samples.array[of.number] += problem.work.samples - before
        estimate: np.ndarray = gradient * problem.dtype.type(self.scale) + problem.regularizer.gradient(w)[0]
        return estimate

    def _may(self, total: int) -> bool:
        """Return whether step ``total`` may be this replica's: first one replica is alone, then all must have joined."""
        alive = self.board.alive.array
        if total < self.of.warm:
            return self.of.number == self._first()
        if not self.board.joined.array[alive > 0].all():
            return False
        return self.of.order is None or self.of.number == turn(self.of.order, total, alive)

    def _first(self) -> int:
        return int(np.argmax(self.board.alive.array > 0))

    def _wait(self, condition: Callable[[int], bool]) -> bool:
        """Wait until ``condition(total)`` holds for the steps taken; return False if the limit is reached before."""
        wait, board = Wait(yields=0), self.board
        while True:
            total = int(board.taken.array.sum())
            if total >= board.limit.array[0]:
                return False
            if condition(total):
                return True
            wait.pause()


def turn(seed: int, step: int, alive: np.ndarray) -> int:
    """Return the replica that takes ``step`` in the interleaving of ``seed``, the next one alive if that is dead."""
    drawn = int(stream((seed, step)).integers(len(alive)))
    behind = np.roll(alive > 0, -drawn)
    return (drawn + int(np.argmax(behind))) % len(alive)


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
    >>> from consensus.centralized import DownpourSGD
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
