"""AccumAdam: Adam whose moments take the mean gradients of several steps."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from consensus.directions.adam import as_betas, as_decay, check_decay, decayed
from consensus.directions.base import Direction
from consensus.problems import BaseProblem
from consensus.regularizers import L2


class AccumAdamState(NamedTuple):
    """Number of steps; the means m and v, and the sum b of the gradients of the window so far over its length (agents, P)."""

    steps: int
    m: np.ndarray
    v: np.ndarray
    b: np.ndarray


@dataclass(frozen=True)
class AccumAdam(Direction):
    """Adam that steps in every round, and whose moments take the mean gradient of ``window`` rounds: less noise in them.

    With M = V = B = 0 at first, in step t, with the number ``k = ceil(t / window)`` of its window,

        d = (beta_1 M + (1 - beta_1) G) / (1 - beta_1^k) / (((beta_2 V + (1 - beta_2) G^2) / (1 - beta_2^k))^(1/2) + eps) ,
        B+ = B + G / window ,

    plus weight_decay W; and at the end of a window

        M+ = beta_1 M + (1 - beta_1) B ,     V+ = beta_2 V + (1 - beta_2) B^2 ,     B+ = 0 .

    With a window of one it is :class:`AdamW`. Agents with small batches have noisy squares, which a window makes those of a
    batch that is as many times larger: ``DGD(step_size, batch, direction=AccumAdam(window=4))`` is the paper's method, over
    :class:`topologies.AlternatingExponentialRing`.

    Parameters
    ----------
    betas : (float, float)
        Weights beta_1 and beta_2 of the past, in [0, 1).
    eps : float
        Added to the root, > 0.
    window : int
        Steps whose gradients the moments take together.
    weight_decay : float or L2
        As in :class:`AdamW`, at least 0.

    References
    ----------
    Wang, Zhang, Wu, Johansson, "From promise to practice: realizing high-performance decentralized training", ICLR 2025,
    appendix C, with eps outside the root.

    Examples
    --------
    >>> from consensus.directions import AccumAdam
    >>> from consensus.solvers import DGD
    >>> DGD(0.001, batch=8, direction=AccumAdam(window=4)).direction
    AccumAdam(betas=(0.9, 0.999), eps=1e-08, window=4, weight_decay=0.0)
    """

    scale_free = True

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = field(default=1e-8, metadata={"above": 0})
    window: int = field(default=4, metadata={"count": 1})
    weight_decay: float | L2 = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "betas", as_betas(self.betas, type(self).__name__))
        object.__setattr__(self, "weight_decay", as_decay(self.weight_decay, type(self).__name__))

    def check(self, problem: BaseProblem) -> None:
        check_decay(self.weight_decay, problem, type(self).__name__)

    def init(self, problem: BaseProblem, w: np.ndarray) -> AccumAdamState:
        return AccumAdamState(0, np.zeros_like(w), np.zeros_like(w), np.zeros_like(w))

    def step(
        self, problem: BaseProblem, state: AccumAdamState, gradient: np.ndarray, w: np.ndarray
    ) -> tuple[AccumAdamState, np.ndarray]:
        steps, m, v, b = state
        k = steps // self.window + 1
        one, two = self.betas

        def blended(mean: np.ndarray, square: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return one * mean + (1 - one) * new, two * square + (1 - two) * new**2

        mean, square = blended(m, v, gradient)
        d = mean / (1 - one**k) / (np.sqrt(square / (1 - two**k)) + self.eps)
        b = b + gradient / self.window
        if (steps + 1) % self.window == 0:
            m, v = blended(m, v, b)
            b = np.zeros_like(b)
        return AccumAdamState(steps + 1, m, v, b), decayed(d, self.weight_decay, w)
