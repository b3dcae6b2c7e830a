"""Solve the local problems to a stated accuracy, by the method that fits them."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from consensus import _checks
from consensus._parallel import CHUNK_BYTES, for_chunks, threads
from consensus.errors import UnfinishedWarning
from consensus.local import double_precision
from consensus.local.base import LocalSolution
from consensus.local.costs import estimates, forms_jacobian
from consensus.local.operators import Operator, chosen
from consensus.local.subproblem import Subproblem
from consensus.local.subproblem_block import SubproblemBlock, has_prox_jvp
from consensus.local.systems import SYSTEMS
from consensus.problems import BaseProblem, Linearizable
from consensus.regularizers import Regularizer
from consensus.surrogates import Surrogate
from consensus.surrogates.blocks import BlockModel, Blocks
from consensus.surrogates.full import FullLinearization, ProximalModel
from consensus.surrogates.partial import LinearizedModel
from topologies import _names


@dataclass(frozen=True)
class Exact:
    """Solves every agent's local problem, ``argmin_w g~_i(w; w_i) + linear_i' (w - w_i) + r(w)``, to an accuracy.

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

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.local import Exact
    >>> from consensus.solvers import NEXT
    >>> from consensus.surrogates import PartialLinearization
    >>> parts = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(parts.X, parts.y, agents=4, seed=0)
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    >>> solver = NEXT(PartialLinearization(tau=0.1), 0.2, local=Exact(linear="dual"))
    >>> result = consensus.solve(problem, topologies.ring(4), solver, rounds=100)
    >>> bool(result.history["stationarity"][-1] < 1e-3)
    True
    """

    linear: Literal["auto", "primal", "dual", "iterative"] = "auto"
    iterations: int = 100

    def __post_init__(self) -> None:
        _checks.choice("linear", self.linear, ("auto", *SYSTEMS))
        _checks.count("iterations", self.iterations)

    def check(self, surrogate: Surrogate, problem: BaseProblem) -> None:
        """Raise ``ValueError`` or ``TypeError`` if this solver cannot minimise ``surrogate`` plus r.

        Parameters
        ----------
        surrogate : Surrogate
            The surrogate.
        problem : BaseProblem
            The problem.
        """
        surrogate.check(problem)
        inner = surrogate.surrogate if isinstance(surrogate, Blocks) else surrogate
        split, model = inner is not surrogate, getattr(problem, "model", None)
        if model is None or isinstance(inner, FullLinearization):
            return
        needed = "jacobian" if split else {"primal": "jacobian", "dual": "gram"}.get(self.linear)
        if needed and not hasattr(model, needed):
            who, instead = (surrogate, "the surrogate unsplit") if split else (f"Exact(linear={self.linear!r})", "'auto'")
            raise TypeError(f"{who} needs {type(model).__name__}.{needed}, which is missing: use {instead}")

    def solve(
        self,
        model: ProximalModel | LinearizedModel | BlockModel[ProximalModel | LinearizedModel],
        linear: np.ndarray,
        regularizer: Regularizer,
        start: np.ndarray | None = None,
        tolerance: float = 1e-8,
    ) -> LocalSolution:
        """Minimise for every agent of a block.

        Parameters
        ----------
        model : ProximalModel, LinearizedModel or BlockModel
            From ``surrogate.at(problem, w, gradient)``.
        linear : ndarray (agents, P)
            The linear terms pi_i, which stand for the other agents' costs.
        regularizer : Regularizer
            The regularizer r.
        start : ndarray (agents, P), optional
            Where iterations begin, if that is better than w_i.
        tolerance : float
            An agent is done when its residual (``Subproblem.residual``) is at most this part of that at w_i.

        Returns
        -------
        LocalSolution
            A row is NaN where its problem is no longer finite.
        """
        start = None if start is None else _checks.floats("start", start, model.w.dtype)
        slices, inner = (model.slices, model.model) if isinstance(model, BlockModel) else ((slice(None),), model)
        regularizers = regularizer.split(slices) if len(slices) > 1 else [regularizer]
        total = _checks.floats("linear", linear, model.w.dtype) + inner.gradient  # of everything smooth but r, at w_i
        solution = np.empty_like(model.w)
        iterations = np.zeros((len(slices), len(model.w)), int)
        if isinstance(inner, ProximalModel):
            for block, r in zip(slices, regularizers, strict=True):
                solution[:, block] = r.prox(model.w[:, block] - total[:, block] / inner.tau, 1 / inner.tau)
            return LocalSolution(solution, iterations.sum(axis=0))

        problem, split = inner.problem, len(slices) > 1
        dense = split or forms_jacobian(problem)
        costs = estimates(problem, regularizer, -(-problem.parameters // len(slices)), dense)
        method = min(costs, key=lambda name: costs[name].operations) if self.linear == "auto" else self.linear
        left = np.zeros((len(slices), len(model.w)), problem.dtype)
        parts = [SubproblemBlock(inner, r, block, dense, total) for r, block in zip(regularizers, slices, strict=True)]

        def chunk(rows: slice, blocks: Iterable[int] = range(len(slices))) -> None:
            linearized = problem.linearize(inner.w, rows)
            for number in blocks:
                where = rows, slices[number]
                warm = None if start is None else start[where]
                found = self._minimise(parts[number], rows, linearized, method, warm, tolerance)
                solution[where], iterations[number, rows], left[number, rows] = found

        def unit(rows: slice) -> None:
            for index in range(rows.start, rows.stop):
                agent, number = divmod(index, len(slices))
                chunk(slice(agent, agent + 1), (number,))

        cost = costs.get(method, costs["iterative"])  # no estimate: the way that was asked for is not used, or is too large
        size, operations, streamed = cost.of_agent(problem.dtype)
        if split and problem.agents < threads():  # fewer agents than cores: spread their blocks
            for_chunks(unit, problem.agents * len(slices), max(size, CHUNK_BYTES), operations)
        else:
            for_chunks(chunk, problem.agents, size, operations, streamed)
        _note(problem, left.max(axis=0), inner.tau)
        return LocalSolution(solution, iterations.sum(axis=0))

    def _minimise(
        self,
        part: SubproblemBlock,
        rows: slice,
        linearized: tuple[np.ndarray, Operator],
        method: str,
        warm: np.ndarray | None,
        tolerance: float,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Minimise the subproblems of ``rows``; return the minimisers, iterations and remaining residuals.

        Ill-conditioned and unfinished subproblems are solved again: see :mod:`consensus.local.double_precision`.
        """
        sub, kind, most = part.subproblem(rows, linearized), SYSTEMS[method], self.iterations
        single, proximal = sub.w.dtype != np.float64, has_prox_jvp(part.regularizer) and not part.regularizer.quadratic
        if single or not part.regularizer.quadratic:
            sub = sub.bounded()
        direct = part.regularizer.quadratic and sub.loss.quadratic and method != "iterative"  # from anywhere alike
        x = sub.w if warm is None or direct else _better(sub, warm)
        if not (single or proximal):
            return part.minimise(sub, rows, kind, x, tolerance, most)
        ill_conditioned = double_precision.ill_conditioned(sub)
        found, iterations, left = x, np.zeros(len(x), int), np.ones(len(x), x.dtype)
        if not ill_conditioned.all():
            found, iterations, left = part.minimise(sub, rows, kind, x, tolerance, most)
            found, iterations, left = (
                chosen(ill_conditioned, x, found),
                np.where(ill_conditioned, 0, iterations),
                np.where(ill_conditioned, 1, left),
            )
        (again,) = np.nonzero((left > 0) | (single & np.isnan(left)))
        if len(again):
            begin = np.where(np.isfinite(found).all(axis=1)[:, None], found, x)[again]
            more = double_precision.minimise(part, rows.start + again, begin, left[again], kind, tolerance, most)
            found, (found[again], count, left[again]) = found.copy(), more
            iterations[again] += count
        return found, iterations, left


def _note(problem: Linearizable, left: np.ndarray, tau: float) -> None:
    """Count unfinished solves; warn of the worst, once a run."""
    left = np.nan_to_num(left)  # what is not finite is a matter of divergence
    unfinished = int(np.count_nonzero(left))
    if unfinished and not problem.work.unfinished:
        worst = int(np.argmax(left))
        agent = _names.agent(problem.rows[worst], problem.labels)
        warnings.warn(
            f"the local problem of {agent} was not solved to the accuracy asked for: {left[worst]:.1g} of "
            f"its residual is left. Take a larger tau (now {tau:g}), features of standard deviation one, float64 data, "
            "Exact(iterations=...) or a larger tolerance; the history's column 'unfinished' counts such solves",
            UnfinishedWarning,
            stacklevel=2,
        )
    problem.work.unfinished += unfinished


def _better(sub: Subproblem, start: np.ndarray) -> np.ndarray:
    """Return, for every agent, ``start`` or w, whichever has the smaller objective."""
    better = sub.value(start, sub.operator.jvp(start - sub.w)) < sub.value(sub.w, np.zeros_like(sub.outputs))
    return chosen(better, start, sub.w)
