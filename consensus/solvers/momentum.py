"""What methods of descent with momentum share: their settings and their state."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem, Minibatches
from consensus.solvers.base import Solver
from consensus.step_sizes import Rule


class MomentumState(NamedTuple):
    """Iterates w, momenta m, both (agents, P)."""

    round: int
    w: np.ndarray
    m: np.ndarray


@dataclass(frozen=True)
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

    step_size: float | Rule
    batch: int | Minibatches | None = None
    momentum: float = 0.9

    exchanges_a_round = 1
    sends = "w"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "momentum", _checks.number("momentum", self.momentum, least=0, below=1))

    def init(self, problem: BaseProblem, w: np.ndarray) -> MomentumState:
        return MomentumState(0, w, np.zeros_like(w))
