"""Local problems whose curvature is a few columns plus a multiple of the identity."""

import numpy as np

from consensus.local import forward_backward_envelope
from consensus.local.accelerated import accelerated
from consensus.local.operators import Dense
from consensus.local.semismooth import solve_proximal
from consensus.local.subproblem import Subproblem
from consensus.local.subproblem_block import has_prox_jvp
from consensus.losses import SquaredLoss
from consensus.regularizers.base import Regularizer

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
    V, tau, w, gradient = (np.asarray(x, np.float64) for x in (V, tau, w, gradient))
    if regularizer is None:
        inner = V.swapaxes(1, 2) @ V
        np.einsum("ann->an", inner)[...] += tau[:, None]
        coefficients = np.linalg.solve(inner, V.swapaxes(1, 2) @ gradient[:, :, None])
        solution: np.ndarray = ((V @ coefficients)[:, :, 0] - gradient) / tau[:, None]
        return solution.astype(dtype)
    if regularizer.squares is not None:  # (V V' + D) d = -slope with a diagonal D: the first system for D^1/2 d
        root, slope = np.sqrt(tau[:, None] + regularizer.squares), gradient + regularizer.squares * w
        scaled: np.ndarray = low_rank(V / root[:, :, None], np.ones_like(tau), w, slope / root, None) / root
        return scaled.astype(dtype)
    d = np.empty_like(w)
    for agent in range(len(w)):  # each is a Newton's method of its own
        d[agent] = _proximal(
            V[agent], float(tau[agent]), w[agent : agent + 1], gradient[agent : agent + 1], regularizer, tolerance
        )
    return d.astype(dtype)


def _proximal(
    V: np.ndarray, tau: float, w: np.ndarray, gradient: np.ndarray, regularizer: Regularizer, tolerance: float
) -> np.ndarray:
    rows = np.ascontiguousarray(V.T)[None]
    zeros = np.zeros((1, rows.shape[1], 1), w.dtype)
    ones = np.ones_like(zeros)
    sub = Subproblem(
        operator=Dense(rows, 1),
        loss=SquaredLoss(),  # of outputs V' d and targets zero
        outputs=zeros,
        targets=zeros,
        weights=ones[:, :, 0],
        slopes=zeros,
        w=w,
        linear=gradient,
        tau=tau,
        regularizer=regularizer,
        known_bound=np.array([tau + np.square(V).sum()]),
    )
    part = np.array([tolerance])
    if not has_prox_jvp(regularizer):
        return np.asarray(accelerated(sub, w, part, _FIRST_ORDER)[0][0] - w[0])
    p, _, good = solve_proximal(sub, ones, w, gradient, part, _ITERATIONS)
    if not good.all():
        p, _, _ = forward_backward_envelope.solve_proximal(sub, ones, w, gradient, part, _ITERATIONS)
    return np.asarray(p[0] - w[0])
