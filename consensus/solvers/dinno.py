"""DiNNO: ADMM whose local problems are solved by a few gradient steps."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.bounds import steepest
from consensus.solvers.needs import Needs
from consensus.steps import Rule, optional_rule
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from consensus.engines.network import Network


class DiNNOState(NamedTuple):
    """Iterates w and the dual variables of the agents' disagreement, both (agents, P)."""

    round: int
    w: np.ndarray
    dual: np.ndarray


@dataclass(frozen=True, init=False)
class DiNNO(Solver):
    """Distributed neural network optimisation: decentralised ADMM, each local problem left after a few gradient steps.

    On the average form ``f_i = A g_i + r`` with G(X) the stacked gradients, W the mixing matrix, U before the first round zero:

        U <- U + c (I - W) X
        V <- V - alpha (G(V) + U + 2 c (V - (X + W X) / 2))          local_steps times, from V = X
        X <- V

    An edge has the penalty c w_ij where the paper gives all edges the same, and the agent's own weight is an edge to itself,
    which the paper does not have: it adds ``c w_ii |v - x_i|^2`` to the local problem. Gradients are of all samples, and steps
    plain, so that the agents' limit is the optimum; the paper also takes Adam on batches, and a growing c. It needs a static
    symmetric W and a smooth r; its theory, of local problems solved to the end, has convex f_i. Linear convergence if they are
    strongly so.

    Parameters
    ----------
    step : float or rule, optional
        alpha > 0, below 2 / (L + 2 c) for the local steps to descend, L the largest Lipschitz constant of the grad f_i. By
        default 1 / (2 L).
    local_steps : int
        Gradient steps in a round.
    penalty : float, optional
        c > 0; by default 1 / (4 alpha), which is L/2 with the default step.

    References
    ----------
    Yu, Vincent, Schwager, "DiNNO: distributed neural network optimization for multi-robot collaborative learning", IEEE RA-L
    7(2), 2022, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import DiNNO
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), DiNNO(step=0.05), rounds=200).mean.round(9)
    array([2.])
    """

    alpha: Rule
    local_steps: int
    penalty: float | None

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"

    def __init__(self, step: float | Rule | None = None, local_steps: int = 5, penalty: float | None = None) -> None:
        penalty = _checks.optional_number("penalty", penalty, above=0)
        self._set(alpha=optional_rule(step), local_steps=_checks.count("local_steps", local_steps), penalty=penalty)

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        L = steepest(problem, network)
        return 1 / (2 * L) if self.penalty is None else 1 / (L + 2 * self.penalty)

    def init(self, problem: BaseProblem, w: np.ndarray) -> DiNNOState:
        return DiNNOState(0, w, np.zeros_like(w))

    def step(self, problem: BaseProblem, network: "Network", state: DiNNOState) -> DiNNOState:
        n, w, dual = state
        alpha = float(self.alpha(n))
        c = 1 / (4 * alpha) if self.penalty is None else self.penalty
        (mixed,) = network.mix(n, w)
        dual = dual + c * (w - mixed)
        constant = dual - c * (w + mixed)
        for _ in range(self.local_steps):
            w = w - alpha * (problem.average_gradient(w) + 2 * c * w + constant)
        return DiNNOState(n + 1, w, dual)
