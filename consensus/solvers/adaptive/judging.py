"""Judgement of a step by its promise: whether it is kept, and the next tau."""

from typing import NamedTuple

import numpy as np

from consensus.problems.base import BaseProblem
from consensus.regularizers.base import Regularizer
from consensus.solvers.adaptive.curvature import Curvature

FIRST, _LEAST, _MOST = 0.1, 1e-7, 1.0  # tau, in units of the curvature's scale
_REFUSALS = 4  # in a row
_COUNTS = 0.2  # curvature along the step, in units of what M has of it, from which on it counts


class Step(NamedTuple):
    """The last step of every agent.

    Attributes
    ----------
    w : ndarray (agents, P)
        Start of the step.
    slope : ndarray (agents, P)
        G at ``w``.
    trial : ndarray (agents, P)
        End of the step.
    fall : ndarray (agents,)
        F, the decrease of the linear part of the model along the step.
    tau : ndarray (agents,)
        Damping.
    refused : ndarray of int (agents,)
        Number of steps refused in a row.
    tries : ndarray of int (agents,)
        Number of local solves that the step took.
    """

    w: np.ndarray
    slope: np.ndarray
    trial: np.ndarray
    fall: np.ndarray
    tau: np.ndarray
    refused: np.ndarray
    tries: np.ndarray


class Verdict(NamedTuple):
    """Decision on a step, and the curvature measured along it.

    Attributes
    ----------
    refused : ndarray of bool (agents,)
        Whether the step is refused.
    agree : ndarray of bool (agents,)
        Whether p <= 1.
    factor : ndarray (agents,)
        Factor for tau.
    step : ndarray (agents, P, 1)
        s / |s|.
    change : ndarray (agents, P, 1)
        Change of the slope over |s|.
    counts : ndarray of bool (agents,)
        Whether the change counts as curvature.
    """

    refused: np.ndarray
    agree: np.ndarray
    factor: np.ndarray
    step: np.ndarray
    change: np.ndarray
    counts: np.ndarray


def judge(
    problem: BaseProblem,
    last: Step,
    w: np.ndarray,
    slope: np.ndarray,
    M: Curvature,
    scale: np.ndarray,
    weight: float,
    settled: np.ndarray,
) -> Verdict:
    """Compare the change of the average cost along ``s = w - w_old`` with what the model promised.

        actual = s . (G_old + G) / 2 + r(w) - r(w_old) ,     promised = s . G_old + 1/2 s'(M + lambda I) s + r(w) - r(w_old) ,
        p^2 = c'(M + tau I) c / fall ,                       c = w - x_old, what mixing made of the agent's own trial point.

    A ratio of both above 3/4 halves tau, one below 1/4 doubles it, and one below 0 refuses the step and makes tau four times as
    large. Where p > 1, agents disagree by more than their steps. As long as averages are rough, more mixing cures that, and tau
    stays as it is. Once they are ``settled``, trial points differ because the agents' M do, and tau grows.

    ``w`` and ``slope`` are the new estimates; M is that by which the step was found; curvatures above ``scale`` do not count;
    ``weight`` is lambda of a quadratic r, whose curvature M leaves out, else 0; ``settled`` (agents,) says where more exchanges
    would not help.
    """
    s, c, rise = w - last.w, w - last.trial, change_of(problem.regularizer, last.w, w)
    modelled = np.vecdot(s, M.times(s))
    actual = np.vecdot(s, last.slope + slope) / 2 + rise
    promised = np.vecdot(s, last.slope) + (modelled + weight * np.vecdot(s, s)) / 2 + rise
    falls = promised < 0
    ratio = np.where(falls, actual / np.where(falls, promised, 1), -1)
    refused = (ratio < 0) & falls & (last.refused < _REFUSALS)
    agree = np.vecdot(c, M.times(c)) + last.tau * np.vecdot(c, c) <= last.fall
    grows = agree | settled
    factor = np.select([(ratio < 0) & grows, (ratio < 0.25) & grows, ratio > 0.75], [4.0, 2.0, 0.5], 1.0)
    norm = np.maximum(np.linalg.norm(s, axis=1), np.finfo(s.dtype).tiny ** 0.5)
    change = slope - last.slope - weight * s
    along, square = np.vecdot(s, change), np.vecdot(change, change)
    counts = ~refused & (along > _COUNTS * modelled) & (along > 0) & (square < scale * along)
    return Verdict(refused, agree, factor, (s / norm[:, None])[:, :, None], (change / norm[:, None])[:, :, None], counts)


def change_of(r: Regularizer, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return r(new) - r(old) of points (agents, P); zero if r is quadratic (part of the costs) or not finite."""
    if r.quadratic:
        return np.zeros(len(old))
    before, after = r.value(old), r.value(new)  # estimates of means may lie outside of a set that all points lie in
    finite = np.isfinite(before) & np.isfinite(after)
    return np.where(finite, np.where(finite, after, 0) - np.where(finite, before, 0), 0)


def promise(r: Regularizer, w: np.ndarray, d: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return ``F = r(w) - r(w + d) - G . d`` (agents,), the decrease of r and the linear part of the local problem along d."""
    F: np.ndarray = -np.vecdot(slope, d) - change_of(r, w, w + d)
    return F


def limited(tau: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return tau between its least and its largest value, in units of the curvature's ``scale`` (agents,)."""
    between: np.ndarray = np.maximum(np.clip(tau, _LEAST * scale, _MOST * scale), np.finfo(float).tiny ** 0.5)
    return between
