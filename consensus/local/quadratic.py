"""The local problem of a partial linearization with squared loss and L2: one linear system an agent."""

import numpy as np
from scipy.linalg import lapack

from consensus._parallel import for_chunks


def solve_quadratic(model, linear, regularizer):
    """Minimise ``s/2 v' J' S J v + (u_i . v) + (tau + m)/2 |v|^2`` for every agent; return ``w_i + v``.

    Here v = w - w_i, J is the Jacobian of the outputs at w_i, S = c d2l/df2 the samples' curvatures, m the strong convexity
    of the smooth r, and u_i = grad g_i + linear_i + grad r the gradient of everything at v = 0. So

        (s J' S J + (tau + m) I) v = -u_i .

    ``n`` samples times outputs and P parameters: the system of order P is factored where P <= n. Otherwise the identity
    v = -(u - R' (k I + R R')^-1 R u) / k with R = (s S)^1/2 J, k = tau + m needs one of order n, and R R' comes from the
    model's structured ``gram``.

    Parameters and result as for :func:`consensus.local.solve_local`.
    """
    problem = model.problem
    u = model.gradient + linear + regularizer.gradient(model.w)
    k = model.tau + regularizer.strong_convexity
    n = problem.shards.features.shape[1] * problem.model.outputs
    primal = problem.parameters <= n
    solution = np.empty_like(model.w)

    def chunk(rows):
        outputs, linearization = problem.linearize(model.w, rows)
        curvature = problem.loss.curvature(outputs, problem.shards.targets[rows])
        root = np.sqrt(model.scale * curvature * problem.weights[rows][:, :, None]).reshape(len(outputs), n)
        if primal:
            jacobian = linearization.jacobian()
            jacobian *= root[:, :, None]
            v = _cholesky_solve(jacobian.swapaxes(1, 2) @ jacobian, k, u[rows])
        else:
            gram = linearization.gram()
            gram *= root[:, :, None]
            gram *= root[:, None, :]
            image = root * linearization.jvp(u[rows]).reshape(len(outputs), n)
            dual = root * _cholesky_solve(gram, k, image)
            v = (u[rows] - linearization.vjp(dual.reshape(outputs.shape))) / k
        solution[rows] = model.w[rows] - v

    size = n * problem.parameters if primal else n * n
    for_chunks(chunk, problem.agents, 2 * size * problem.dtype.itemsize)
    return solution


def _cholesky_solve(matrices, shift, right):
    """``(M_i + shift I)^-1 b_i`` for stacks M (agents, n, n), overwritten, and b (agents, n); NaN where it fails."""
    diagonal = np.einsum("ann->an", matrices)  # a view
    diagonal += shift
    potrs = lapack.dpotrs if matrices.dtype == np.float64 else lapack.spotrs
    solution = np.full_like(right, np.nan)
    for agent, matrix in enumerate(matrices):
        try:
            factor = np.linalg.cholesky(matrix)  # NumPy's: it lets other threads run
        except np.linalg.LinAlgError:  # not finite any more: the run will stop with a DivergenceError
            continue
        solution[agent] = potrs(factor.T, right[agent], lower=0)[0]
    return solution
