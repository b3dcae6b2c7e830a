"""Local problems solved to a tolerance, in double precision where single is not enough, and Newton directions."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from consensus import _checks
from consensus._arrays.parallel import CHUNK_BYTES, for_chunks, threads
from consensus.errors import UnfinishedWarning
from consensus.local.base import LocalSolution
from consensus.local.envelope import accelerated, solve_by_envelope
from consensus.local.newton import SubproblemBlock, has_prox_jvp
from consensus.local.operators import Dense, chosen
from consensus.local.semismooth import solve_proximal
from consensus.local.subproblem import Subproblem
from consensus.local.systems import SYSTEMS, Primal, System, estimates, forms_jacobian, systems
from consensus.losses import SquaredLoss
from consensus.problems import BaseProblem, Linearizable, has_model
from consensus.regularizers import Regularizer
from consensus.surrogates import Surrogate
from consensus.surrogates.linearizations import BlockModel, Blocks, FullLinearization, LinearizedModel, ProximalModel
from topologies import _names

_MISSED = 1e-6  # part of the possible decrease that single precision may miss
_CANCELLED = 1e-4  # relative error from which on the dual of a proximal problem is not worth trying


def ill_conditioned(sub: Subproblem) -> np.ndarray:
    """Return which agents' subproblems (agents,) are too ill-conditioned to try as they are.

    Let c be the largest curvature and k the least. Where the residual is nothing but rounding, the objective may still be above
    its least value by the residual's square times c / k, relative to the decrease that was possible. A dual solution has errors
    of c / k times rounding.
    """
    rounding, ratio = np.finfo(sub.w.dtype).eps, sub.bound / sub.strong_convexity
    dual = not sub.regularizer.quadratic and has_prox_jvp(sub.regularizer)
    return cast(np.ndarray, (np.square(10 * rounding) * ratio > _MISSED) | (dual & (rounding * ratio > _CANCELLED)))


def solved_again(
    part: SubproblemBlock,
    rows: np.ndarray,
    begin: np.ndarray,
    left: np.ndarray,
    kind: type[System],
    tolerance: float,
    most: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise the subproblems of the agents ``rows`` again, from ``begin`` (agents, P), with remaining residuals ``left``.

    In double precision; then, if r is not quadratic, one by one by :mod:`consensus.local.envelope`.
    Arguments and result otherwise as for :meth:`consensus.local.newton.SubproblemBlock.minimise`.
    """
    x, iterations, left = begin.astype(np.float64), np.zeros(len(rows), int, like=begin), left.astype(np.float64)
    if begin.dtype != np.float64:
        sub = part.subproblem(rows, dtype=np.float64).bounded()
        tried = ~ill_conditioned(sub)
        if tried.any():
            found, count, rest = part.minimise(sub, rows, kind, x, tolerance, most)
            x, iterations, left = np.where(tried[:, None], found, x), np.where(tried, count, 0), np.where(tried, rest, left)
    if not part.regularizer.quadratic and has_prox_jvp(part.regularizer):
        for agent in np.flatnonzero((left > 0).tolist()):
            own, one = rows[agent : agent + 1], slice(agent, agent + 1)
            alone = part.subproblem(own, dtype=np.float64).bounded()
            x[one], count, left[one] = part.minimise(alone, own, kind, x[one], tolerance, most, solve_by_envelope)
            iterations[one] += count
    if begin.dtype != np.float64:  # rounding to single precision may undo the last of the decrease
        rounded = x.astype(begin.dtype)
        x = np.where(falls(sub, begin, rounded)[:, None], rounded, begin)
    return x, iterations, left


