"""States that several methods share."""

from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem
from consensus.problems.minibatches import draw
from consensus.solvers.base import Solver


class DualState(NamedTuple):
    """Iterates, and dual variables of the agents' disagreement, which add up to zero; both (agents, P)."""

    round: int
    w: np.ndarray
    dual: np.ndarray


class DualSolver(Solver):
    """A method with such a state: the dual variables begin with zero."""

    def init(self, problem: BaseProblem, w: np.ndarray) -> DualState:
        return DualState(0, w, np.zeros_like(w))


class TrackingState(NamedTuple):
    """Iterates, trackers y of the average of the gradients grad f_i, and the local gradients; all (agents, P)."""

    round: int
    w: np.ndarray
    y: np.ndarray
    gradient: np.ndarray


class TrackingSolver(Solver):
    """A method with such a state: the trackers begin with the local gradients."""

    def init(self, problem: BaseProblem, w: np.ndarray) -> TrackingState:
        gradient = _checks.problem(problem).average_gradient(w, draw(getattr(self, "batch", None), problem, 0))
        return TrackingState(0, w, gradient, gradient)
