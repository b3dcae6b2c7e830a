"""The linearisation of the model inside the loss."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem, Problem
from consensus.problems.linearizable import Linearizable, check_convex
from consensus.surrogates.base import Surrogate


class LinearizedModel(NamedTuple):
    """Convex models ``g~_i`` for a block of agents: see :class:`PartialLinearization`.

    Attributes
    ----------
    problem : Linearizable
        The problem with the data.
    w : ndarray (agents, P)
        Centres w_i.
    gradient : ndarray (agents, P)
        Gradients of the costs at the centres.
    scale : float
        Factor s of the data term.
    tau : float
        Proximal weight.
    """

    problem: Linearizable
    w: np.ndarray
    gradient: np.ndarray
    scale: float
    tau: float


@dataclass(frozen=True)
class PartialLinearization(Surrogate):
    """The cost with the model f linearised inside the loss.

    With J_m the Jacobian of f(., x_m) at w_i,

        D_i(v)       = c sum_m l(d_m, f_m + J_m v)
        g~_i(w; w_i) = s D_i(w - w_i) - (s - 1) grad D_i(0) . (w - w_i) + tau/2 |w - w_i|^2 ,

    convex because l is, with gradient grad g_i(w_i) at w_i for every s.

    Parameters
    ----------
    tau : float
        Proximal weight, at least 0; above 0 unless the regularizer is an L2 with weight above 0.
    curvature : {"network", "local"}
        With ``local`` s = 1, the surrogate of [1]_. With ``network`` s = A, as in [2]_: an agent's curvature then stands for
        that of the whole network, and steps are on the scale of U.

    References
    ----------
    .. [1] Scardapane, Di Lorenzo, Neural Networks 91, 2017, section 4 (partial linearization).
    .. [2] Sun, Scutari, Daneshmand, "Distributed optimization based on gradient tracking revisited", SIAM J. Optim.
       32(2), 2022, section 2.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.local import Exact
    >>> from consensus.surrogates import PartialLinearization
    >>> shards = consensus.partition([[1.0], [2.0], [3.0]], [2.0, 4.0, 6.0], agents=1)
    >>> problem = consensus.Problem(consensus.Linear(1, bias=False), consensus.SquaredLoss(), shards)
    >>> w = np.array([[7.0]])
    >>> model = PartialLinearization(tau=1e-9).at(problem, w, problem.gradient(w))
    >>> Exact().solve(model, np.zeros((1, 1)), consensus.L2(0.0)).w.round(6).tolist()  # of a linear model the minimiser
    [[2.0]]
    """

    tau: float
    curvature: Literal["network", "local"] = "network"

    needs_model: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", _checks.number("tau", self.tau, least=0))
        _checks.choice("curvature", self.curvature, ("local", "network"))

    def check(self, problem: BaseProblem) -> None:
        if not isinstance(problem, Problem):
            raise TypeError(
                f"PartialLinearization needs a model to linearise, and {problem} has none: use FullLinearization(tau)"
            )
        check_convex("PartialLinearization", problem.loss)
        r = problem.regularizer
        if not hasattr(r, "quadratic"):
            raise TypeError(
                f"PartialLinearization needs {type(r).__name__}.quadratic, which is missing: set it to False, "
                "or derive the class from consensus.regularizers.base.Regularizer"
            )
        if self.tau + (r.strong_convexity if r.quadratic else 0) == 0:
            raise ValueError(f"tau must be > 0 with {r}, or the local problem need not be strongly convex; got {self.tau}")

    def at(self, problem: Problem, w: np.ndarray, gradient: np.ndarray) -> LinearizedModel:
        scale = float(problem.network_size) if self.curvature == "network" else 1.0
        w, gradient = _checks.floats("w", w, problem.dtype), _checks.floats("gradient", gradient, problem.dtype)
        return LinearizedModel(problem, w, gradient, scale, self.tau)
