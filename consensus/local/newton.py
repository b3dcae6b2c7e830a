"""Newton's method for smooth local problems, and the method that a block of agents takes."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import DTypeLike

from consensus import _checks
from consensus.local.envelope import accelerated
from consensus.local.operators import Dense, chosen, jacobian, norms
from consensus.local.semismooth import solve_proximal
from consensus.local.subproblem import Subproblem
from consensus.local.systems import System
from consensus.models.linearization import LinearizationDefaults, linearize
from consensus.regularizers.base import Regularizer
from consensus.surrogates.linearizations import LinearizedModel

Proximal: TypeAlias = Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]  # as solve_proximal
_SUFFICIENT = 1e-4  # the part of the promised decrease that a step must bring
_SECTIONS = 60  # of the line search: to a part of 1e-12
_DROWNED = 5  # steps allowed after the decreases that they promise drown in rounding


def newton(
    sub: Subproblem, system: System | None, x: np.ndarray, tolerance: float, most: int, proximal: Proximal = solve_proximal
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise the subproblems: a quadratic model of B at a time, then a step along its minimiser d.

        d    = argmin_d  1/2 d' J' S J d + gradient . d + tau/2 |d|^2 + r(x + d)          S = c l''(f + a),  a = J (x - w)
        x   <- x + t d,          t = 1, or the best in [0, 1] where that does not bring enough decrease

    With a quadratic r that is one linear ``system``, of :mod:`consensus.local.systems`; else ``proximal`` solves for d
    (``system`` is None): ``solve_proximal`` or ``solve_by_envelope``. With the squared loss the
    first d is the answer up to rounding; the system is solved again from there until that brings nothing more, or not again if
    its first solution is certain to be exact enough. The best t, not just a small one, ends where the loss bends, and the next
    d knows how the loss bends there.

    Each agent stops when its residual is at most ``tolerance`` times that at w, or after ``most`` iterations. Returns x
    (agents, P); the Newton systems solved (agents,), or iterations inside them where those are iterative; and what is left of
    the residual as a part of that at w (agents,), zero where it is as small as was asked, or as rounding allows.

    References
    ----------
    Lee, Sun, Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J. Optim. 24(3), 2014,
    Algorithm 1; Eisenstat, Walker, "Choosing the forcing terms in an inexact Newton method", SIAM J. Sci. Comput. 17(1),
    1996.
    """
    quadratic, k = sub.regularizer.quadratic, sub.strong_convexity
    if system is not None and sub.loss.quadratic and x is sub.w and (found := _by_one_system(sub, system, tolerance)):
        return found
    iterations, solved = np.zeros(len(x), int, like=x), np.zeros(len(x), bool, like=x)
    running, drowned = np.ones(len(x), bool, like=x), np.zeros(len(x), int, like=x)
    slope = sub.linear + (sub.regularizer.gradient(sub.w) if quadratic else 0)  # at w, where B has none
    start = sub.residual(sub.w, slope)
    finite = np.isfinite(start).all(axis=0)
    x, running = chosen(finite, x, np.full_like(x, np.nan)), running & finite
    if not quadratic:  # infinitely far from r's domain no decrease could be seen
        x = np.where(np.isinf(sub.regularizer.value(x))[:, None], sub.regularizer.prox(x, 1 / k), x)
    begin, moved = x, bool(np.any(x != sub.w))
    a = sub.operator.jvp(x - sub.w) if moved else np.zeros_like(sub.outputs)
    last = np.inf
    for iteration in range(most + 1):
        gradient = sub.gradient(x, a) if moved or iteration else slope
        done, residual = sub.solved(x, gradient, tolerance, start)  # not so where it is NaN
        solved |= running & done
        running &= ~done
        left = (residual / np.where(start > 0, start, 1)).max(axis=0)
        if iteration == 0 and not quadratic:
            x = _tidied(sub, x, gradient, ~running, tolerance, start)
        if sub.loss.quadratic:  # every pass takes off the last one's rounding, or there is nothing more to win
            running &= ~(left > last / 2)
            last = left
        if iteration == most or not running.any():
            break
        # Rough at first, as sharp as the goal at last; the squared loss needs one system only.
        size, first = residual[0], start[0]
        part = np.minimum(np.where(size > 0, tolerance * first / np.where(size > 0, size, 1), 1), 1)
        if not sub.loss.quadratic:
            part = np.maximum(0.3 * part, np.minimum(0.1, np.sqrt(size / np.where(first > 0, first, 1))))
        root = sub.root(a)
        if system is not None:
            if not (system.ready and sub.loss.quadratic):
                system.set(root, k)
            step, inner, certain = system.solve(-gradient, part, 10 * most)
            end = x + step
        else:
            end, inner, certain = proximal(sub, root, x, gradient, part, most)
            step = end - x
        iterations += np.where(running, np.maximum(inner, 1), 0)
        running &= np.isfinite(step).all(axis=1)  # where rounding leaves no direction x stays as it is
        end, step = chosen(running, end, x), chosen(running, step, np.zeros_like(step))
        certain &= running & sub.loss.quadratic  # one step from anywhere is exact
        x, solved, running = chosen(certain, end, x), solved | certain, running & ~certain
        if sub.loss.quadratic and not running.any():
            break
        image = sub.operator.jvp(step)
        length, lost = _line_search(sub, x, a, gradient, end, step, image, running)
        whole = (length == 1)[:, None]
        x = np.where(whole, end, x + length[:, None] * step)  # the whole step keeps the prox's exact zeros
        a = a + length[:, None, None] * image
        drowned += lost
        running &= drowned < _DROWNED
    if not solved.all():
        solved |= _close(sub, x, a, begin, tolerance)
    return x, iterations, np.where(solved, 0, np.maximum(left, np.finfo(x.dtype).tiny))


