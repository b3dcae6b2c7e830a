"""The subproblems of all agents over one block of coordinates."""

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from consensus.local.accelerated import accelerated
from consensus.local.newton import Proximal, newton
from consensus.local.operators import Dense, Operator, jacobian
from consensus.local.semismooth import solve_proximal
from consensus.local.subproblem import Subproblem
from consensus.local.systems import System
from consensus.models.linearization import linearize
from consensus.regularizers.base import Regularizer
from consensus.surrogates.partial import LinearizedModel

_KEPT_NUMBERS = 1 << 25  # in factors that a linear model's agents keep from round to round


class SubproblemBlock(NamedTuple):
    """The subproblems of all agents over one ``block`` of coordinates; r is that of the block.

    ``dense`` says whether the block's columns of J are formed; ``total`` (agents, P) is the gradient of everything smooth at
    w_i.
    """

    model: LinearizedModel
    regularizer: Regularizer
    block: slice
    dense: bool
    total: np.ndarray

    def subproblem(
        self, rows: slice | np.ndarray, linearized: tuple[np.ndarray, Operator] | None = None, dtype: DTypeLike | None = None
    ) -> Subproblem:
        """Make the subproblems of the agents ``rows``, a slice or indices, by a linearization or a new one."""
        model, problem = self.model, self.model.problem
        dtype = problem.dtype if dtype is None else dtype

        def of(array: np.ndarray) -> np.ndarray:
            return array.astype(dtype, copy=False)

        def of_features(array: np.ndarray) -> np.ndarray:
            return array if array.dtype.kind == "i" else of(array)

        if linearized is None:
            linearized = linearize(problem.model, of(model.w[rows]), of_features(problem.shards.features[rows]))
        outputs, operator = linearized
        if self.dense:
            columns = None if self.block == slice(None) else np.arange(problem.parameters)[self.block]
            operator = Dense(jacobian(operator, columns), outputs.shape[2])
        targets = of(problem.shards.targets[rows])
        return Subproblem(
            operator=operator,
            loss=problem.loss,
            outputs=outputs,
            targets=targets,
            weights=of(model.scale * problem.weights[rows]),
            slopes=problem.loss.gradient(outputs, targets),
            w=of(model.w[rows][:, self.block]),
            linear=of(self.total[rows][:, self.block]),
            tau=model.tau,
            regularizer=self.regularizer,
        )

    def minimise(
        self,
        sub: Subproblem,
        rows: slice | np.ndarray,
        kind: type[System],
        x: np.ndarray,
        tolerance: float,
        most: int,
        proximal: Proximal = solve_proximal,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Minimise subproblems from x; return the minimisers, iterations and remaining residuals.

        Arguments and result as for :func:`newton`; ``kind`` of linear systems, for a quadratic r.
        """
        if not (sub.regularizer.quadratic or has_prox_jvp(sub.regularizer)):
            return accelerated(sub, x, tolerance, 100 * most)
        system = self.system(sub, rows, kind) if sub.regularizer.quadratic else None
        return newton(sub, system, x, tolerance, most, proximal)

    def keeps(self, kind: type[System]) -> bool:
        """Return whether systems of a kind are kept with the problem: those of linear models never change."""
        problem = self.model.problem
        n, columns = problem.weights.shape[1] * problem.model.outputs, self.total[:, self.block].shape[1]
        fixed = getattr(problem.model, "jacobian_is_constant", False)
        return fixed and problem.agents * kind.numbers(n, columns) <= _KEPT_NUMBERS

    def system(self, sub: Subproblem, rows: slice | np.ndarray, kind: type[System]) -> System:
        """Make the linear system for the Jacobian, or return the kept one."""
        problem, once = self.model.problem, sub.loss.quadratic
        constant = once and getattr(problem.model, "jacobian_is_constant", False)
        if not self.keeps(kind):
            return kind(sub.operator, once, constant)
        which = (rows.start, rows.stop) if isinstance(rows, slice) else tuple(rows.tolist())
        key = (kind, which, sub.w.dtype, self.block.start, self.block.stop, self.model.scale, sub.strong_convexity)
        return problem.cache.get(key, lambda: kind(sub.operator, once, constant))


def has_prox_jvp(regularizer: Regularizer) -> bool:
    """Return whether the regularizer has the derivative of its prox, for Newton's method."""
    return getattr(type(regularizer), "prox_jvp", Regularizer.prox_jvp) is not Regularizer.prox_jvp
