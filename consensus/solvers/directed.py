"""Solvers that may step along a direction."""

from dataclasses import fields
from typing import Any

import numpy as np

from consensus.directions import Direction
from consensus.directions.base import NoMemory, as_direction
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.bounds import refuse_directions


class DirectedSolver(Solver):
    """A method whose last setting is ``direction``, and whose state ends with what that remembers.

    Without one it is what it was before there were directions: its text and what a checkpoint knows it by lack the setting.
    """

    direction: Direction | None

    def __post_init__(self) -> None:
        super().__post_init__()
        as_direction(self.direction)
        if getattr(self, "step_size", 0) is None:
            refuse_directions(self)

    def __repr__(self) -> str:
        own: Any = self
        names = [one.name for one in fields(own) if one.repr and (one.name != "direction" or self.direction is not None)]
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "direction" or value is not None}

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        if self.direction is not None:
            self.direction.check(problem)

    def _memory(self, problem: BaseProblem, w: np.ndarray) -> Any:  # noqa: ANN401  # of its direction
        """Return what the direction remembers at the start."""
        return NoMemory() if self.direction is None else self.direction.init(problem, w)
