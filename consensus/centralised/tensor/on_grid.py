"""Models whose passes run on a grid of worker processes."""

import multiprocessing
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import numpy as np

from consensus import _checks
from consensus.centralised.on_workers import OnWorkers, Team
from consensus.centralised.pass_memory import PassMemory
from consensus.centralised.tensor.grid import pairs_on_lines
from consensus.centralised.tensor.network import Sharded
from consensus.centralised.tensor.worker import GridWorker, Passed
from consensus.errors import WorkerError
from consensus.workers.pool import Worker

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