def _by_one_system(sub: Subproblem, system: System, tolerance: float) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return the result of :func:`newton` if one linear system is certain to be enough for every agent; else None.

    The same numbers as there, in a third of the calls: on small shards these take longer than the arithmetic.
    """
    gradient = sub.linear + sub.regularizer.gradient(sub.w)
    size = norms(gradient) / sub.strong_convexity
    if not (size > np.maximum(tolerance * size, sub.rounding(sub.w))).all():  # it is optimal at w, or not finite
        return None
    if not system.ready:
        system.set(sub.root(np.zeros_like(sub.outputs)), sub.strong_convexity)
    solve = system.at_once(tolerance)
    if solve is None:
        return None
    x = sub.w + solve(-gradient)
    return (x, np.ones(len(x), int), np.zeros(len(x), x.dtype)) if np.isfinite(x).all() else None


def _close(sub: Subproblem, x: np.ndarray, a: np.ndarray, begin: np.ndarray, tolerance: float) -> np.ndarray:
    """Return whether (agents,) the objective is certainly near its least, as a part of its decrease, or up to rounding."""
    terms, before = sub.terms(x, a), sub.terms(begin, sub.operator.jvp(begin - sub.w))
    rounding = 10 * np.finfo(x.dtype).eps * np.abs(terms).sum(axis=0)
    decrease = before.sum(axis=0) - terms.sum(axis=0)
    return cast(np.ndarray, sub.gap(x, sub.gradient(x, a)) <= np.maximum(tolerance * decrease, rounding))


def _tidied(
    sub: Subproblem, x: np.ndarray, gradient: np.ndarray, done: np.ndarray, tolerance: float, start: np.ndarray
) -> np.ndarray:
    """Give starts that are optimal within the goal the exact zeros and bounds of a prox."""
    k = sub.strong_convexity
    z = x - gradient / k
    tidied = np.where(done[:, None] & ~sub.regularizer.active(z, 1 / k), sub.regularizer.prox(z, 1 / k), x)
    if not np.any(tidied != x):
        return x
    still, _ = sub.solved(tidied, sub.gradient(tidied, sub.operator.jvp(tidied - sub.w)), tolerance, start)
    return np.where(still[:, None], tidied, x)


def _line_search(
    sub: Subproblem,
    x: np.ndarray,
    a: np.ndarray,
    gradient: np.ndarray,
    end: np.ndarray,
    step: np.ndarray,
    image: np.ndarray,
    running: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return step lengths (agents,): 1 if it brings enough decrease, else the best; 0 for agents that are done.

    Also whether (agents,) the decrease that is promised is no more than the objective's rounding.
    """
    terms = sub.terms(x, a)
    value = terms.sum(axis=0)
    promised = np.vecdot(gradient, step)
    if not sub.regularizer.quadratic:
        promised += sub.regularizer.value(end) - sub.regularizer.value(x)
    slack = 10 * np.finfo(x.dtype).eps * np.abs(terms).sum(axis=0)  # near the minimum decreases drown in rounding
    whole = sub.value(end, a + image) <= value + _SUFFICIENT * promised + slack
    length = np.where(running, 1, 0).astype(x.dtype)
    searching = running & ~whole
    if searching.any():
        best = _least(lambda t: sub.value(x + t[:, None] * step, a + t[:, None, None] * image), length)
        length = np.where(searching, best, length)
    return length, ~(-promised > slack)


