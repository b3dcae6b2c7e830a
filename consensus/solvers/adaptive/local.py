"""The local problem, and how much damping it takes to believe its solution."""

import numpy as np

from consensus.local.exact import low_rank
from consensus.problems import has_model
from consensus.problems.base import BaseProblem
from consensus.solvers.adaptive import gauss_newton
from consensus.solvers.adaptive.curvature import Curvature
from consensus.solvers.adaptive.judging import change_of

# Of the local cost's model: error over promised decrease; trials. They are few because, where agents' steps differ much, the
# local costs at their ends say little of the average cost at the mean, by which steps are judged.
_TRUST, _TRIES = 0.25, 2


def solve(
    problem: BaseProblem, w: np.ndarray, slope: np.ndarray, M: Curvature, tau: np.ndarray, weight: float, length: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise every agent's ``G . d + 1/2 d'(M + lambda I) d + tau/2 |d|^2 + r(w + d)``, with more tau while it is doubted.

    tau doubles, at most twice, while the own cost at ``w + length d`` is further than a quarter of the decrease that the local
    problem promises there from its own Gauss-Newton model, or where there is none from a parabola along d. ``weight`` is lambda
    of a quadratic r, whose curvature M leaves out, else 0; ``length`` (agents,) is the part of d that is stepped. Returned are
    d (agents, P), the tau used and the number of local solves (agents,).
    """
    r = problem.regularizer
    prox = None if r.quadratic else r
    tries = np.ones_like(tau)
    d = low_rank(M.V, tau + weight, w, slope, prox)

    def doubted(d: np.ndarray) -> np.ndarray:
        step, found = (length[:, None] * d).astype(w.dtype), np.zeros(len(d), bool, like=d)
        fall = -np.vecdot(slope, step) - (np.vecdot(step, M.times(step)) + weight * np.vecdot(step, step)) / 2
        bound = _TRUST * (fall - change_of(r, w, w + step))

        def test(rows: slice, error: gauss_newton.Error, rounding: np.ndarray) -> None:
            found[rows] = ~(error(step[rows]) <= bound[rows] + rounding)

        if has_model(problem):
            gauss_newton.each_local_model(problem, w, test)
            return found
        off, rounding = _bent(problem, w, step)
        known: np.ndarray = off <= bound + rounding
        return ~known

    if not (has_model(problem) and gauss_newton.exact(problem)):
        for _ in range(_TRIES):
            again = doubted(d) & (tries == tries.max())
            if not again.any():
                break
            tau, tries = np.where(again, 2 * tau, tau), tries + again
            d = np.where(again[:, None], low_rank(M.V, tau + weight, w, slope, prox), d)
    problem.work.solves += 1
    problem.work.iterations += int(tries.sum())
    return d, tau, tries


def _bent(problem: BaseProblem, w: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how far A times the own cost is from a parabola along ``step``, and what of that may be rounding, (agents,).

    It is 9/4 of a third difference, of a t^3 + b t^4 in t from 0 to 1 that is a/2 + b; zero for costs that are quadratic.
    """
    values = np.stack([problem.value((w + part * step).astype(w.dtype)) for part in (0, 1 / 3, 2 / 3, 1)])
    A, off = problem.network_size, values[3] - values[0] - 3 * (values[2] - values[1])
    return 9 / 4 * A * np.abs(off), 20 * np.finfo(w.dtype).eps * A * np.abs(values).max(axis=0)
