"""The linear systems of local problems, written out."""

import numpy as np

from consensus.local import Exact
from tests.helpers.local_problems import centre, minimisers, own

WAYS = ["primal", "dual", "iterative"]


def explicit(problem, surrogate, agent, columns=slice(None)):
    """H and u of ``H v = u``, the optimality condition of the squared loss with an L2 in the coordinates ``columns``."""
    w, _, pi = centre(problem)
    J, f, d, c = own(problem, w, agent)
    weight = getattr(problem.regularizer, "weight", 0.0)
    s = problem.agents if surrogate.curvature == "network" else 1
    u = -(c * (f - d).ravel() @ J + pi[agent] + weight * w[agent])[columns]
    return s * c * J[:, columns].T @ J[:, columns] + (surrogate.tau + weight) * np.eye(len(u)), u


def solved(problem, surrogate, linear):
    """v of every agent by Exact, as sharp as it gets."""
    return minimisers(problem, surrogate, Exact(linear, iterations=500), tolerance=1e-13).w - centre(problem)[0]
