"""The local step of successive convex approximation, which NEXT and SONATA share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.errors import LocalSolveError
from consensus.local import Exact, LocalSolver
from consensus.problems import BaseProblem, Minibatches, Problem
from consensus.problems.minibatches import draw
from consensus.solvers.base import Solver
from consensus.step_sizes import InverseSqrt, Rule, checked, value_at
from consensus.surrogates import Surrogate
from consensus.surrogates.base import SurrogateDefaults, SurrogateModel


class TrackerState(Protocol):
    """The fields that the states of NEXT and SONATA share."""

    @property
    def round(self) -> int: ...
    @property
    def w(self) -> np.ndarray: ...
    @property
    def y(self) -> np.ndarray: ...
    @property
    def gradient(self) -> np.ndarray: ...
    @property
    def best(self) -> np.ndarray: ...


@dataclass(frozen=True)
class SuccessiveConvex(Solver):
    """``w~_i = argmin_w  g~_i(w; w_i) + (A y_i - grad g_i(w_i)) . (w - w_i) + r(w)``; settings as of :class:`NEXT`."""

    surrogate: Surrogate
    step_size: float | Rule
    local: LocalSolver | None = None
    tolerance: float | Callable[[float], float] = 1e-8
    batch: int | Minibatches | None = None
    averaging: float | Rule | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.offers("surrogate", self.surrogate, ("at", "check"), "one, such as PartialLinearization(tau=1.0)")
        checked(self.step_size, most=1)
        _checks.offers("local", self._solver, ("solve", "check"), "a local solver, such as consensus.local.Exact()")
        if not callable(self.tolerance):
            _checks.number("tolerance", self.tolerance, above=0, below=1)
        averaging = checked(self.averaging, "averaging", most=1, optional=True)
        if averaging is not None and self.batch is None:
            raise ValueError(f"averaging is of gradients from batches: give batch=, or leave averaging={averaging} out")
        object.__setattr__(self, "averaging", averaging)
        linearised = _checks.completed(self.surrogate, SurrogateDefaults).needs_model
        object.__setattr__(self, "needs", replace(self.needs, model=linearised, exact=linearised))

    @property
    def _solver(self) -> LocalSolver:
        return Exact() if self.local is None else self.local

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        if self.batch is not None and problem.sampled is None:
            raise TypeError(f"batches of surrogates need a consensus.Problem, and {problem} is none: leave batch out")
        self._solver.check(self.surrogate, problem)

    def prox(self, problem: BaseProblem) -> Callable[[np.ndarray, float], np.ndarray]:
        return self._solver.prox(problem.regularizer) if hasattr(self._solver, "prox") else super().prox(problem)

    def minimise(self, problem: BaseProblem, network: Network, state: TrackerState) -> np.ndarray:
        """Return the minimisers w~ (agents, P) of the local problems at ``state``."""
        tolerance = self.tolerance(value_at(self.step_size, state.round)) if callable(self.tolerance) else self.tolerance
        batch = draw(self.batch, problem, state.round)
        seen = problem if batch is None else cast(Problem, problem).sampled(batch)
        model = self.surrogate.at(seen, state.w, state.gradient)
        linear = network.agents * state.y - state.gradient
        return solve_counted(self._solver, problem, model, linear, state.best, tolerance, state.round)

    def averaged(self, problem: BaseProblem, before: np.ndarray, new: np.ndarray, round: int) -> np.ndarray:
        """Return the estimates of the gradients in ``round``: the ``new`` ones, or running averages of batches' gradients."""
        batch = draw(self.batch, problem, round)
        if batch is None:
            return new
        some = (batch.weights > 1).any(axis=1, keepdims=True)  # not all samples of the agent
        averaging = InverseSqrt(1.0) if self.averaging is None else self.averaging
        rho = np.where(some, value_at(averaging, round), 1.0).astype(new.dtype)
        return cast(np.ndarray, (1 - rho) * before + rho * new)


def solve_counted(
    local: LocalSolver,
    problem: BaseProblem,
    model: SurrogateModel,
    linear: np.ndarray,
    start: np.ndarray,
    tolerance: float,
    round: int,
) -> np.ndarray:
    """Return the minimisers (agents, P) of ``model + linear . (w - w_i) + r`` by ``local``, and count the work."""
    try:
        best, iterations = local.solve(model, linear, problem.regularizer, start, tolerance)
    except LocalSolveError as error:
        raise LocalSolveError(f"round {round + 1}, {error}") from error
    problem.work.solves += 1
    problem.work.iterations += int(iterations.sum())
    return best
