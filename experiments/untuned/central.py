"""What is known with all costs in one place: the least objective, and the largest curvature."""

import numpy as np
from scipy.optimize import minimize

from experiments.untuned.rivals import known


def least(problem, start):
    """The least objective that a solver with all costs in one place finds from the start."""
    r, start = problem.regularizer, np.asarray(start, float)
    if r.quadratic:
        size = max(1.0, float(np.linalg.norm(start)) / len(start) ** 0.5)

        def both(z):
            return float(problem.objective(size * z)), size * (problem.total_gradient(size * z) + r.gradient(size * z[None])[0])

        most = 100 if known(problem.strong_convexity) is None else 20000  # iterations
        options = {"maxiter": most, "maxfun": 40000, "gtol": 1e-14, "ftol": 1e-16, "maxcor": 40}
        return float(minimize(both, start / size, jac=True, method="L-BFGS-B", options=options).fun)
    point = ahead = start
    best, momentum, L = problem.objective(start), 1.0, lipschitz(problem, start)
    for _ in range(3000):
        new = r.prox((ahead - problem.total_gradient(ahead) / L)[None], 1 / L)[0]
        value = problem.objective(new)
        if value > best:  # restart; where there is nothing to restart, the step was too long
            ahead, momentum, L = point, 1.0, L * (2 if momentum == 1 else 1)
            continue
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead, point, momentum, best = new + (momentum - 1) / following * (new - point), new, following, value
    return float(best)


def lipschitz(problem, w):
    """The largest curvature of an agent's A g_i at w, by power iteration on differences of gradients."""
    A, e = problem.agents, 1e-5 * (float(np.linalg.norm(w)) or 1.0)
    V, found = np.random.default_rng(0).standard_normal((A, len(w))), 1e-300
    for _ in range(30):
        V /= np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300)
        V = A * (problem.gradient(w + e * V) - problem.gradient(w - e * V)) / (2 * e)
        found = float(np.linalg.norm(V, axis=1).max())
    return max(found, 1e-300)
