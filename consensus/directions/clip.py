"""Clipping of gradients."""

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from consensus._arrays.rows import rowwise
from consensus.directions.base import Direction, as_direction
from consensus.problems import BaseProblem


@dataclass(frozen=True)
class Clip(Direction):
    """Shorten each agent's gradient to a norm of at most ``norm``, ``g_i min(1, norm / |g_i|)``; another rule may follow.

    The norm is that of all P coordinates, as in ``torch.nn.utils.clip_grad_norm_``.

    Parameters
    ----------
    norm : float
        Largest Euclidean norm, > 0.
    direction : Direction, optional
        The rule that takes the clipped gradients; they are the directions themselves if omitted.

    References
    ----------
    Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks", ICML 2013.

    Examples
    --------
    >>> from consensus.directions import AdamW, Clip
    >>> from consensus.solvers import DGD
    >>> solver = DGD(0.001, batch=32, direction=Clip(1.0, AdamW()))
    """

    norm: float = field(metadata={"above": 0})
    direction: Direction | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        as_direction(self.direction, "direction of Clip")

    def check(self, problem: BaseProblem) -> None:
        if self.direction is not None:
            self.direction.check(problem)

    def init(self, problem: BaseProblem, w: np.ndarray) -> Any:  # noqa: ANN401
        return super().init(problem, w) if self.direction is None else self.direction.init(problem, w)

    def step(self, problem: BaseProblem, state: Any, gradient: np.ndarray, w: np.ndarray) -> tuple[Any, np.ndarray]:  # noqa: ANN401
        def clipped(g: np.ndarray) -> np.ndarray:
            norms = np.linalg.norm(g, axis=1, keepdims=True)
            return cast(np.ndarray, g * (self.norm / np.maximum(norms, self.norm)))

        clipped_gradient = rowwise(clipped, gradient)
        if self.direction is None:
            return state, clipped_gradient
        return self.direction.step(problem, state, clipped_gradient, w)
