"""Small portions of a batch, handed to idle workers: the slowest ones twice, and the first answer counts."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from consensus.problems.state import SharedProblem
from consensus.workers.pool import Pool, WorkerDied
from consensus.workers.shared_memory import SharedArray


class Evaluator(NamedTuple):
    """A replica that evaluates U in portions.

    Attributes
    ----------
    problem : SharedProblem
        The problem.
    blocks : list of slice
        The agents of each portion. One more portion, the last, evaluates r.
    point : SharedArray (1, P)
        The point at which U is evaluated.
    slots : SharedArray (slots, P)
        Gradients of the portions.
    """

    problem: SharedProblem
    blocks: list[slice]
    point: SharedArray
    slots: SharedArray

    def begin(self) -> Callable[[int, int], tuple[float, int]]:
        """Return ``evaluate(portion, slot)``, which writes the gradient to the slot and returns the value and the samples."""
        problem = self.problem.problem()
        parts = [problem.restrict(rows) for rows in self.blocks]

        def evaluate(portion: int, slot: int) -> tuple[float, int]:
            point = self.point.array
            if portion == len(parts):
                self.slots.array[slot] = problem.regularizer.gradient(point)[0]
                return float(problem.regularizer.value(point[0])), 0
            part = parts[portion]
            w, before = np.broadcast_to(point, (part.agents, part.parameters)), part.work.samples
            self.slots.array[slot] = part.gradient(w).sum(axis=0)
            return float(part.value(w).sum()), part.work.samples - before

        return evaluate


class Portions:
    """Hands out the portions of one evaluation after the other: ``count``, with a slot each and one more for each worker.

    Attributes
    ----------
    samples : int
        Those in all portions, each counted once.
    moves, most : int
        How many points and gradients were sent, by all workers and by the busiest one, if each portion is computed once, and
        all workers are equally fast: counts that repeat from run to run.
    duplicated : int
        How many portions were given to a second worker; these copies are counted nowhere else.
    """

    def __init__(self, pool: Pool, count: int) -> None:
        self.pool, self.count = pool, count
        self.samples = self.moves = self.most = self.duplicated = self._evaluation = 0
        self._free = list(range(count + len(pool.pids)))
        self._at_work: dict[int, tuple[int, int, int]] = {}  # by worker: evaluation, portion, slot

    def evaluate(self) -> tuple[float, list[int]]:
        """Return U at the point, and the slots of the portions' gradients, in order, valid until the next evaluation.

        If no worker is left it raises a ``WorkerError``.
        """
        self._evaluation += 1
        waiting, values, slots = deque(range(self.count)), dict[int, float](), dict[int, int]()
        workers = min(len(self.pool.alive), self.count)
        self.moves += workers + self.count
        self.most += 1 + -(-self.count // workers)
        while len(values) < self.count:
            for worker in sorted(self.pool.alive - self.pool.busy):
                portion = waiting.popleft() if waiting else self._slowest(values)
                if portion is None:
                    break
                self._at_work[worker] = self._evaluation, portion, self._free.pop()
                self.pool.submit(worker, portion, self._at_work[worker][2])
            try:
                worker, (value, samples) = self.pool.result()
            except WorkerDied as death:
                evaluation, portion, slot = self._at_work.pop(death.worker)
                self._free.append(slot)
                if not self.pool.alive:
                    raise self.pool.lost(death.worker) from None
                if evaluation == self._evaluation and portion not in values and not self._copies(portion):
                    waiting.appendleft(portion)
                continue
            evaluation, portion, slot = self._at_work.pop(worker)
            if evaluation == self._evaluation and portion not in values:
                values[portion], slots[portion] = value, slot
                self.samples += samples
            else:  # another was faster
                self._free.append(slot)
        self._free += slots.values()  # nobody writes there before the next evaluation
        return sum(values[portion] for portion in range(self.count)), [slots[portion] for portion in range(self.count)]

    def _copies(self, portion: int) -> int:
        """Return how many workers compute this portion of the present evaluation."""
        return sum(work[:2] == (self._evaluation, portion) for work in self._at_work.values())

    def _slowest(self, values: Mapping[int, float]) -> int | None:
        """Return the portion handed out first of those that one worker alone computes, None if there is none."""
        for evaluation, portion, _ in list(self._at_work.values()):
            if evaluation == self._evaluation and portion not in values and self._copies(portion) == 1:
                self.duplicated += 1
                return portion
        return None