def falls(sub: Subproblem, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return whether (agents,) the objective at ``new`` is below that at ``old``."""
    return _value(sub, new) < _value(sub, old)


def _value(sub: Subproblem, x: np.ndarray) -> np.ndarray:
    return sub.value(x, sub.operator.jvp(x - sub.w))


_TOLERANCE, _MOST = 1e-10, 1000  # relative, and iterations of conjugate gradients where the systems are large


class _Kept(NamedTuple):
    """A cached system for the agents ``rows``, reused in every round, and its factorisation ``at_once``, if it has one."""

    rows: slice
    system: System
    at_once: Callable[[np.ndarray], np.ndarray] | None


def newton_directions(problem: BaseProblem, w: np.ndarray, right: np.ndarray, damping: float) -> np.ndarray:
    """Return ``(B_i + damping I)^-1 right_i`` for every agent, with B_i the Gauss-Newton matrix at w_i of ``f_i = A g_i + r``.

    B_i is the Hessian where the model is linear: otherwise the curvature of the model itself is left out of it. r must be
    quadratic, and ``damping`` > 0 unless r is strongly convex. A row is NaN where its matrix is no longer finite.
    """
    if not has_model(problem):
        raise TypeError(f"Newton's directions need the curvature of a model and a loss; got {problem}")
    systems = problem.cache.get((newton_directions, damping), _Systems)
    inverses, kept = systems.inverses, systems.kept
    directions = np.empty_like(w)
    problem.work.solves += 1
    if inverses is not None:

        def times(rows: slice) -> None:
            directions[rows] = (inverses[rows] @ right[rows, :, None])[:, :, 0]

        for_chunks(times, len(w), right[0].nbytes * problem.parameters)
        return directions
    iterations = []
    tolerance = _TOLERANCE if w.dtype == np.float64 else 1e-6

    def solve(rows: slice, system: System) -> None:
        directions[rows], taken, _ = system.solve(right[rows], np.full(rows.stop - rows.start, tolerance), _MOST)
        iterations.append(int(taken.sum()))

    def solve_again(some: slice) -> None:
        for rows, system, at_once in kept[some]:
            if at_once:
                directions[rows] = at_once(right[rows])
            else:
                solve(rows, system)

    if kept:  # of a linear model: not even its outputs are needed
        for_chunks(solve_again, len(kept), right.nbytes * problem.parameters // len(kept))
    else:
        systems.keep(_made(problem, w, right, damping, tolerance, solve))
    problem.work.iterations += sum(iterations)
    return directions


class _Systems:
    """The linear systems that all rounds have: their ``inverses`` (agents, P, P) if all are kept as such, else all ``kept``."""

    def __init__(self) -> None:
        self.inverses: np.ndarray | None = None
        self.kept: list[_Kept] = []

    def keep(self, made: list[_Kept]) -> None:
        made.sort(key=lambda one: one.rows.start)
        inverses = [one.system.inverses for one in made if one.at_once and one.system.inverses is not None]
        if not made or len(inverses) < len(made):
            self.kept = made
            return
        self.inverses = np.concatenate(inverses)
        for rows, system, _ in made:
            if isinstance(system, Primal):  # it alone has inverses
                system.factors = replace(system.factors, inverses=self.inverses[rows])  # in memory once


def _made(
    problem: Linearizable,
    w: np.ndarray,
    right: np.ndarray,
    damping: float,
    tolerance: float,
    solve: Callable[[slice, System], None],
) -> list[_Kept]:
    """Make the systems, some agents at a time, and ``solve(rows, system)`` them; return those that all rounds have, if any."""
    r, dense = problem.regularizer, forms_jacobian(problem)
    costs = estimates(problem, r, problem.parameters, dense)
    method = min(costs, key=lambda name: costs[name].operations)
    part = SubproblemBlock(LinearizedModel(problem, w, right, problem.network_size, damping), r, slice(None), dense, right)
    kind = systems(problem)[method]
    constant = problem.loss.quadratic and part.keeps(kind)
    kept = []

    def chunk(rows: slice) -> None:
        sub = part.subproblem(rows, problem.linearize(w, rows))
        system = part.system(sub, rows, kind)
        if not (system.ready and constant):
            system.set(sub.root(np.zeros_like(sub.outputs)), sub.strong_convexity)
        if constant:
            kept.append(_Kept(rows, system, system.at_once(tolerance)))
        solve(rows, system)

    for_chunks(chunk, problem.agents, *costs[method].of_agent(problem.dtype))
    return kept


_ITERATIONS, _FIRST_ORDER = 100, 10_000


def low_rank(
    V: np.ndarray,
    tau: np.ndarray,
    w: np.ndarray,
    gradient: np.ndarray,
    regularizer: Regularizer | None,
    tolerance: float = 1e-10,
) -> np.ndarray:
    """Minimise ``gradient . d + 1/2 |V' d|^2 + tau/2 |d|^2 + r(w + d)`` for every agent, V (agents, P, count); return d.

    Without r (None) it is the linear system (V V' + tau I) d = -gradient, by the Woodbury identity of order ``count``; with
    a weighted sum of squares another such system. With any other r, Newton's method on the dual, of the same order, or
    accelerated proximal gradient if r has no ``prox_jvp``; w + d then has the exact zeros that the prox of r gives, and
    ``tolerance`` is of the residual, relative to that at d = 0.
    """
    dtype = w.dtype
    # tau may be 1e-7 of V V': single precision would keep nothing of the difference.
    V, tau, w, gradient = (x.astype(np.float64, copy=False) for x in (V, tau, w, gradient))
    if regularizer is None:
        inner = V.swapaxes(1, 2) @ V + tau[:, None, None] * np.eye(V.shape[2])
        coefficients = np.linalg.solve(inner, V.swapaxes(1, 2) @ gradient[:, :, None])
        solution: np.ndarray = ((V @ coefficients)[:, :, 0] - gradient) / tau[:, None]
        return solution.astype(dtype)
    if regularizer.squares is not None:  # (V V' + D) d = -slope with a diagonal D: the first system for D^1/2 d
        root, slope = np.sqrt(tau[:, None] + regularizer.squares), gradient + regularizer.squares * w
        scaled: np.ndarray = low_rank(V / root[:, :, None], np.ones_like(tau), w, slope / root, None) / root
        return scaled.astype(dtype)
    return each_proximal(V, tau, w, gradient, regularizer, tolerance).astype(dtype)


@singledispatch  # on a device all agents are solved together
def each_proximal(
    V: np.ndarray, tau: np.ndarray, w: np.ndarray, gradient: np.ndarray, regularizer: Regularizer, tolerance: float
) -> np.ndarray:
    """Return what :func:`low_rank` does with an r that is no sum of squares, by a Newton's method of each agent."""
    agents = zip(V[:, None], tau.tolist(), w[:, None], gradient[:, None], strict=True)
    return np.concatenate([proximal(*one, regularizer, tolerance)[0] for one in agents])


def proximal(
    V: np.ndarray, tau: float, w: np.ndarray, gradient: np.ndarray, regularizer: Regularizer, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the d of :func:`low_rank` with one tau, and whether each agent has it (agents,): a single one always does."""
    zeros = np.zeros((len(w), V.shape[2], 1), w.dtype, like=w)
    ones, bound, part = np.ones_like(zeros), tau + np.square(V).sum(axis=(1, 2)), np.full(len(w), tolerance, like=w)
    # The squared loss of outputs V' d and targets zero.
    rows, of_loss = Dense(V.swapaxes(1, 2).copy(), 1), (SquaredLoss(), zeros, zeros, ones[:, :, 0], zeros)
    sub = Subproblem(rows, *of_loss, w, gradient, tau, regularizer, bound)
    if not has_prox_jvp(regularizer):
        return accelerated(sub, w, part, _FIRST_ORDER)[0] - w, part > 0
    p, _, good = solve_proximal(sub, ones, w, gradient, part, _ITERATIONS)
    if len(w) == 1 and not good.all():
        p, _, good = solve_by_envelope(sub, ones, w, gradient, part, _ITERATIONS)
    return p - w, good


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
        split, model = inner is not surrogate, problem.model
        if model is None or isinstance(inner, FullLinearization):
            return
        needed = "jacobian" if split else {"primal": "jacobian", "dual": "gram"}.get(self.linear)
        if needed and not getattr(model, needed):
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
        if isinstance(inner, ProximalModel):
            for block, r in zip(slices, regularizers, strict=True):
                solution[:, block] = r.prox(model.w[:, block] - total[:, block] / inner.tau, 1 / inner.tau)
            return LocalSolution(solution, np.zeros(len(model.w), int))

        iterations = np.zeros((len(slices), len(model.w)), int, like=model.w)
        problem, split = inner.problem, len(slices) > 1
        dense = split or forms_jacobian(problem)
        costs = estimates(problem, regularizer, -(-problem.parameters // len(slices)), dense)
        method = min(costs, key=lambda name: costs[name].operations) if self.linear == "auto" else self.linear
        left = np.zeros((len(slices), len(model.w)), problem.dtype, like=model.w)
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
        linearized: tuple[np.ndarray, Any],
        method: str,
        warm: np.ndarray | None,
        tolerance: float,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Minimise the subproblems of ``rows``; return the minimisers, iterations and remaining residuals.

        Ill-conditioned and unfinished subproblems are solved again, by :func:`solved_again`.
        """
        sub, kind, most = part.subproblem(rows, linearized), systems(part.model.problem)[method], self.iterations
        single, proximal = sub.w.dtype != np.float64, has_prox_jvp(part.regularizer) and not part.regularizer.quadratic
        if single or not part.regularizer.quadratic:
            sub = sub.bounded()
        direct = part.regularizer.quadratic and sub.loss.quadratic and method != "iterative"  # from anywhere alike
        x = sub.w if warm is None or direct else _better(sub, warm)
        if not (single or proximal):
            return part.minimise(sub, rows, kind, x, tolerance, most)
        hard = ill_conditioned(sub)
        found, iterations, left = x, np.zeros(len(x), int, like=x), np.ones(len(x), x.dtype, like=x)
        if not hard.all():
            found, iterations, left = part.minimise(sub, rows, kind, x, tolerance, most)
            found, iterations, left = (
                chosen(hard, x, found),
                np.where(hard, 0, iterations),
                np.where(hard, 1, left),
            )
        (again,) = np.nonzero((left > 0) | (single & np.isnan(left)))
        if len(again):
            begin = np.where(np.isfinite(found).all(axis=1)[:, None], found, x)[again]
            more = solved_again(part, rows.start + again, begin, left[again], kind, tolerance, most)
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
            f"the local problem of {agent} was not solved to the accuracy asked for: {float(left[worst]):.1g} of "
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
