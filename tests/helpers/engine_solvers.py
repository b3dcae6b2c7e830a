"""Solvers, a schedule and a callback for runs on engines."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

import topologies
from consensus.compression import Quantized, Sparse
from consensus.solvers import DGD, GradientTracking, Solver


class Watching:
    """A callback that keeps what it sees, and stops the run at round ``until``."""

    def __init__(self, until=None):
        self.until, self.seen = until, []

    def __call__(self, seen):
        row = {name: np.asarray(value).tolist() for name, value in seen.row.items() if name != "seconds"}
        self.seen.append((seen.round, seen.w.tolist(), seen.mean.tolist(), row, seen.history.rows))
        return None if seen.round != self.until else f"enough seen at round {seen.round}"


class Cheat(topologies.Static):
    """In round 2 agents 1 and 5, no neighbours, exchange their rows nevertheless."""

    def key(self, round):
        return int(round == 2)

    def weights(self, key):
        matrix = self._matrix.tolil()
        if key:
            for agent, other in ((1, 5), (5, 1)):
                matrix[agent, agent] -= 0.125
                matrix[agent, other] += 0.125
        return matrix.tocsr()


@dataclass(frozen=True)
class Turned(GradientTracking):
    """Sends arrays in the memory order of Fortran, alone and two at once."""

    def step(self, problem, network, state):
        turned = state._replace(w=np.asfortranarray(state.w), y=np.asfortranarray(state.y))
        return super().step(problem, network, turned)


class Speed(NamedTuple):
    """How fast the agents are, and what is left of it after a round."""

    velocity: np.ndarray
    kept: float


class Memory(NamedTuple):
    """What the agents of :class:`HeavyBall` remember: a state in a state in a state."""

    speed: Speed
    steps: np.ndarray


class HeavyBallState(NamedTuple):
    """The state of :class:`HeavyBall`."""

    round: int
    w: np.ndarray
    memory: Memory


class HeavyBall(Solver):
    """A user's solver with nested states: decentralised gradient descent with momentum, less and less of it."""

    def init(self, problem, w):
        return HeavyBallState(0, w, Memory(Speed(0 * w, 0.9), np.zeros(len(w), int)))

    def step(self, problem, network, state):
        (velocity, kept), steps = state.memory
        velocity = kept * velocity - 0.02 * problem.gradient(state.w)
        (w,) = network.mix(state.round, state.w + velocity)
        return HeavyBallState(state.round + 1, w, Memory(Speed(velocity, 0.95 * kept), steps + problem.rows))


@dataclass(frozen=True)
class Mixed(DGD):
    """Sends its iterate in packed rows of two kinds, of unequal sizes, between arrays."""

    def step(self, problem, network, state):
        n, w, *_ = state
        k = 1 + problem.rows % 3
        sparse = Sparse.largest(w, 3)
        order = np.argsort(np.argsort(-np.abs(sparse.values), axis=1, kind="stable"), axis=1)
        few = Sparse(sparse.values, np.where(order < k[:, None], sparse.indices, -1).astype(np.int32), sparse.columns)
        a, b, c, d = network.mix(n, w[:, :2], few, Quantized.nearest(w, 5), w)
        mixed = 0.5 * d + 0.3 * c + 0.2 * b
        mixed[:, :2] += 0.1 * (a - mixed[:, :2])
        mixed -= self.step_size * problem.average_gradient(w)
        return state._replace(round=n + 1, w=mixed.astype(w.dtype))


@dataclass(frozen=True)
class CtrlC(GradientTracking):
    """As the user presses ctrl-C in round ``at``; after a pause, for others to go on meanwhile."""

    at: int = field(default=-1, repr=False, compare=False)

    def step(self, problem, network, state):
        if state.round == self.at and 0 in problem.rows:
            time.sleep(0.2)
            raise KeyboardInterrupt
        return super().step(problem, network, state)


class Trouble(Exception):
    """An exception whose constructor takes other things than its message."""

    def __init__(self, agent, round):
        super().__init__(f"agent {agent} gives up after round {round}")
        self.agent, self.round = agent, round


class Faulty(DGD):
    """In its fourth round agent 5 raises an exception."""

    def step(self, problem, network, state):
        if state.round == 3 and 5 in problem.rows:
            raise Trouble(5, state.round)
        return super().step(problem, network, state)


@dataclass(frozen=True)
class Slow(GradientTracking):
    """Takes its time over every round, that a run can be hit in the middle; without ``pause`` it does the same at once."""

    pause: float = field(default=0.0, repr=False, compare=False)

    def step(self, problem, network, state):
        if self.pause:
            time.sleep(self.pause)
        return super().step(problem, network, state)


@dataclass(frozen=True)
class Stops(GradientTracking):
    """In round ``at`` the process with agent ``of`` is stopped, as by ctrl-Z; it goes on after ``seconds``, if any."""

    at: int = field(default=-1, repr=False, compare=False)
    of: int = field(default=-1, repr=False)
    seconds: float = field(default=0.0, repr=False)

    def step(self, problem, network, state):
        if state.round == self.at and self.of in problem.rows:
            if self.seconds:
                subprocess.Popen(["/bin/sh", "-c", f"sleep {self.seconds}; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().step(problem, network, state)
