"""Passes of a network that is spread over a grid of workers."""

import multiprocessing
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from consensus import _checks
from consensus.errors import WorkerError
from consensus.model_parallel.grid import Grid, Pairs, pairs_on_lines
from consensus.model_parallel.workers import OnWorkers, PassMemory, Team
from consensus.servers.pool import Worker


class Sharded(Protocol):
    """A rank's part of a network; all ranks of the ``grid`` call each method together.

    Attributes
    ----------
    grid : Grid
        The ranks.
    held : tuple of int
        Bytes that this rank has of parameters, and of activations since the last pass forward.
    """

    grid: Grid

    @property
    def held(self) -> tuple[int, int]: ...

    def take(self, w: np.ndarray) -> None:
        """Take this rank's parameters from those of all, w (P,)."""

    def block(self, whole: np.ndarray, outputs: bool = False) -> np.ndarray:
        """Return this rank's block of features (samples, inputs) or, with ``outputs``, of cotangents (samples, outputs)."""

    def put(self, block: np.ndarray, whole: np.ndarray) -> None:
        """Write this rank's block of the outputs to where it belongs in (samples, outputs)."""

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return this rank's block of the outputs, from that of the features; the pass is remembered."""

    def backward(self, u: np.ndarray) -> Sequence[np.ndarray]:
        """Return this rank's part of the gradient J' u, from its block of u, for the last pass forward."""

    def write(self, slopes: Sequence[np.ndarray], gradient: np.ndarray) -> None:
        """Write what :meth:`backward` returns to where it belongs in the gradient (P,)."""


class Pipes:
    """The :class:`consensus.model_parallel.grid.Ranks` of a worker process.

    All workers serve their pipes in one order, and of two workers the first one sends first: the first pipe in that order that
    is not served yet has both of its workers at it, so that they never wait in a circle.

    Parameters
    ----------
    me, size : int
        This worker, and the number of workers.
    pipes : mapping of int to Connection
        To the other workers that are on a line with this one.
    """

    def __init__(self, me: int, size: int, pipes: Mapping[int, Connection]) -> None:
        self.me, self.size, self._pipes = me, size, pipes

    def exchange(self, receives: Pairs, sends: Pairs) -> None:
        """Receive arrays and send others, to and from each worker one at most."""
        coming, going = dict(receives), dict(sends)
        for other in sorted({*coming, *going}, key=lambda other: ((self.me + other) % self.size, min(self.me, other))):
            if self.me < other and other in going:
                self._send(other, going[other])
            if other in coming:
                self._pipes[other].recv_bytes_into(coming[other].reshape(-1).view(np.uint8).data)
            if self.me > other and other in going:
                self._send(other, going[other])

    def _send(self, other: int, array: np.ndarray) -> None:
        self._pipes[other].send_bytes(array.reshape(-1).view(np.uint8).data)


class Passed(NamedTuple):
    """Numbers and messages that a worker sent in a pass, and bytes of its parameters and activations."""

    numbers: int
    messages: int
    parameters: int
    activations: int


class GridWorker(NamedTuple):
    """The worker ``number`` of ``workers``, with pipes to others; ``network(grid=...)`` is its part of a network."""

    network: Callable[..., Sharded]
    split: str
    memory: PassMemory
    number: int
    workers: int
    pipes: Mapping[int, Connection]

    def begin(self) -> Callable[[str, int], Passed | None]:
        """Return ``work(way, samples)``, a pass ``"up"`` or ``"down"``; it returns None if another worker has ended."""
        grid, memory = Grid(Pipes(self.number, self.workers, self.pipes), self.split), self.memory
        network = self.network(grid=grid)

        def up(samples: int) -> None:
            network.take(memory.w.array)
            network.put(network.forward(network.block(memory.x.array[:samples])), memory.outputs.array[:samples])

        def down(samples: int) -> None:
            network.write(network.backward(network.block(memory.u.array[:samples], outputs=True)), memory.gradient.array)

        ways = {"up": up, "down": down}

        def work(way: str, samples: int) -> Passed | None:
            grid.numbers = grid.messages = 0
            try:
                ways[way](samples)
            except (EOFError, OSError):
                return None
            return Passed(grid.numbers, grid.messages, *network.held)

        return work


M = TypeVar("M", bound=Any)


class OnGrid(OnWorkers[M]):
    """A model on worker processes that are the ranks of a grid; subclasses define ``_network``."""

    split: str
    passed: list[Passed]  #: of each worker, in the last pass

    @abstractmethod
    def _network(self) -> Callable[..., Sharded]:
        """Return the function of a ``grid`` that makes a rank's part; it is pickled."""

    def predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the outputs.

        Parameters
        ----------
        w : ndarray (agents, P) or (P,)
            Parameters.
        x : ndarray (agents, samples, features) or (samples, features)
            Features.

        Returns
        -------
        ndarray (agents, samples, outputs) or (samples, outputs)
            Outputs.
        """
        w, x = _checks.floats("w", w), _checks.floats("x", x)
        if w.ndim == 1:
            outputs: np.ndarray = self.predict(w[None], x[None])[0]
            return outputs
        return self.linearize(w, x)[0]

    def _begun(self, dtype: np.dtype, stack: ExitStack) -> tuple[Sequence[Worker], Any, str]:
        memory = PassMemory.of(self.parameters, self.plain.features, self.outputs, self.most, dtype)
        pipes: list[dict[int, Connection]] = [{} for _ in range(self.workers)]
        for one, other in pairs_on_lines(self.split, self.workers):
            pipes[one][other], pipes[other][one] = ends = multiprocessing.Pipe()
            for end in ends:
                stack.callback(end.close)  # so that a worker sees that another one has ended
        network = self._network()
        ranks = (GridWorker(network, self.split, memory, number, self.workers, own) for number, own in enumerate(pipes))
        return list(ranks), memory, "worker"

    def _up(self, w: np.ndarray, x: np.ndarray, team: Team) -> np.ndarray:
        team.memory.w.array[...] = w
        team.memory.x.array[: len(x)] = x
        self._passed(team, "up", len(x))
        outputs: np.ndarray = team.memory.outputs.array[: len(x)]
        return outputs

    def _down(self, u: np.ndarray, team: Team) -> np.ndarray:
        team.memory.u.array[: len(u)] = u
        self._passed(team, "down", len(u))
        gradient: np.ndarray = team.memory.gradient.array
        return gradient

    def _passed(self, team: Team, way: str, samples: int) -> None:
        answers: list[Passed | None] = self._all(team, way, samples)
        done = [answer for answer in answers if answer is not None]
        if len(done) < len(answers):
            self.close()
            raise WorkerError(f"worker {answers.index(None)} lost the pipe to another one, which still runs")
        self.passed = done
        self.crossed_messages += sum(answer.messages for answer in done)
        self.crossed_bytes += sum(answer.numbers for answer in done) * team.dtype.itemsize
