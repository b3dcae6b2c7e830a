"""NEXT: in-network successive convex approximation."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus import _checks
from consensus.errors import LocalSolveError
from consensus.local import CVXPYSolver, Exact
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.steps import Rule, as_rule
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization

if TYPE_CHECKING:
    from consensus.engines.network import Network
    from consensus.solvers.sonata import SONATAState


class NEXTState(NamedTuple):
    """Iterates w, trackers y of the average gradient of the g_i, local gradients, and the last local minimisers."""

    round: int
    w: np.ndarray
    y: np.ndarray
    gradient: np.ndarray
    best: np.ndarray


@dataclass(frozen=True, init=False)
class NEXT(Solver):
    """In-network nonconvex optimisation: a convex problem per agent, a step, one exchange with neighbours.

    With A agents, mixing matrix C of round n, and y_i = grad g_i at the start,

        w~_i = argmin_w  g~_i(w; w_i) + (A y_i - grad g_i(w_i)) . (w - w_i) + r(w)
        z_i  = w_i + alpha[n] (w~_i - w_i)
        w_i <- sum_j c_ij z_j
        y_i <- sum_j c_ij y_j + grad g_i(w_i new) - grad g_i(w_i old) .

    Doubly stochastic C keep ``mean(y) = mean(grad g_i)`` at every round. With jointly connected graphs and a step that
    diminishes (or is small enough) every limit point is stationary for U and the agents agree.

    Parameters
    ----------
    surrogate : FullLinearization, PartialLinearization or Blocks
        g~_i.
    step : float or rule
        alpha, in (0, 1].
    local : Exact or CVXPYSolver, optional
        Solves the local problems.
    tolerance : float or callable
        How exactly: each agent's residual relative to that at w_i. A function of the step size, such as
        ``lambda alpha: 0.1 * alpha``, makes the solves sharper as alpha falls: with errors eps_i[n] the method converges if
        ``sum_n alpha[n] eps_i[n]`` is finite.

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016, Algorithm 1; Scardapane,
    Di Lorenzo, Neural Networks 91, 2017, Algorithm 1.

    Examples
    --------
    >>> from consensus.steps import Diminishing
    >>> from consensus.surrogates import PartialLinearization
    >>> NEXT(PartialLinearization(tau=1.0), Diminishing(0.5, 0.01)).alpha(0)
    0.5
    """

    surrogate: FullLinearization | PartialLinearization | Blocks
    alpha: Rule
    local: Exact | CVXPYSolver
    tolerance: float | Callable[[float], float]

    exchanges_a_round = 1
    sends = "w, y"

    def __init__(
        self,
        surrogate: FullLinearization | PartialLinearization | Blocks,
        step: float | Rule,
        local: Exact | CVXPYSolver | None = None,
        tolerance: float | Callable[[float], float] = 1e-8,
    ) -> None:
        _checks.offers("surrogate", surrogate, ("at", "check"), "one, such as PartialLinearization(tau=1.0)")
        local = Exact() if local is None else local
        _checks.offers("local", local, ("solve", "check"), "a local solver, such as consensus.local.Exact()")
        if not callable(tolerance):
            _checks.number("tolerance", tolerance, above=0, below=1)
        self._set(surrogate=surrogate, alpha=as_rule(step, most=1), local=local, tolerance=tolerance)
        self._set(needs=replace(self.needs, model=getattr(surrogate, "needs_model", False)))

    def check(self, problem: BaseProblem) -> None:
        self.local.check(self.surrogate, _checks.problem(problem))

    def prox(self, problem: BaseProblem) -> Callable[[np.ndarray, float], np.ndarray]:
        return self.local.prox(problem.regularizer) if hasattr(self.local, "prox") else super().prox(problem)

    def init(self, problem: BaseProblem, w: np.ndarray) -> NEXTState:
        gradient = _checks.problem(problem).gradient(w)
        return NEXTState(0, w, gradient, gradient, w)

    def step(self, problem: BaseProblem, network: "Network", state: NEXTState) -> NEXTState:
        n, w, y, gradient, _ = state
        best = self.minimise(problem, network, state)
        z = w + self.alpha(n) * (best - w)
        w, y = network.mix(n, z, y)
        new = problem.gradient(w)
        y += new - gradient
        return NEXTState(n + 1, w, y, new, best)

    def minimise(self, problem: BaseProblem, network: "Network", state: "NEXTState | SONATAState") -> np.ndarray:
        """The minimisers w~ (agents, P) of the local problems at ``state``."""
        tolerance = self.tolerance(self.alpha(state.round)) if callable(self.tolerance) else self.tolerance
        model = self.surrogate.at(problem, state.w, state.gradient)
        linear = network.agents * state.y - state.gradient
        try:
            best, iterations = self.local.solve(model, linear, problem.regularizer, state.best, tolerance)
        except LocalSolveError as error:
            raise LocalSolveError(f"round {state.round + 1}, {error}") from error
        problem.work.solves += 1
        problem.work.iterations += int(iterations.sum())
        return best
