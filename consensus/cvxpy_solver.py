"""State the local problems in CVXPY: slow, but it takes constraints and any convex regularizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus import _checks
from consensus.errors import LocalSolveError
from consensus.local.base import LocalSolution
from consensus.local.operators import jacobian
from consensus.models.linearization import LinearizationDefaults
from consensus.problems import BaseProblem
from consensus.regularizers import Regularizer
from consensus.surrogates import Surrogate
from consensus.surrogates.linearizations import BlockModel, Blocks, FullLinearization, LinearizedModel, ProximalModel
from topologies import _names

if TYPE_CHECKING:
    import cvxpy

_PARAMETRISED = 10_000_000


class _Stated(NamedTuple):
    """A parametrised problem: its variable, its linear term q, and f and J of a linearised model."""

    problem: cvxpy.Problem
    w: cvxpy.Variable
    q: cvxpy.Parameter
    linearised: tuple[cvxpy.Parameter, cvxpy.Parameter] | None


@dataclass(frozen=True)
class CVXPYSolver:
    """Solves every agent's local problem by CVXPY, with constraints w in K if wanted.

    One parametrised problem an agent is compiled at its first round and solved again with new values in the others (large
    problems, beyond some hundred parameters and samples, are compiled anew).

    Parameters
    ----------
    constraints : callable, optional
        CVXPY variable w (P,) -> list of convex constraints, the same for all agents: ``lambda w: [cp.sum(w) == 1]``.
    solver : str, optional
        A solver installed with CVXPY, such as ``"CLARABEL"`` (the default), ``"OSQP"`` or ``"SCS"``.
    options : dict, or (str, value) pairs
        Passed to it, for example ``{"tol_gap_rel": 1e-12}``. Kept as a tuple of pairs.

    References
    ----------
    Diamond, Boyd, "CVXPY: a Python-embedded modeling language for convex optimization", JMLR 17(83), 2016; Agrawal et al.,
    "Differentiable convex optimization layers", NeurIPS 2019, for parametrised programs.

    Examples
    --------
    >>> import cvxpy as cp, numpy as np, consensus, topologies
    >>> from consensus.local import CVXPYSolver
    >>> from consensus.surrogates import FullLinearization
    >>> centres = np.array([[4.0, 0.0], [0.0, 2.0], [2.0, 1.0]])
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=3, parameters=2)
    >>> on_a_line = CVXPYSolver(constraints=lambda w: [cp.sum(w) == 2])
    >>> solver = consensus.solvers.NEXT(FullLinearization(tau=6.0), 0.5, local=on_a_line)
    >>> result = consensus.solve(problem, topologies.complete(3), solver, rounds=30)
    >>> result.mean.round(3).tolist()  # (2, 1) projected on w_0 + w_1 = 2
    [1.5, 0.5]
    """

    constraints: Callable[[cvxpy.Variable], Iterable[cvxpy.Constraint]] | None = None
    solver: str = "CLARABEL"
    options: Mapping[str, object] | Iterable[tuple[str, object]] = ()

    def __post_init__(self) -> None:
        import cvxpy as cp

        if not isinstance(self.solver, str) or self.solver not in cp.installed_solvers():
            known = ", ".join(cp.installed_solvers())
            raise ValueError(f"solver must be one that CVXPY has, {known}; got {_checks.shown(self.solver)}")
        if self.constraints is not None and not callable(self.constraints):
            raise TypeError(f"constraints must be a function of the variable w, returning a list; got {self.constraints!r}")
        try:
            options = tuple(dict(self.options).items())
        except (TypeError, ValueError) as error:
            raise TypeError(f"options must be a mapping of names to values; got {_checks.shown(self.options)}") from error
        object.__setattr__(self, "options", options)

    def check(self, surrogate: Surrogate, problem: BaseProblem) -> None:
        """Raise ``ValueError`` or ``TypeError`` if the local problems cannot be stated, or are not convex programs.

        Parameters
        ----------
        surrogate : Surrogate
            The surrogate.
        problem : BaseProblem
            The problem.
        """
        import cvxpy as cp

        surrogate.check(problem)
        r = problem.regularizer
        inner = surrogate.surrogate if isinstance(surrogate, Blocks) else surrogate
        if isinstance(surrogate, Blocks) and surrogate.count > 1 and self.constraints is not None:
            raise ValueError(f"the constraints of CVXPYSolver couple the blocks of {surrogate}: use {inner} unsplit")
        needed: list[tuple[object, str]] = [(r, "expression"), (r, "constraints")]
        needed += [] if isinstance(inner, FullLinearization) else [(problem.model, "jacobian")]
        for part, name in needed:
            if not getattr(part, name, None):
                raise TypeError(f"CVXPYSolver needs {type(part).__name__}.{name}, which is missing: use Exact()")
        w = cp.Variable(problem.parameters)
        if not r.expression(w).is_convex():
            raise ValueError(f"{r} has no convex CVXPY expression")
        for number, constraint in enumerate(self._stated(w)):
            if not constraint.is_dcp():
                raise ValueError(f"constraint {number} is not convex by CVXPY's rules: {constraint}")

    def _stated(self, w: cvxpy.Variable) -> list[cvxpy.Constraint]:
        return [] if self.constraints is None else list(self.constraints(w))

    def solve(
        self,
        model: ProximalModel | LinearizedModel | BlockModel[ProximalModel | LinearizedModel],
        linear: np.ndarray,
        regularizer: Regularizer,
        start: np.ndarray | None = None,
        tolerance: float | None = None,
    ) -> LocalSolution:
        """Minimise for every agent of a block.

        Parameters
        ----------
        model : ProximalModel, LinearizedModel or BlockModel
            Return value of ``surrogate.at(problem, w, gradient)``.
        linear : ndarray (agents, P)
            The linear terms pi_i.
        regularizer : Regularizer
            The regularizer r.
        start : ndarray, optional
            Not used.
        tolerance : float, optional
            Not used: the CVXPY solver has its own ``options``.

        Returns
        -------
        LocalSolution
            The minimisers; one iteration for each agent.

        Raises
        ------
        LocalSolveError
            If a problem is infeasible, unbounded or not solved; it names the agent.
        """
        slices, inner = (model.slices, model.model) if isinstance(model, BlockModel) else ((slice(None),), model)
        parts = regularizer.split(slices) if len(slices) > 1 else [regularizer]
        total = linear + inner.gradient
        solution = np.empty_like(model.w)
        for agent in range(len(model.w)):
            for block, part in zip(slices, parts, strict=True):
                solution[agent, block] = self._one(inner, total, part, agent, block)
        return LocalSolution(solution, np.ones(len(model.w), int))

    def prox(self, regularizer: Regularizer) -> Callable[[np.ndarray, float], np.ndarray]:
        """Return the prox of r and the constraints together.

        Parameters
        ----------
        regularizer : Regularizer
            The regularizer r.

        Returns
        -------
        callable
            ``(v (P,), step) -> w``.
        """
        _checks.regularizer(regularizer)
        if self.constraints is None:
            return regularizer.prox
        import cvxpy as cp

        def prox(v: np.ndarray, step: float) -> np.ndarray:
            w = cp.Variable(len(v))
            distance = cp.sum_squares(w - v) / (2 * step)
            stated = cp.Problem(
                cp.Minimize(regularizer.expression(w) + distance), [*regularizer.constraints(w), *self._stated(w)]
            )
            stated.solve(solver=self.solver, **dict(self.options))
            return np.full_like(v, np.nan) if w.value is None else w.value.astype(v.dtype)

        return prox

    def _one(
        self, model: ProximalModel | LinearizedModel, total: np.ndarray, regularizer: Regularizer, agent: int, block: slice
    ) -> np.ndarray:
        import cvxpy as cp

        problem = model.problem
        key = (self, agent, block.start, block.stop, model.tau, getattr(model, "scale", None), type(model))
        statements: list[tuple[Regularizer, _Stated]] = problem.cache.get(key, list)  # regularizers need not be hashable
        found = next((one for known, one in statements if known == regularizer), None)
        if found is None:
            found = self._stated_problem(model, regularizer, agent, block)
            statements.append((regularizer, found))
        stated, w, q, linearised = found
        q.value = total[agent, block] - model.tau * model.w[agent, block]
        size = 0
        if linearised and isinstance(model, LinearizedModel):
            f, J = linearised
            size = J.size * w.size
            outputs, linearization = model.problem.linearize(model.w, slice(agent, agent + 1))
            J.value = jacobian(_checks.completed(linearization, LinearizationDefaults), np.arange(problem.parameters)[block])[0]
            f.value = outputs.ravel() - J.value @ model.w[agent, block]
            weights = model.scale * model.problem.weights[agent]
            slopes = model.problem.loss.gradient(outputs[0], model.problem.shards.targets[agent]) * weights[:, None]
            q.value -= slopes.ravel() @ J.value
        try:
            # CVXPY's parametrised form is dense in parameters times variables: beyond some size state the values anew.
            stated.solve(solver=self.solver, ignore_dpp=size > _PARAMETRISED, **dict(self.options))
        except cp.SolverError as error:
            raise LocalSolveError(
                f"{_names.agent(problem.rows[agent], problem.labels)}: {self.solver} failed: {error}"
            ) from error
        if stated.status not in ("optimal", "optimal_inaccurate"):
            raise LocalSolveError(
                f"{_names.agent(problem.rows[agent], problem.labels)}: its local problem is {stated.status} by {self.solver}; "
                "check the constraints against the regularizer"
            )
        return np.asarray(w.value)

    def _stated_problem(
        self, model: ProximalModel | LinearizedModel, regularizer: Regularizer, agent: int, block: slice
    ) -> _Stated:
        """State the parametrised problem; an agent's targets and weights, which never change, are constants."""
        import cvxpy as cp

        problem = model.problem
        columns = len(np.arange(problem.parameters)[block])
        w, q = cp.Variable(columns), cp.Parameter(columns)
        cost = q @ w + model.tau / 2 * cp.sum_squares(w) + regularizer.expression(w)
        linearised = None
        if isinstance(model, LinearizedModel):
            shards, loss, outputs = model.problem.shards, model.problem.loss, model.problem.model.outputs
            samples = shards.features.shape[1]
            linearised = f, J = cp.Parameter(samples * outputs), cp.Parameter((samples * outputs, columns))
            predicted = cp.reshape(f + J @ w, (samples, outputs), order="C")
            cost = cost + loss.expression(predicted, shards.targets[agent], model.scale * model.problem.weights[agent])
        constraints = [*regularizer.constraints(w), *self._stated(w)]
        return _Stated(cp.Problem(cp.Minimize(cost), constraints), w, q, linearised)
