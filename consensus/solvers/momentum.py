"""The base class of methods of descent with momentum."""

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
    """Descent on the local costs with momenta of the agents, zero at first."""

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
