"""The Huber loss."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from consensus import _checks
from consensus.losses.base import Loss, aligned

if TYPE_CHECKING:
    import cvxpy


@dataclass(frozen=True)
class Huber(Loss):
    """``l(f, d) = e^2 / 2`` where ``|e| <= delta`` and ``delta |e| - delta^2 / 2`` beyond, ``e = f - d``; summed over outputs.

    Parameters
    ----------
    delta : float
        Where the parabola turns into a line, in units of the target; > 0.

    References
    ----------
    Huber, "Robust estimation of a location parameter", Annals of Mathematical Statistics 35(1), 1964.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import Huber
    >>> Huber(delta=1.0).value(np.array([[0.5], [3.0]]), np.array([[0.0], [0.0]]))
    array([0.125, 2.5  ])
    """

    delta: float = 1.0

    curvature_bound = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", _checks.number("delta", self.delta, above=0))

    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs, targets = aligned(outputs, targets)
        error = outputs - targets
        inner = np.clip(error, -self.delta, self.delta)
        return (inner * (error - inner / 2)).sum(axis=-1)

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs, targets = aligned(outputs, targets)
        return np.clip(outputs - targets, -self.delta, self.delta)

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """One on the parabola, zero on the lines (a generalised second derivative: l is not twice differentiable)."""
        outputs, targets = aligned(outputs, targets)
        return (np.abs(outputs - targets) <= self.delta).astype(outputs.dtype)

    def expression(self, outputs: "cvxpy.Expression", targets: np.ndarray, weights: np.ndarray) -> "cvxpy.Expression":
        import cvxpy as cp

        outputs, targets = aligned(outputs, targets)
        losses = cp.huber(outputs - targets, self.delta) / 2  # type: ignore[arg-type]  # CVXPY says int, and takes any number
        return cp.sum(cp.multiply(np.broadcast_to(weights[:, None], targets.shape), losses))
