"""Local problems whose curvature is a few columns plus a multiple of the identity."""

import numpy as np

from consensus.local.operators import Dense
from consensus.local.semismooth import solve_proximal
from consensus.local.subproblem import Subproblem

_ITERATIONS = 100


def low_rank(V, tau, w, gradient, regularizer, tolerance=1e-10):
    """Minimise ``gradient . d + 1/2 |V' d|^2 + tau/2 |d|^2 + r(w + d)`` for every agent; return d (agents, P).

    Without r (None) it is the linear system (V V' + tau I) d = -gradient, by the Woodbury identity of order ``count``. With
    one, Newton's method on the dual, of the same order; w + d then has the exact zeros that the prox of r gives.

    Parameters
    ----------
    V : ndarray (agents, P, count)
    tau : ndarray (agents,)
        > 0.
    w, gradient : ndarray (agents, P)
    regularizer : Regularizer or None
    tolerance : float
        Of the residual, relative to that at d = 0, with an r.
    """
    if regularizer is None:
        inner = V.swapaxes(1, 2) @ V
        np.einsum("ann->an", inner)[...] += tau[:, None]
        coefficients = np.linalg.solve(inner, V.swapaxes(1, 2) @ gradient[:, :, None])
        return ((V @ coefficients)[:, :, 0] - gradient) / tau[:, None]
    d = np.empty_like(w)
    for agent in range(len(w)):  # each is a Newton's method of its own
        d[agent] = _proximal(
            V[agent], float(tau[agent]), w[agent : agent + 1], gradient[agent : agent + 1], regularizer, tolerance
        )
    return d


def _proximal(V, tau, w, gradient, regularizer, tolerance):
    rows = np.ascontiguousarray(V.T)[None]
    zeros = np.zeros((1, rows.shape[1], 1), w.dtype)
    ones = np.ones_like(zeros)
    sub = Subproblem(
        operator=Dense(rows, 1),
        loss=None,
        outputs=zeros,
        targets=zeros,
        weights=ones[:, :, 0],
        slopes=zeros,
        w=w,
        linear=gradient,
        tau=tau,
        regularizer=regularizer,
    )
    residual = np.linalg.norm(w - regularizer.prox(w - gradient / tau, 1 / tau), axis=1)
    goal = np.maximum(tolerance * residual, sub.rounding)
    p, _ = solve_proximal(sub, ones, w, gradient, goal, _ITERATIONS)
    return p[0] - w[0]
