"""Momentum: a sum of past gradients."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from consensus._arrays.rows import combined
from consensus.directions.base import Direction
from consensus.problems import BaseProblem


class MomentumState(NamedTuple):
    """Buffers m (agents, P)."""

    m: np.ndarray


@dataclass(frozen=True)
class Momentum(Direction):
    """Step along a sum of the past gradients G: ``M+ = mu M + G``, ``d = M+``, M_0 = 0; with Nesterov's ``d = G + mu M+``.

    It is the rule of ``torch.optim.SGD(momentum=, nesterov=)``: near the end a step alpha acts as alpha / (1 - mu) does without
    momentum.

    Parameters
    ----------
    momentum : float
        Weight mu of the past, in [0, 1).
    nesterov : bool
        Whether d is Nesterov's.

    References
    ----------
    Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep learning", ICML 2013.

    Examples
    --------
    >>> from consensus.directions import Momentum
    >>> from consensus.solvers import DGD
    >>> DGD(0.1, batch=32, direction=Momentum(nesterov=True)).direction
    Momentum(momentum=0.9, nesterov=True)
    """

    momentum: float = field(default=0.9, metadata={"least": 0, "below": 1})
    nesterov: bool = False

    def init(self, problem: BaseProblem, w: np.ndarray) -> MomentumState:
        return MomentumState(np.zeros_like(w))

    def step(
        self, problem: BaseProblem, state: MomentumState, gradient: np.ndarray, w: np.ndarray
    ) -> tuple[MomentumState, np.ndarray]:
        m = combined(self.momentum, state.m, 1.0, gradient)
        return MomentumState(m), combined(1.0, gradient, self.momentum, m) if self.nesterov else m
