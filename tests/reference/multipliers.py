"""Updates of the methods of multipliers in plain NumPy: see :mod:`tests.reference.statements`."""

import numpy as np

from tests.reference.least_squares import Costs


def dadmm(W, costs, X, solver, systems=Costs.solved):
    c, U = solver.penalty, 0 * X
    solved = systems(costs, 2 * c)
    linear = costs.gradient(0 * X)
    while True:
        mixed = W @ X
        U = U + c * (X - mixed)
        X = solved(c * (X + mixed) - linear - U)
        yield X


def dlm(W, costs, X, solver):
    rho, G, U = 1 / solver.step_size, costs.gradient, 0 * X
    c = solver.penalty or rho
    scale = 2 * c * (1 - np.diag(W))[:, None] + rho
    while True:
        apart = c * (X - W @ X)
        U = U + apart
        X = X - (G(X) + apart + U) / scale
        yield X


def dinno(W, costs, X, solver):
    a, G, U = solver.step_size, costs.gradient, 0 * X
    c = solver.penalty or 1 / (4 * a)
    hold = 2 * c * (1 - np.diag(W))[:, None]
    while True:
        apart = c * (X - W @ X)
        U = U + apart
        before, pull = X, U + apart
        for _ in range(solver.local_steps):
            X = X - a * (G(X) + pull + hold * (X - before))
        yield X


def lt_admm(W, costs, X, solver):
    a, G, U = solver.step_size, costs.gradient, 0 * X
    c = (solver.penalty or 1 / (solver.local_steps * a)) / 2
    while True:
        apart = c * (X - W @ X)
        U = U + apart
        pull = U + apart
        for _ in range(solver.local_steps):
            X = X - a * (G(X) + pull)
        yield X


def atg(W, costs, X, solver):
    a, G, rho, keep = solver.step_size, costs.gradient, solver.penalty, 1 - solver.relaxation
    own = others = np.zeros((len(X), 2 * X.shape[1]), X.dtype)
    while True:
        q = (np.concatenate([X, G(X)], axis=1) + own) / (1 + rho)
        y, s = np.split(q, 2, axis=1)
        heard, told = 2 * rho * (W @ q) - others, 2 * rho * q - own
        X = X + solver.gamma * (y - a * s - X)
        own, others = keep * own + solver.relaxation * heard, keep * others + solver.relaxation * told
        yield X


def newton_tracking(W, costs, X, solver, systems=Costs.solved):
    c, U = solver.penalty, 0 * X
    solved = systems(costs, solver.damping)
    while True:
        apart = c * (X - W @ X)
        U = U + apart
        X = X - solved(costs.gradient(X) + U + apart)
        yield X
