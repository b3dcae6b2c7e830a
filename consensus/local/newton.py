"""Newton's method on a chunk of local problems; proximal where r is not smooth."""

import numpy as np

from consensus.local.semismooth import solve_proximal

_SUFFICIENT = 1e-4  # the part of the promised decrease that a step must bring
_HALVINGS = 40
_DROWNED = 5  # steps allowed after the decreases that they promise drown in rounding


def newton(sub, system, x, tolerance, most):
    """Minimise the subproblems: a quadratic model of B at a time, then a step along its minimiser d.

        d    = argmin_d  1/2 d' J' S J d + gradient . d + tau/2 |d|^2 + r(x + d)          S = c l''(f + a),  a = J (x - w)
        x   <- x + t d,          t = 1, 1/2, 1/4, ... the first that brings enough decrease

    With a quadratic r that is one linear system, else :func:`solve_proximal`. For the squared loss the first d is the answer.

    Parameters
    ----------
    sub : Subproblem
    system : object
        From :mod:`consensus.local.linear`; only its ``set`` and ``solve`` are called, and only if r is quadratic.
    x : ndarray (agents, P)
        The start.
    tolerance : float
        Each agent stops when its residual is at most this part of its residual at w.
    most : int
        Iterations at most.

    Returns
    -------
    x : ndarray (agents, P)
    iterations : ndarray of int (agents,)
        Newton systems solved, or iterations inside them where those are iterative.

    References
    ----------
    Lee, Sun, Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J. Optim. 24(3), 2014,
    Algorithm 1; Eisenstat, Walker, "Choosing the forcing terms in an inexact Newton method", SIAM J. Sci. Comput. 17(1),
    1996.
    """
    quadratic, k = sub.regularizer.quadratic, sub.strong_convexity
    iterations = np.zeros(len(x), int)
    start = sub.residual(sub.w, sub.linear + (sub.regularizer.gradient(sub.w) if quadratic else 0))
    goal = np.maximum(tolerance * start, sub.rounding)
    running, drowned = np.ones(len(x), bool), np.zeros(len(x), int)
    if not quadratic:  # infinitely far from r's domain no decrease could be seen
        x = np.where(np.isinf(sub.regularizer.value(x))[:, None], sub.regularizer.prox(x, 1 / k), x)
    a = sub.operator.jvp(x - sub.w) if np.any(x != sub.w) else np.zeros_like(sub.outputs)
    for iteration in range(most):
        gradient = sub.gradient(x, a)
        residual = sub.residual(x, gradient)
        running &= ~(residual <= goal)  # NaN keeps running, to the limit, and shows in the result
        if iteration == 0 and not quadratic:
            x = _tidied(sub, x, gradient, ~running, goal)
        if not running.any():
            break
        # Rough at first, as sharp as the goal at last; the squared loss needs one system only.
        part = np.where(residual > 0, goal / np.where(residual > 0, residual, 1), 1)
        if not sub.loss.quadratic:
            part = np.maximum(0.3 * part, np.minimum(0.1, np.sqrt(residual / np.where(start > 0, start, 1))))
        root = sub.root(a)
        if quadratic:
            if not (system.ready and sub.loss.quadratic):
                system.set(root, k)
            step, inner = system.solve(-gradient, part, 10 * most)
            end = x + step
        else:
            end, inner = solve_proximal(sub, root, x, gradient, part * residual, 10 * most)
            step = end - x
        iterations += np.where(running, np.maximum(inner, 1), 0)
        if sub.loss.quadratic:
            return np.where(running[:, None], end, x), iterations
        image = sub.operator.jvp(step)
        length, lost = _line_search(sub, x, a, gradient, end, step, image, running)
        whole = (length == 1)[:, None]
        x = np.where(whole, end, x + length[:, None] * step)  # the whole step keeps the prox's exact zeros
        a = a + length[:, None, None] * image
        drowned += lost
        running &= drowned < _DROWNED
    return x, iterations


def _tidied(sub, x, gradient, done, goal):
    """Starts that are optimal within the goal, with the exact zeros and bounds that a prox would have given them."""
    k = sub.strong_convexity
    z = x - gradient / k
    tidied = np.where(done[:, None] & ~sub.regularizer.active(z, 1 / k), sub.regularizer.prox(z, 1 / k), x)
    if not np.any(tidied != x):
        return x
    residual = sub.residual(tidied, sub.gradient(tidied, sub.operator.jvp(tidied - sub.w)))
    return np.where((residual <= goal)[:, None], tidied, x)


def _line_search(sub, x, a, gradient, end, step, image, running):
    """Step lengths (agents,): the first of 1, 1/2, ... with enough decrease; 0 for agents that are done.

    Also whether (agents,) the decrease that is promised is no more than the objective's rounding.
    """
    terms = sub.terms(x, a)
    value = terms.sum(axis=0)
    promised = np.vecdot(gradient, step)
    if not sub.regularizer.quadratic:
        promised += sub.regularizer.value(end) - sub.regularizer.value(x)
    slack = 10 * np.finfo(x.dtype).eps * np.abs(terms).sum(axis=0)  # near the minimum decreases drown in rounding
    length = np.where(running, 1, 0).astype(x.dtype)
    searching = running.copy()
    for halving in range(_HALVINGS):
        point = end if halving == 0 else x + length[:, None] * step
        new = sub.value(point, a + length[:, None, None] * image)
        searching &= ~(new <= value + _SUFFICIENT * length * promised + slack)
        if not searching.any():
            break
        length[searching] /= 2
    return length, ~(-promised > slack)
