"""The agents that are measured, of whom this process holds a block."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from consensus.observe.gather import Gather
from consensus.observe.metrics import begun, mean_of
from consensus.observe.protocols import Costs, Secure
from consensus.observe.sums import added


class MeasuredAgents:
    """Numbers, sums and means over the measured agents: all of them, or the `honest` ones if others are Byzantine.

    This process has the agents of a block of the `problem`; `gather` collects the others. `points` is the number of iterates
    that are measured, one of each agent unless there is a server. With `secure` sums of costs and gradients are in fixed point,
    and processes send each other masked terms.
    """

    def __init__(
        self, problem: Costs, gather: Gather, honest: np.ndarray | None, points: int, secure: Secure | None = None
    ) -> None:
        self.problem, self.gather, self.honest, self.points, self.secure = problem, gather, honest, points, secure
        first = 0 if honest is None else honest[0]
        self._begins = bool(problem.rows[0] <= first <= problem.rows[-1])  # whether the first of the measured agents is here
        self._own = None if honest is None else np.flatnonzero(np.isin(problem.rows, honest))

    @property
    def share(self) -> float:
        """The number of agents for each one that is measured."""
        return 1.0 if self.honest is None else self.problem.network_size / len(self.honest)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return those of the measured agents among `rows` of all agents."""
        return rows if self.honest is None else rows[self.honest]

    def numbers(
        self, function: Callable[[slice | np.ndarray], np.ndarray], agents: int, dtype: np.dtype | type = float
    ) -> np.ndarray:
        """Return a number of each measured agent: ``function(rows)`` are those of some of the `agents` of this process."""
        numbers, own = np.zeros(agents, dtype), slice(0, agents) if self._own is None else self._own
        if self._own is None or len(self._own):
            numbers[own] = function(own)
        return self.of(self.gather.rows(numbers))

    def mean(self, w: np.ndarray) -> np.ndarray:
        """Return the mean (P,) of the measured agents, from the iterates `w` of those of this process."""
        own = w if self._own is None else w[self._own]

        def more(before: np.ndarray) -> np.ndarray:
            return begun(own, None if self._begins else before) if len(own) else before

        return mean_of(self.gather.chain(more, np.zeros((2, w.shape[1]), w.dtype)), self.points)

    def cost(self, costs: np.ndarray) -> float:
        """Return the sum of the agents' costs, of those of this process (agents,), as :meth:`total` does."""
        if self.secure is not None:
            return float(self._masked(self.secure, costs[:, None])[0])
        return float(self.share * self.of(self.gather.rows(costs)).sum())

    def total(self, gradients: np.ndarray) -> np.ndarray:
        """Return the sum of the gradients over all A agents, or A / H times that over H honest ones if others are Byzantine."""
        if self.secure is not None:
            return self._masked(self.secure, gradients).astype(gradients.dtype)
        own = gradients if self._own is None else gradients[self._own]
        total: np.ndarray = self.share * self.gather.chain(lambda total: added(total, own), np.zeros_like(gradients[0]))
        return total

    def _masked(self, secure: Secure, rows: np.ndarray) -> np.ndarray:
        codes = secure.encode(rows, self.problem.rows, self.problem.network_size)
        return secure.decode(self.gather.masked_sum(codes, secure.masks))

    def iterates(self, w: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the iterate of each measured agent, in all processes, from those of this process."""
        measured = None if self.honest is None else set(self.honest.tolist())
        for agent, point in enumerate(itertools.chain.from_iterable(self.gather.parts(w))):
            if measured is None or agent in measured:
                yield point
