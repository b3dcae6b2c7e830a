"""Solvers that may step along a direction."""

from dataclasses import fields
from typing import Any

import numpy as np

from consensus import _checks
from consensus.directions import Direction
from consensus.directions.base import NoMemory, as_direction
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.bounds import refuse_directions

_ALIKE = 0.1  # how far shards differ in size that count as equal


class DirectionSolver(Solver):
    """Base class of methods whose last setting is ``direction``, and whose state ends with the direction's memory.

    A method without a direction, if that is its default, leaves the setting out of its text and out of its checkpoints.
    """

    direction: Direction | None
    tracked = False  # whether the direction's gradients are those of all agents

    def __post_init__(self) -> None:
        super().__post_init__()
        as_direction(self.direction)
        if getattr(self, "step_size", 0) is None:
            refuse_directions(self)

    def __repr__(self) -> str:
        own: Any = self
        names = [one.name for one in fields(own) if one.repr and not (one.name == "direction" and self._plain)]
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not (name == "direction" and self._plain)}

    @property
    def _plain(self) -> bool:
        return self.direction is None and getattr(type(self), "direction", None) is None

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        if self.direction is not None:
            self.direction.check(problem)
            if self.direction.scale_free and not self.tracked:
                self._warn_of_sizes(problem)

    def _warn_of_sizes(self, problem: BaseProblem) -> None:
        """Warn of shards of different sizes, which make no difference to steps of one length."""
        shards = problem.shards
        if shards is None or not len(shards.sizes):
            return
        mean, own = shards.samples / problem.network_size, shards.sizes
        if max(abs(own - mean)) > _ALIKE * mean:
            name, direction = type(self).__name__, type(self.direction).__name__
            _checks.warn(
                f"{name} with {direction} takes steps of one length along each agent's own gradient, so agents count alike "
                f"whatever they have: {own.min()} to {own.max()} samples here, {mean:.1f} on average. To reach the minimum of "
                "the mean loss over samples take shards of one size, direction=None, or GradientTracking"
            )

    def _memory(self, problem: BaseProblem, w: np.ndarray) -> Any:  # noqa: ANN401  # of its direction
        """Return what the direction remembers at the start."""
        return NoMemory() if self.direction is None else self.direction.init(problem, w)
