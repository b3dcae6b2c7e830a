"""The local problem, and how much damping it takes to believe its solution."""

import numpy as np

from consensus.problems.base import BaseProblem
from consensus.solvers.adaptive.costs import quadratic_weight
from consensus.solvers.adaptive.curvature import Curvature
from consensus.solvers.adaptive.damping import Damping
from consensus.solvers.adaptive.quadratic import Quadratic

# Of the local cost's model: error over predicted decrease; trials. They are few because, where agents' steps differ much, the
# local costs at their ends say little of the network's cost at the mean, by which trials are judged.
_TRUST, _TRIES = 0.25, 2


def solve(
    problem: BaseProblem, w: np.ndarray, model: Quadratic, damping: Damping, curvature: Curvature
) -> tuple[np.ndarray, Damping]:
    """Minimise every agent's ``G . d + 1/2 d' H d + tau/2 |d|^2 + r(w + d)``, with more tau while the local cost doubts it.

    tau doubles, at most twice, while the local cost at w + d is further from its Gauss-Newton model than a quarter of the
    decrease that the local problem promises.

    Parameters
    ----------
    problem : Problem
    w : ndarray (agents, P)
    model : Quadratic
        G and H.
    damping : Damping
    curvature : Curvature

    Returns
    -------
    d : ndarray (agents, P)
    damping : Damping
        That to go on with: tau is at least half of what was used.
    """
    r, weight = problem.regularizer, quadratic_weight(problem)
    prox = None if r.quadratic else r
    used, tries = damping.tau.copy(), np.ones_like(damping.tau)
    d = model.minimiser(used + weight, w, prox)

    def test(rows, error, rounding):
        everyone = np.arange(rows.stop - rows.start)
        again, inside = rows, slice(None)  # all of them, of whom slices are no copies
        for _ in range(_TRIES):
            decrease = -model.of(again).change(d[again], weight)
            if prox is not None:
                decrease -= r.value(w[again] + d[again]) - r.value(w[again])
            inside = everyone[inside][~(error(d[rows])[inside] <= _TRUST * decrease + rounding[inside])]
            if not len(inside):
                break
            again = rows.start + inside
            used[again] *= 2
            tries[again] += 1
            d[again] = model.of(again).minimiser(used[again] + weight, w[again], prox)

    curvature.each_local_model(problem, w, test)
    problem.work.solves += 1
    problem.work.iterations += int(tries.sum())
    return d, damping._replace(tau=np.maximum(damping.tau, used / 2), tries=tries)
