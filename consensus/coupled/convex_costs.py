"""Convex costs of the agents' own variables, stated in CVXPY."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np

from consensus import _checks
from consensus._arrays.digest import digest
from consensus.coupled.costs import Costs, Rows
from consensus.errors import LocalSolveError

if TYPE_CHECKING:
    import cvxpy

Stated: TypeAlias = "cvxpy.Expression | tuple[cvxpy.Expression, Iterable[cvxpy.Constraint]]"
Cost: TypeAlias = "Callable[[cvxpy.Variable], Stated]"
_SHARP = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}  # a strongly convex minimiser has half the digits


class ConvexCosts(Costs):
    """Costs of the agents' own variables, each given by a function that states it in CVXPY.

    For :class:`consensus.problems.Coupled`. A compiled program is solved for every agent in every round, by Clarabel: quadratic
    costs in boxes are solved some hundred times faster as :class:`QuadraticCosts`.

    Parameters
    ----------
    functions : sequence of callable
        One for each agent: CVXPY variable x_i (n_i,) -> its convex cost, or the cost and a list of constraints. Costs should be
        strictly convex where the constraints allow, so that minimisers are unique.
    sizes : sequence of int
        Numbers n_i of variables.

    Raises
    ------
    TypeError, ValueError
        If a cost or a constraint is not convex by CVXPY's rules; the agent is named.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from consensus.problems import ConvexCosts
    >>> ConvexCosts([lambda x: -cp.sum(cp.log(x)), lambda x: (cp.sum_squares(x), [x >= 1])], sizes=[1, 2])
    ConvexCosts(2 agents)
    """

    def __init__(self, functions: Sequence[Cost], sizes: Sequence[int]) -> None:
        import cvxpy as cp

        if len(functions) != len(sizes) or not len(sizes):
            raise ValueError(f"there must be a function for each agent; got {len(functions)} for {len(sizes)} agents")
        self.functions = list(functions)
        self.sizes = np.array([_checks.count("each of sizes", size) for size in sizes])
        self._programs: dict[tuple[int, bool], _Program] = {}
        for agent, size in enumerate(self.sizes):
            cost, constraints = self._stated(agent, cp.Variable(int(size)))
            if not cost.is_convex():
                raise ValueError(f"the cost of agent {agent} is not convex by CVXPY's rules: {cost}")
            for constraint in constraints:
                if not constraint.is_dcp():
                    raise ValueError(f"a constraint of agent {agent} is not convex by CVXPY's rules: {constraint}")

    def __repr__(self) -> str:
        return f"ConvexCosts({len(self.sizes)} agents)"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_programs": {}}

    def _stated(self, agent: int, x: cvxpy.Expression) -> tuple[cvxpy.Expression, list[cvxpy.Constraint]]:
        import cvxpy as cp

        function = self.functions[agent]
        if not callable(function):
            raise TypeError(f"the cost of agent {agent} must be a function of a CVXPY variable; got {_checks.shown(function)}")
        found = function(x)
        cost, constraints = found if isinstance(found, tuple) else (found, [])
        if not isinstance(cost, cp.Expression) or not cost.is_scalar():
            raise TypeError(
                f"the cost of agent {agent} must be a scalar CVXPY expression, and maybe constraints; got {found!r}"
            )
        return cost, list(constraints)

    def restrict(self, rows: np.ndarray | slice) -> Self:
        block = object.__new__(type(self))
        kept = np.arange(len(self.sizes))[rows]
        block.functions, block.sizes, block._programs = [self.functions[agent] for agent in kept], self.sizes[rows], {}
        return block

    def with_slack(self, count: int) -> Self:
        wide = object.__new__(type(self))
        wide.functions = [partial(_slackened, self._stated, agent, int(n)) for agent, n in enumerate(self.sizes)]
        wide.sizes, wide._programs = self.sizes + count, {}
        return wide

    def value(self, x: Rows) -> np.ndarray:
        found = np.empty(len(x))
        for agent, point in enumerate(x):
            program = self._program(agent, False)
            program.x.value = point[: self.sizes[agent]]
            found[agent] = program.cost.value
        return found

    def minimise(self, slope: np.ndarray, root: np.ndarray | None, start: np.ndarray) -> np.ndarray:
        import cvxpy as cp

        x = np.zeros_like(start)
        for agent, n in enumerate(self.sizes):
            program = self._program(agent, root is not None, 0 if root is None else root.shape[1])
            program.slope.value = slope[agent, :n]
            if root is not None and program.root is not None:
                program.root.value = root[agent, :, :n]
            try:
                with warnings.catch_warnings():  # short of these tolerances it is still within Clarabel's own
                    warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
                    program.problem.solve(solver="CLARABEL", **_SHARP)
            except cp.error.SolverError as error:
                raise LocalSolveError(f"the local problem of agent {agent} was not solved: {error}") from error
            if program.x.value is None:
                raise LocalSolveError(
                    f"the local problem of agent {agent} is {program.problem.status}: check its cost and constraints"
                )
            x[agent, :n] = program.x.value
        return x

    def _program(self, agent: int, quadratic: bool, rows: int = 0) -> _Program:
        import cvxpy as cp

        if (agent, quadratic) not in self._programs:
            n = int(self.sizes[agent])
            x, slope = cp.Variable(n), cp.Parameter(n)
            root = cp.Parameter((rows, n)) if quadratic else None
            cost, constraints = self._stated(agent, x)
            whole = cost + slope @ x + (0 if root is None else cp.sum_squares(root @ x) / 2)
            self._programs[agent, quadratic] = _Program(cp.Problem(cp.Minimize(whole), constraints), x, slope, root, cost)
        return self._programs[agent, quadratic]

    def digests(self) -> list[str]:
        return [digest(function, int(size)) for function, size in zip(self.functions, self.sizes, strict=True)]


def _slackened(
    stated: Callable[..., tuple[cvxpy.Expression, list[cvxpy.Constraint]]], agent: int, n: int, x: cvxpy.Expression
) -> tuple[cvxpy.Expression, list[cvxpy.Constraint]]:
    cost, constraints = stated(agent, x[:n])
    return cost, [*constraints, x[n:] >= 0]


class _Program(NamedTuple):
    """A compiled program: its variable, the parameters, and the expression of f_i."""

    problem: cvxpy.Problem
    x: cvxpy.Variable
    slope: cvxpy.Parameter
    root: cvxpy.Parameter | None
    cost: cvxpy.Expression