def _least(convex: Callable[[np.ndarray], np.ndarray], ends: np.ndarray) -> np.ndarray:
    """Return where in [0, end] a convex function is least, for every agent, by the golden section."""
    part = (math.sqrt(5) - 1) / 2  # a float of Python's: NumPy's would turn float32 into float64
    low, high = np.zeros_like(ends), ends
    left, right = high - part * (high - low), low + part * (high - low)
    at_left, at_right = convex(left), convex(right)
    for _ in range(_SECTIONS):
        down = at_left <= at_right
        low, high = np.where(down, low, left), np.where(down, right, high)
        new = np.where(down, high - part * (high - low), low + part * (high - low))
        at_new = convex(new)
        left, right = np.where(down, new, right), np.where(down, left, new)
        at_left, at_right = np.where(down, at_new, at_right), np.where(down, at_left, at_new)
    return cast(np.ndarray, (low + high) / 2)


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
        self, rows: slice | np.ndarray, linearized: tuple[np.ndarray, Any] | None = None, dtype: DTypeLike | None = None
    ) -> Subproblem:
        """Make the subproblems of the agents ``rows``, a slice or indices, by a linearization or a new one."""
        model, problem = self.model, self.model.problem
        dtype = problem.dtype if dtype is None else dtype

        def of(array: np.ndarray) -> np.ndarray:
            return array.astype(dtype, copy=False)

        if linearized is None:
            features = problem.shards.features[rows]
            linearized = linearize(problem.model, of(model.w[rows]), features if features.dtype.kind == "i" else of(features))
        outputs, operator = linearized[0], _checks.completed(linearized[1], LinearizationDefaults)
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
        fixed = problem.model.jacobian_is_constant
        return fixed and problem.agents * kind.numbers(n, columns) <= _KEPT_NUMBERS

    def system(self, sub: Subproblem, rows: slice | np.ndarray, kind: type[System]) -> System:
        """Make the linear system for the Jacobian, or return the kept one."""
        problem, once = self.model.problem, sub.loss.quadratic
        constant = once and problem.model.jacobian_is_constant
        if not self.keeps(kind):
            return kind(sub.operator, once, constant)
        which = (rows.start, rows.stop) if isinstance(rows, slice) else tuple(rows.tolist())
        key = (kind, which, sub.w.dtype, self.block.start, self.block.stop, self.model.scale, sub.strong_convexity)
        return problem.cache.get(key, lambda: kind(sub.operator, once, constant))


def has_prox_jvp(regularizer: Regularizer) -> bool:
    """Return whether the regularizer has the derivative of its prox, for Newton's method."""
    return getattr(regularizer.__class__, "prox_jvp", Regularizer.prox_jvp) is not Regularizer.prox_jvp
