"""The base class of methods of descent with momentum."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

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
    """Descent on the local costs with momenta of the agents, zero at first."""

    step_size: float | Rule
    batch: int | Minibatches | None = None
    momentum: float = field(default=0.9, metadata={"least": 0, "below": 1})

    exchanges_a_round = 1
    sends = "w"

    def init(self, problem: BaseProblem, w: np.ndarray) -> MomentumState:
        return MomentumState(0, w, np.zeros_like(w))
