"""A line search for the strong Wolfe conditions, one evaluation at a time."""

from typing import NamedTuple

import numpy as np

_DECREASE, _CURVATURE = 1e-3, 0.9  # of the Wolfe conditions: those of SciPy's L-BFGS-B
_MOST = 20  # trial steps
_GROWTH = 4.0  # of the step while no minimum is bracketed
_ROUNDING = 4e-16  # of the value: differences below are rounding


class Point(NamedTuple):
    """A step length with the value and the slope of the line there."""

    step: float
    value: float
    slope: float


class LineSearch(NamedTuple):
    """The state of a search along a line.

    ``trial`` and ``step`` are the number and the length of the next trial, ``origin`` the start. ``low`` is the best point that
    decreases enough, ``high`` the other end of an interval with a minimum, at an infinite step while there is none.
    """

    trial: int
    step: float
    origin: Point
    low: Point
    high: Point

    @classmethod
    def along(cls, value: float, slope: float, step: float) -> "LineSearch":
        """Return the search from a point with this ``value`` and ``slope`` < 0, with ``step`` as the first trial."""
        origin = Point(0.0, value, slope)
        return cls(1, step, origin, origin, Point(np.inf, np.inf, np.inf))

    @property
    def exhausted(self) -> bool:
        """True if the interval is lost in rounding, or there were too many trials."""
        return self.trial > _MOST or abs(self.high.step - self.low.step) <= 1e-12 * max(self.low.step, self.step)

    def accepts(self, value: float, slope: float) -> bool:
        """Return whether ``value`` and ``slope`` at the trial step satisfy the strong Wolfe conditions, up to rounding."""
        return self._decreases(value, slope) and abs(slope) <= -_CURVATURE * self.origin.slope

    def _decreases(self, value: float, slope: float) -> bool:
        at, first, downhill = self.step, self.origin.value, self.origin.slope
        if value <= first + _DECREASE * at * downhill:
            return True
        # Near a minimum values differ by rounding only: slopes decide (Hager and Zhang's approximate condition).
        return value <= first + _ROUNDING * abs(first) and slope <= (2 * _DECREASE - 1) * downhill

    def after(self, value: float, slope: float) -> "LineSearch":
        """Return the search after a trial that was not accepted (Nocedal and Wright, algorithms 3.5 and 3.6)."""
        here = Point(self.step, value, slope)
        low, high = self.low, self.high
        if not (self._decreases(value, slope) and value < low.value + _ROUNDING * abs(low.value)):
            high = here
        else:
            if slope * (high.step - low.step) >= 0:
                high = low
            low = here
        return self._replace(trial=self.trial + 1, step=_next(low, high), low=low, high=high)


def _next(low: Point, high: Point) -> float:
    """Return the minimum of the cubic through both points, kept away from them; beyond ``low`` while there is no ``high``."""
    if np.isinf(high.step):
        return _GROWTH * low.step
    width = high.step - low.step
    middle = low.step + width / 2
    if not np.isfinite(high.value) or not np.isfinite(high.slope):
        return low.step + width / 10
    theta = 3 * (low.value - high.value) / width + low.slope + high.slope
    root = theta**2 - low.slope * high.slope
    if root < 0:
        return middle
    gamma = float(np.copysign(np.sqrt(root), width))
    cubic = high.step - width * (high.slope + gamma - theta) / (high.slope - low.slope + 2 * gamma)
    near, far = sorted((low.step + 0.1 * width, high.step - 0.1 * width))
    return float(np.clip(cubic, near, far)) if np.isfinite(cubic) else middle
