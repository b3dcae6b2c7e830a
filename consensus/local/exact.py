"""Solve the local problems to a stated accuracy, by the method that fits them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus._parallel import CHUNK_BYTES, for_chunks, threads
from consensus.local.accelerated import accelerated
from consensus.local.linear import SYSTEMS, estimates
from consensus.local.newton import newton
from consensus.local.operators import Dense
from consensus.local.subproblem import Subproblem
from consensus.regularizers.base import Regularizer
from consensus.surrogates.blocks import BlockModel, Blocks
from consensus.surrogates.full import FullLinearization, ProximalModel

_KEPT_NUMBERS = 1 << 25  # in factors that a linear model's agents keep from round to round


class LocalSolution(NamedTuple):
    """The minimisers ``w`` (agents, P), and each agent's inner ``iterations`` (agents,): zero for a closed form."""

    w: np.ndarray
    iterations: np.ndarray


@dataclass(frozen=True)
class Exact:
    """Solves every agent's local problem, ``argmin_w g~_i(w; w_i) + linear_i . (w - w_i) + r(w)``, to an accuracy.

    - full linearization: one prox, in closed form;
    - partial linearization, squared loss, quadratic r (L2): one linear system;
    - partial linearization, any loss and r: Newton's method, proximal where r is not quadratic; accelerated proximal gradient
      where r offers nothing but its prox.

    Each agent stops on its own residual, so that results do not depend on how agents are spread over processes.

    Parameters
    ----------
    linear : {"auto", "primal", "dual", "iterative"}
        How linear systems are solved where r is quadratic: a factorization of order P, one of order n (samples times outputs),
        or preconditioned conjugate gradients. ``auto`` takes the one that should be fastest.
    iterations : int
        Outer iterations at most; what is then reached is returned.
    """

    linear: str = "auto"
    iterations: int = 100

    def __post_init__(self):
        _checks.choice("linear", self.linear, ("auto", *SYSTEMS))
        _checks.count("iterations", self.iterations)

    def check(self, surrogate, problem):
        """Raise ``ValueError`` or ``TypeError`` if this solver cannot minimise ``surrogate`` plus r for ``problem``."""
        surrogate.check(problem)
        split = isinstance(surrogate, Blocks)
        model = getattr(problem, "model", None)
        if model is None or isinstance(surrogate.surrogate if split else surrogate, FullLinearization):
            return
        needed = "jacobian" if split else {"primal": "jacobian", "dual": "gram"}.get(self.linear)
        if needed and not hasattr(model, needed):
            who, instead = (surrogate, "the surrogate unsplit") if split else (f"Exact(linear={self.linear!r})", "'auto'")
            raise TypeError(f"{who} needs {type(model).__name__}.{needed}, which is missing: use {instead}")

    def solve(self, model, linear, regularizer, start=None, tolerance=1e-8):
        """Minimise for every agent of a block.

        Parameters
        ----------
        model : ProximalModel, LinearizedModel or BlockModel
            From ``surrogate.at(problem, w, gradient)``.
        linear : ndarray (agents, P)
            pi_i, the linear term that stands for the other agents' costs.
        regularizer : Regularizer
            r.
        start : ndarray (agents, P), optional
            Where iterations begin, if that is better than w_i.
        tolerance : float
            An agent is done when its residual (:meth:`Subproblem.residual`) is at most this part of that at w_i.

        Returns
        -------
        LocalSolution
            A row is NaN where its problem is no longer finite.
        """
        slices, inner = (model.slices, model.model) if isinstance(model, BlockModel) else ((slice(None),), model)
        parts = regularizer.split(slices) if len(slices) > 1 else [regularizer]
        total = linear + inner.gradient  # of everything smooth but r, at w_i
        solution = np.empty_like(model.w)
        iterations = np.zeros((len(slices), len(model.w)), int)
        if isinstance(inner, ProximalModel):
            for block, part in zip(slices, parts, strict=True):
                solution[:, block] = part.prox(model.w[:, block] - total[:, block] / inner.tau, 1 / inner.tau)
            return LocalSolution(solution, iterations.sum(axis=0))

        problem, split = inner.problem, len(slices) > 1
        costs = estimates(problem, regularizer, -(-problem.parameters // len(slices)), split)
        method = min(costs, key=lambda name: costs[name].operations) if self.linear == "auto" else self.linear

        def chunk(rows, blocks=range(len(slices))):  # noqa: B008 (known by now)
            outputs, linearization = problem.linearize(inner.w, rows)
            for number in blocks:
                where = rows, slices[number]
                sub = _subproblem(inner, where, outputs, linearization, total, parts[number], split)
                warm = None if start is None else start[where]
                solution[where], iterations[number, rows] = self._minimise(sub, inner, where, method, warm, tolerance)

        def unit(rows):
            for index in range(rows.start, rows.stop):
                agent, number = divmod(index, len(slices))
                chunk(slice(agent, agent + 1), (number,))

        cost = costs.get(method, costs["iterative"])  # no estimate: the way that was asked for is not used, or is too large
        size = cost.numbers * problem.dtype.itemsize
        if split and problem.agents < threads():  # fewer agents than cores: spread their blocks
            for_chunks(unit, problem.agents * len(slices), max(size, CHUNK_BYTES), cost.operations)
        else:
            for_chunks(chunk, problem.agents, size, cost.operations)
        return LocalSolution(solution, iterations.sum(axis=0))

    def _minimise(self, sub, model, where, method, warm, tolerance):
        """Minimise subproblems by what fits the loss and the regularizer; return the minimisers and iterations."""
        quadratic = sub.regularizer.quadratic
        direct = quadratic and sub.loss.quadratic and method != "iterative"  # one step from anywhere is exact
        x = sub.w if warm is None or direct else _better(sub, warm)
        if not (quadratic or _has_prox_jvp(sub.regularizer)):
            return accelerated(sub, x, tolerance, 100 * self.iterations)
        system = _system(sub, model, where, SYSTEMS[method]) if quadratic else None
        return newton(sub, system, x, tolerance, self.iterations)


def _subproblem(model, where, outputs, linearization, total, regularizer, split):
    """The local problems of agents over a block of coordinates, ``where`` = (rows, block)."""
    problem, (rows, block) = model.problem, where
    operator = linearization
    if split:
        columns = np.arange(problem.parameters)[block]
        operator = Dense(linearization.jacobian(columns), outputs.shape[2])
    targets = problem.shards.targets[rows]
    return Subproblem(
        operator=operator,
        loss=problem.loss,
        outputs=outputs,
        targets=targets,
        weights=model.scale * problem.weights[rows],
        slopes=problem.loss.gradient(outputs, targets),
        w=model.w[where],
        linear=total[where],
        tau=model.tau,
        regularizer=regularizer,
    )


def _better(sub, start):
    """Of ``start`` and w the one with the smaller objective, for every agent."""
    better = sub.value(start, sub.operator.jvp(start - sub.w)) < sub.value(sub.w, np.zeros_like(sub.outputs))
    return np.where(better[:, None], start, sub.w)


def _system(sub, model, where, kind):
    """A linear system for the Jacobian; a linear model's, which never changes, is kept with the problem."""
    problem = model.problem
    if not getattr(problem.model, "jacobian_is_constant", False):
        return kind(sub.operator)
    rows, block = where
    key = (kind, rows.start, rows.stop, block.start, block.stop, model.scale, sub.strong_convexity)
    if key not in problem.memory:
        system = kind(sub.operator)
        if problem.agents * system.numbers > _KEPT_NUMBERS:
            return system
        problem.memory[key] = system
    return problem.memory[key]


def _has_prox_jvp(regularizer):
    return getattr(type(regularizer), "prox_jvp", Regularizer.prox_jvp) is not Regularizer.prox_jvp
