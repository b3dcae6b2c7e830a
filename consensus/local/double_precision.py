"""Ill-conditioned local problems: in double precision, and without differences that cancel."""

import numpy as np

from consensus.local import forward_backward_envelope
from consensus.local.subproblem import Subproblem
from consensus.local.subproblem_block import SubproblemBlock, has_prox_jvp
from consensus.local.systems import System

_MISSED = 1e-6  # part of the possible decrease that single precision may miss
_CANCELLED = 1e-4  # relative error from which on the dual of a proximal problem is not worth trying


def ill_conditioned(sub: Subproblem) -> np.ndarray:
    """Return which agents' subproblems (agents,) are too ill-conditioned to try as they are.

    Let c be the largest curvature and k the least. Where the residual is nothing but rounding, the objective may still be above
    its least value by the residual's square times c / k, relative to the decrease that was possible. A dual solution has errors
    of c / k times rounding.
    """
    rounding, ratio = np.finfo(sub.w.dtype).eps, sub.bound / sub.strong_convexity
    dual = not sub.regularizer.quadratic and has_prox_jvp(sub.regularizer)
    return np.asarray((np.square(10 * rounding) * ratio > _MISSED) | (dual & (rounding * ratio > _CANCELLED)))


def minimise(
    part: SubproblemBlock,
    rows: np.ndarray,
    begin: np.ndarray,
    left: np.ndarray,
    kind: type[System],
    tolerance: float,
    most: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise the subproblems of the agents ``rows`` again, from ``begin`` (agents, P), with remaining residuals ``left``.

    In double precision; then, if r is not quadratic, one by one by :mod:`consensus.local.forward_backward_envelope`.
    Arguments and result otherwise as for :meth:`consensus.local.subproblem_block.SubproblemBlock.minimise`.
    """
    x, iterations, left = begin.astype(np.float64), np.zeros(len(rows), int), left.astype(np.float64)
    if begin.dtype != np.float64:
        sub = part.subproblem(rows, dtype=np.float64).bounded()
        tried = ~ill_conditioned(sub)
        if tried.any():
            found, count, rest = part.minimise(sub, rows, kind, x, tolerance, most)
            x, iterations, left = np.where(tried[:, None], found, x), np.where(tried, count, 0), np.where(tried, rest, left)
    if not part.regularizer.quadratic and has_prox_jvp(part.regularizer):
        for agent in np.flatnonzero(left > 0):
            own, one = rows[agent : agent + 1], slice(agent, agent + 1)
            alone = part.subproblem(own, dtype=np.float64).bounded()
            x[one], count, left[one] = part.minimise(
                alone, own, kind, x[one], tolerance, most, forward_backward_envelope.solve_proximal
            )
            iterations[one] += count
    if begin.dtype != np.float64:  # rounding to single precision may undo the last of the decrease
        rounded = x.astype(begin.dtype)
        x = np.where(falls(sub, begin, rounded)[:, None], rounded, begin)
    return x, iterations, left


def falls(sub: Subproblem, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return whether (agents,) the objective at ``new`` is below that at ``old``."""
    return _value(sub, new) < _value(sub, old)


def _value(sub: Subproblem, x: np.ndarray) -> np.ndarray:
    return sub.value(x, sub.operator.jvp(x - sub.w))
