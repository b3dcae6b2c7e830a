"""The distributed projected subgradient method."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at


class SubgradientState(NamedTuple):
    """Iterates ``w`` (agents, P), where steps begin, ``x``, and the sum of the steps; ``w`` is ``x``, or its running mean."""

    round: int
    w: np.ndarray
    x: np.ndarray
    steps: float


@dataclass(frozen=True)
class Subgradient(Solver):
    """Average with the neighbours, step along a subgradient of the own cost, project on the own set.

    For convex costs that need not be smooth, and sets that may differ by agent, ``regularizer=[...]`` of a problem. With W
    doubly stochastic, G stacking subgradients of ``A g_i``, and P_i the projection on the set of agent i,

        V = W X,    x_i+ = P_i( v_i - alpha_k g_i(v_i) ) .

    Of a regularizer that is no set it takes ``prox_{alpha_k r}`` for P_i. A problem's ``gradient`` is to return a subgradient
    where the cost has no gradient.

    Parameters
    ----------
    step_size : float or rule
        Step alpha_k > 0. With ``sum alpha_k`` infinite and ``sum alpha_k^2`` finite, as of
        :class:`consensus.step_sizes.Diminishing`, the agents come to one minimiser, on graphs that change, too, if all have one
        set. For sets that differ the paper proves it on complete graphs with equal weights; on others it is observed. With
        :class:`consensus.step_sizes.InverseSqrt` the cost of running averages is within O(log k / sqrt k) of the optimum; a
        constant step ends near it, at a distance of its order.
    average : bool
        Whether w, which results and histories are of, is the running average ``sum_k alpha_k x_{k+1} / sum_k alpha_k`` instead
        of x. Each agent computes it for itself.
    batch : int or Minibatches, optional
        Number of samples of each agent in every round, instead of all.

    References
    ----------
    Nedic, Ozdaglar, Parrilo, "Constrained consensus and optimization in multi-agent networks", IEEE TAC 55(4), 2010, section
    IV; Nedic, Ozdaglar, "Distributed subgradient methods for multi-agent optimization", IEEE TAC 54(1), 2009, without sets.

    Examples
    --------
    The sum of distances from five numbers is least at their median, 2; one agent admits 2.5 or more alone:

    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import Subgradient
    >>> from consensus.step_sizes import InverseSqrt
    >>> centres = np.array([[0.0], [1.0], [2.0], [5.0], [9.0]])
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: abs(w - centres)[:, 0], lambda w: np.sign(w - centres), agents=5, parameters=1,
    ...     regularizer=[None, consensus.Box(2.5, np.inf), None, None, None])
    >>> result = consensus.solve(problem, topologies.ring(5), Subgradient(InverseSqrt(0.05)), rounds=2000, record_every=2000)
    >>> result.w[:, 0].round(3).tolist()
    [2.5, 2.5, 2.5, 2.517, 2.517]
    """

    step_size: float | Rule
    average: bool = False
    batch: int | Minibatches | None = None

    needs = Needs(regularizer="prox", convex=True, own_regularizers=True)
    exchanges_a_round = 1
    sends = "w"

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.flag("average", self.average)

    def init(self, problem: BaseProblem, w: np.ndarray) -> SubgradientState:
        return SubgradientState(0, w, w, 0.0)

    def step(self, problem: BaseProblem, network: Network, state: SubgradientState) -> SubgradientState:
        n, w, x, steps = state
        alpha = value_at(self.step_size, n)
        (v,) = network.mix(n, x)
        slope = problem.network_size * problem.gradient(v, draw(self.batch, problem, n))
        x = problem.regularizer.prox(v - alpha * slope, alpha)
        steps += alpha
        return SubgradientState(n + 1, w + (alpha / steps) * (x - w) if self.average else x, x, steps)
