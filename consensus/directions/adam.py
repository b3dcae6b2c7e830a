"""Adam, and AdamW with decoupled weight decay."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np

from consensus import _checks
from consensus._arrays.rows import combined, rowwise
from consensus.directions.base import Direction
from consensus.problems import BaseProblem
from consensus.regularizers import L2


class AdamState(NamedTuple):
    """Number of steps; means m of the gradients and v of their squares, both (agents, P)."""

    steps: int
    m: np.ndarray
    v: np.ndarray


@dataclass(frozen=True)
class Adam(Direction):
    """Step along a mean of the past gradients G over the root of a mean of their squares, coordinate by coordinate.

    With M_0 = V_0 = 0, in step t = 1, 2, ...

        M+ = beta_1 M + (1 - beta_1) G ,    V+ = beta_2 V + (1 - beta_2) G^2 ,

        d = (M+ / (1 - beta_1^t)) / ((V+ / (1 - beta_2^t))^(1/2) + eps) ,

    the rule of ``torch.optim.Adam``; its ``weight_decay`` is :class:`consensus.L2`. GTAdam, ``GradientTracking(alpha,
    order="cta", direction=Adam(saturation=1e6))``, bounds V and corrects no bias:

        V+ = min(beta_2 V + (1 - beta_2) G^2, saturation) ,    d = M+ / (V+ + eps)^(1/2) .

    Parameters
    ----------
    betas : (float, float)
        Weights beta_1 and beta_2 of the past, in [0, 1).
    eps : float
        Added to the root, or with a saturation under it; > 0.
    saturation : float, optional
        Largest entry of V, > 0, in the form of GTAdam.

    References
    ----------
    Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, Algorithm 1; Carnevale, Farina, Notarnicola,
    Notarstefano, "GTAdam: gradient tracking with adaptive momentum for distributed online optimization", IEEE Transactions on
    Control of Network Systems, 2023, with a saturation.

    Examples
    --------
    >>> from consensus.directions import Adam
    >>> from consensus.solvers import GradientTracking
    >>> GradientTracking(0.001, direction=Adam()).direction
    Adam(betas=(0.9, 0.999), eps=1e-08, saturation=None)
    """

    scale_free = True

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = field(default=1e-8, metadata={"above": 0})
    saturation: float | None = field(default=None, metadata={"above": 0})

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "betas", as_betas(self.betas, type(self).__name__))

    def init(self, problem: BaseProblem, w: np.ndarray) -> AdamState:
        return AdamState(0, np.zeros_like(w), np.zeros_like(w))

    def step(self, problem: BaseProblem, state: AdamState, gradient: np.ndarray, w: np.ndarray) -> tuple[AdamState, np.ndarray]:
        one, two = self.betas
        steps, m = state.steps + 1, combined(one, state.m, 1 - one, gradient)
        v = rowwise(functools.partial(_mean, two, self.saturation), state.v, gradient)
        if self.saturation is not None:
            return AdamState(steps, m, v), rowwise(functools.partial(_over_root, 1.0, 0.0, self.eps), m, v)
        scale = 1 - one**steps
        factor = scale / math.sqrt(1 - two**steps)
        return AdamState(steps, m, v), rowwise(functools.partial(_over_root, factor, self.eps * scale, 0.0), m, v)


def _mean(weight: float, most: float | None, v: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return ``weight v + (1 - weight) g^2``, at most ``most``."""
    squares = g * g
    squares *= 1 - weight
    squares += weight * v
    return squares if most is None else cast(np.ndarray, np.minimum(squares, most, out=squares))


def _over_root(factor: float, after: float, inside: float, m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return ``m / (factor (v + inside)^(1/2) + after)``."""
    root = np.sqrt(v + inside) if inside else np.sqrt(v)
    root *= factor
    root += after
    return cast(np.ndarray, np.divide(m, root, out=root))


def as_betas(value: object, who: str) -> tuple[float, float]:
    """Return the weights beta_1 and beta_2 of the past as a setting; raise ``ValueError`` if they are not two in [0, 1)."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise ValueError(f"betas of {who} must be two numbers, such as (0.9, 0.999); got {_checks.shown(value)}")
    one, two = (_checks.number(f"betas[{place}] of {who}", beta, least=0, below=1) for place, beta in enumerate(value))
    return one, two


@dataclass(frozen=True)
class AdamW(Adam):
    """:class:`Adam` with decoupled weight decay: ``d = Adam's d + weight_decay W``, the rule of ``torch.optim.AdamW``.

    In :class:`consensus.solvers.DGD` and :class:`consensus.solvers.SGP` it is decentralised AdamW, each agent with its own
    means.

    Parameters
    ----------
    betas : (float, float)
        Weights beta_1 and beta_2 of the past, in [0, 1).
    eps : float
        Added to the root, or with a saturation under it; > 0.
    saturation : float, optional
        Largest entry of V, > 0, in the form of GTAdam.
    weight_decay : float or L2
        Decay of all parameters, at least 0; or an :class:`consensus.L2` with a weight for each parameter, whose gradient takes
        the place of ``weight_decay W``: see :meth:`consensus.L2.by_name`.

    References
    ----------
    Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019, Algorithm 2.

    Examples
    --------
    No decay on biases:

    >>> import consensus
    >>> from consensus.directions import AdamW
    >>> decay = consensus.L2.by_name(consensus.MLP([4, 3, 1]), lambda name, shape: 0.01 if len(shape) > 1 else 0.0)
    >>> solver = consensus.solvers.DGD(0.001, batch=32, direction=AdamW(weight_decay=decay))
    """

    weight_decay: float | L2 = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "weight_decay", as_decay(self.weight_decay, type(self).__name__))

    def check(self, problem: BaseProblem) -> None:
        check_decay(self.weight_decay, problem, type(self).__name__)

    def step(self, problem: BaseProblem, state: AdamState, gradient: np.ndarray, w: np.ndarray) -> tuple[AdamState, np.ndarray]:
        state, d = super().step(problem, state, gradient, w)
        return state, decayed(d, self.weight_decay, w)


def as_decay(value: object, who: str) -> float | L2:
    """Return a weight decay as a setting: a number >= 0, or an ``L2`` as it is; raise ``ValueError`` otherwise."""
    return value if isinstance(value, L2) else _checks.number(f"weight_decay of {who}", value, least=0)


def check_decay(decay: float | L2, problem: BaseProblem, who: str) -> None:
    """Raise ``ValueError`` if the weights of an ``L2`` are not as many as the parameters of ``problem``."""
    weights = None if isinstance(decay, float) else decay.squares
    if weights is not None and len(weights) != problem.parameters:
        raise ValueError(f"weight_decay of {who} has {len(weights)} weights, and the problem {problem.parameters} parameters")


def decayed(d: np.ndarray, decay: float | L2, w: np.ndarray) -> np.ndarray:
    """Return ``d + decay w``."""
    if isinstance(decay, float):
        return combined(1.0, d, decay, w, over=d) if decay else d
    return rowwise(lambda d, w: d + decay.gradient(w), d, w, over=d)
