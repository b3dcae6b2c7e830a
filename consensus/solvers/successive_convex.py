"""The local step of successive convex approximation, which NEXT and SONATA share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from consensus import _checks
from consensus.errors import LocalSolveError
from consensus.local import Exact, LocalSolver
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.steps import Rule, as_rule
from consensus.surrogates import Surrogate
from consensus.surrogates.base import SurrogateModel

if TYPE_CHECKING:
    from consensus.engines.network import Network
    from consensus.solvers.next import NEXTState
    from consensus.solvers.sonata import SONATAState


@dataclass(frozen=True, init=False)
class SuccessiveConvex(Solver):
    """``w~_i = argmin_w  g~_i(w; w_i) + (A y_i - grad g_i(w_i)) . (w - w_i) + r(w)``; settings as of :class:`NEXT`."""

    surrogate: Surrogate
    alpha: Rule
    local: LocalSolver
    tolerance: float | Callable[[float], float]

    def __init__(
        self,
        surrogate: Surrogate,
        step: float | Rule,
        local: LocalSolver | None = None,
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

    def minimise(self, problem: BaseProblem, network: "Network", state: "NEXTState | SONATAState") -> np.ndarray:
        """The minimisers w~ (agents, P) of the local problems at ``state``."""
        tolerance = self.tolerance(self.alpha(state.round)) if callable(self.tolerance) else self.tolerance
        model = self.surrogate.at(problem, state.w, state.gradient)
        linear = network.agents * state.y - state.gradient
        return minimise(self.local, problem, model, linear, state.best, tolerance, state.round)


def minimise(
    local: LocalSolver,
    problem: BaseProblem,
    model: SurrogateModel,
    linear: np.ndarray,
    start: np.ndarray,
    tolerance: float,
    round: int,
) -> np.ndarray:
    """The minimisers (agents, P) of ``model + linear . (w - w_i) + r`` by ``local``, counted; an error names the round."""
    try:
        best, iterations = local.solve(model, linear, problem.regularizer, start, tolerance)
    except LocalSolveError as error:
        raise LocalSolveError(f"round {round + 1}, {error}") from error
    problem.work.solves += 1
    problem.work.iterations += int(iterations.sum())
    return best
