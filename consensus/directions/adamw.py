"""AdamW: Adam with decoupled weight decay."""

from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus._arrays.rows import combined, rowwise
from consensus.directions.adam import Adam, AdamState
from consensus.problems import BaseProblem
from consensus.regularizers import L2


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
