"""What methods of descent with momentum share: their settings and their state."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import as_minibatches
from consensus.solvers.base import Solver, repr_of_given
from consensus.step_sizes import Rule, as_rule


class MomentumState(NamedTuple):
    """Iterates w, momenta m, both (agents, P)."""

    round: int
    w: np.ndarray
    m: np.ndarray


@dataclass(frozen=True, init=False)
class MomentumMethod(Solver):
    """Descent on the local costs that agents' momenta, zero at first, carry on.

    Parameters
    ----------
    step_size : float or rule
        alpha > 0.
    batch : int or Minibatches, optional
        Gradients from so many samples of each agent in every round, instead of all.
    momentum : float
        beta, in [0, 1).
    """

    step_size: Rule
    batch: Minibatches | None
    momentum: float

    exchanges_a_round = 1
    sends = "w"

    __repr__ = repr_of_given

    def __init__(self, step_size: float | Rule, batch: int | Minibatches | None = None, momentum: float = 0.9) -> None:
        momentum = _checks.number("momentum", momentum, least=0, below=1)
        self._set(step_size=as_rule(step_size), batch=as_minibatches(batch), momentum=momentum)

    def init(self, problem: BaseProblem, w: np.ndarray) -> MomentumState:
        return MomentumState(0, w, np.zeros_like(w))
