"""Methods with many local steps along a direction, and an outer step with momentum."""

from typing import Any, NamedTuple

import numpy as np

from consensus.directions.base import NoMemory
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.problems.samples import in_turn
from consensus.solvers.direction import DirectionSolver
from consensus.step_sizes import Rule, value_at


class OuterState(NamedTuple):
    """Outer iterates w and momenta m of methods with many local steps, both (agents, P); and what the direction remembers."""

    round: int
    w: np.ndarray
    m: np.ndarray
    direction: Any = NoMemory()


class OuterSolver(DirectionSolver):
    """Base class of such methods: their settings, and the local steps."""

    step_size: float | Rule
    local_steps: int
    batch: int | Minibatches | None

    exchanges_a_round = 1
    sends = "x"

    def init(self, problem: BaseProblem, w: np.ndarray) -> OuterState:
        return OuterState(0, w, np.zeros_like(w), self._memory(problem, w))

    def _walked(self, problem: BaseProblem, state: OuterState) -> tuple[np.ndarray, Any]:
        """Return where the local steps of a round lead from w, and what the direction remembers then."""
        memory, first = state.direction, state.round * self.local_steps
        steps = range(first, first + self.local_steps)  # rules and batches go by these numbers
        sizes = [value_at(self.step_size, k) for k in steps]

        def walk(problem: BaseProblem, x: np.ndarray) -> np.ndarray:
            nonlocal memory
            for k, alpha in zip(steps, sizes, strict=True):
                d = problem.average_gradient(x, draw(self.batch, problem, k))
                if self.direction is not None:
                    memory, d = self.direction.step(problem, memory, d, x)
                x = x - alpha * d
            return x

        x = in_turn(walk, problem, self.batch, state.w) if self.direction is None else walk(problem, state.w)
        return x, memory
