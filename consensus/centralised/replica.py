"""A replica of DownpourSGD: a process that trains on its own agents' data."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from consensus._arrays.streams import stream
from consensus.centralised.parameter_server import ParameterServer
from consensus.centralised.rows import drawn
from consensus.problems import LazyProblem, Problem
from consensus.problems.state import SharedProblem
from consensus.workers.shared_memory import SharedArray
from consensus.workers.waiting import Wait


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
