"""The linearisation of the whole cost."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem
from consensus.surrogates.base import Surrogate


class ProximalModel(NamedTuple):
    """Models ``g~_i(w) = grad_i . (w - w_i) + tau/2 |w - w_i|^2``, up to constants, for a block of agents.

    Attributes
    ----------
    problem : BaseProblem
        The problem.
    w : ndarray (agents, P)
        Centres w_i.
    gradient : ndarray (agents, P)
        Gradients of the costs at the centres.
    tau : float
        Proximal weight.
    """

    problem: BaseProblem
    w: np.ndarray
    gradient: np.ndarray
    tau: float


@dataclass(frozen=True)
class FullLinearization(Surrogate):
    """The cost linearised at w_i, plus a proximal term.

        g~_i(w; w_i) = g_i(w_i) + grad g_i(w_i) . (w - w_i) + tau/2 |w - w_i|^2 .

    The local problem with a regularizer r is one proximal step, ``prox_{r/tau}(w_i - A y_i / tau)``. Every problem is
    suitable, problems given by functions included.

    Parameters
    ----------
    tau : float
        Proximal weight, above 0, in units of the cost over squared parameters.

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016, section III; Scardapane,
    Di Lorenzo, Neural Networks 91, 2017, section 4 (full linearization).

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.local import Exact
    >>> from consensus.surrogates import FullLinearization
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=1, parameters=1)
    >>> w = np.array([[3.0]])
    >>> model = FullLinearization(tau=4.0).at(problem, w, problem.gradient(w))
    >>> Exact().solve(model, np.zeros((1, 1)), consensus.L2(0.0)).w.tolist()  # 3 - 6 / 4
    [[1.5]]
    """

    tau: float

    needs_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", _checks.number("tau", self.tau, above=0))

    def check(self, problem: BaseProblem) -> None:
        pass  # every problem is suitable

    def at(self, problem: BaseProblem, w: np.ndarray, gradient: np.ndarray) -> ProximalModel:
        dtype = problem.dtype
        return ProximalModel(problem, _checks.floats("w", w, dtype), _checks.floats("gradient", gradient, dtype), self.tau)
