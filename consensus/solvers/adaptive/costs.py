"""The agents' local costs, to which a quadratic regularizer belongs."""

from typing import NamedTuple

import numpy as np

from consensus.problems import Linearizable
from consensus.problems.base import BaseProblem


class Costs(NamedTuple):
    """A cost of every agent, shape (agents,), and a gradient (agents, P): the local ones, or trackers of the network's."""

    cost: np.ndarray
    gradient: np.ndarray


def costs(problem: BaseProblem, w: np.ndarray) -> Costs:
    """The local costs and their gradients at w (agents, P), with an agent's share of a quadratic r."""
    weight, share = quadratic_weight(problem), quadratic_weight(problem) / problem.network_size
    cost = problem.value(w)
    if weight:
        cost = cost + share / 2 * np.vecdot(w, w)
    return Costs(cost, gradient(problem, w))


def gradient(problem: BaseProblem, w: np.ndarray) -> np.ndarray:
    """The gradients (agents, P) of these costs alone."""
    weight, share = quadratic_weight(problem), quadratic_weight(problem) / problem.network_size
    local = problem.gradient(w)
    return local + share * w if weight else local


def quadratic_weight(problem: BaseProblem | Linearizable) -> float:
    """The weight of a quadratic r in the costs: zero where r is another, and stays out of them."""
    r = problem.regularizer
    return r.strong_convexity if r.quadratic else 0.0


def track(tracked: Costs, new: Costs, old: Costs) -> Costs:
    """What becomes of trackers, ``tracked`` as mixing has left them, when the local costs change from ``old`` to ``new``."""
    return Costs(*(x + y - z for x, y, z in zip(tracked, new, old, strict=True)))
