"""A replica of DownpourSGD: a process that trains on its own agents' data."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from consensus.centralised.parameter_server import ParameterServer
from consensus.centralised.rows import drawn
from consensus.problems import Problem
from consensus.problems.shared import SharedProblem
from consensus.workers.shared_memory import SharedArray
from consensus.workers.waiting import Wait


class Board(NamedTuple):
    """What all R replicas and the coordinator see; its changes are made under the server's last lock, the door.

    Fields: ``local`` (R, P), the replicas' own parameters; ``accrued`` (R, P), their gradients since they pushed last; ``seen``
    (R, S), the versions that they fetched last; how many steps each has ``taken`` and ``finished`` (R,); who has ``joined`` and
    is ``alive`` (R,); whose each agent's data are, ``owner`` (A,); the ``generation`` of that, and the ``limit`` of steps (1,);
    and what was measured of each, ``pushes``, ``fetches``, ``samples``, and the sum and the largest of ``staleness`` (R, 2).
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
        """An empty one."""
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

    def begin(self) -> "Callable[[], None]":
        return _Training(self).go


class _Training:
    """A replica at work, from the limit of one request to that of the next."""

    def __init__(self, replica: Replica) -> None:
        self.of, self.server, self.board = replica, replica.server, replica.board
        self.whole = replica.problem.problem()
        assert isinstance(self.whole, Problem), "it has samples"
        self.everything = self.whole.shards.sizes.sum()
        self.generation, self.gradient = -1, None

    def go(self):
        """Take steps until the door is closed."""
        board, number = self.board, self.of.number
        door = len(self.server.slices)
        if not board.joined.array[number]:
            if not self._wait(lambda total: total >= self.of.warm or number == self._first()):
                return
            with self.server.locks.held(door):  # a step that was taken, in a drawn order, has been finished
                self._fetch()
                board.joined.array[number] = 1
        while True:
            if self.gradient is None:
                self.gradient = self._computed()
            if not self._wait(self._may):
                return
            with self.server.locks.held(door):  # what was so may be so no longer
                total = board.taken.array.sum()
                if total >= board.limit.array[0] or not self._may(total):
                    continue
                board.taken.array[number] += 1
                if self.of.order is not None:  # nobody else's step comes between
                    self._step()
            if self.of.order is None:
                self._step()

    def _step(self):
        """``accrued += gradient``, and a step of one's own; push and fetch where these are due."""
        of, board, number = self.of, self.board, self.of.number
        done = int(board.finished.array[number]) + 1
        accrued, local = board.accrued.array[number], board.local.array[number]
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

    def _fetch(self):
        number = self.of.number
        self.server.fetch(self.board.local.array[number], self.board.seen.array[number])
        self.board.fetches.array[number] += 1

    def _computed(self):
        """An estimate (P,) of the gradient of U at one's own parameters, from a minibatch of one's own agents' samples."""
        of, board = self.of, self.board
        if self.generation != board.generation.array[0]:
            self.generation = int(board.generation.array[0])
            own = np.flatnonzero(board.owner.array == of.number)
            together = own[-1] - own[0] + 1 == len(own)
            self.problem = self.whole.restrict(slice(own[0], own[-1] + 1) if together else own)
            self.rule = drawn(self.problem, of.batch, of.seed)
            self.scale = self.everything / self.problem.shards.sizes.sum()
        problem, w = self.problem, board.local.array[[of.number]]
        before = problem.work.samples
        batch = self.rule.at(problem, int(board.finished.array[of.number]))
        gradient = problem.gradient(np.broadcast_to(w, (problem.agents, problem.parameters)), batch).sum(axis=0)
        board.samples.array[of.number] += problem.work.samples - before
        return gradient * problem.dtype.type(self.scale) + problem.regularizer.gradient(w)[0]

    def _may(self, total):
        """Whether step ``total`` may be this replica's: the first ones are one replica's, then all must have joined."""
        alive = self.board.alive.array
        if total < self.of.warm:
            return self.of.number == self._first()
        if not self.board.joined.array[alive > 0].all():
            return False
        return self.of.order is None or self.of.number == turn(self.of.order, int(total), alive)

    def _first(self):
        return int(np.argmax(self.board.alive.array > 0))

    def _wait(self, condition):
        """Wait until ``condition(total)`` of the steps taken holds; False if the door closes before."""
        wait, board = Wait(yields=0), self.board
        while True:
            total = board.taken.array.sum()
            if total >= board.limit.array[0]:
                return False
            if condition(total):
                return True
            wait.pause()


def turn(seed: int, step: int, alive: np.ndarray) -> int:
    """The replica that takes ``step`` in the interleaving of ``seed``; that of a dead one is the next one's."""
    drawn = int(np.random.Generator(np.random.Philox(key=[seed, step])).integers(len(alive)))
    behind = np.roll(alive > 0, -drawn)
    return (drawn + int(np.argmax(behind))) % len(alive)
