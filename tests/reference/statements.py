"""Updates of the exact methods as a user of NumPy would write them down, to compare with: generators of iterates.

Arguments: the mixing matrix W (an array: for so few agents it is faster than a sparse one), the costs, the iterates X to begin
with, and the solver, prepared, for its settings. What stays the same in all rounds is computed once. Methods of multipliers are
in :mod:`tests.reference.multipliers`.
"""

import itertools

import numpy as np

from tests.reference.least_squares import Costs


def dgd(W, costs, X, solver):
    a, G = solver.step_size, costs.gradient
    while True:
        X = W @ X - a * G(X)
        yield X


def gradient_tracking(W, costs, X, solver):
    a, G = solver.step_size, costs.gradient
    Y = before = G(X)
    while True:
        X = W @ (X - a * Y)
        new = G(X)
        Y, before = W @ (Y + new - before), new
        yield X


def extra(W, costs, X, solver):
    a, G = solver.step_size, costs.gradient
    mixed, gradient = W @ X, G(X)
    X, before = mixed - a * gradient, X
    while True:
        yield X
        last, old, mixed, gradient = mixed, gradient, W @ X, G(X)
        X, before = X + mixed - (before + last) / 2 - a * (gradient - old), X


def pgextra(W, costs, X, solver):
    a, G = solver.step_size, costs.smooth
    before, last, old = X, W @ X, G(X)
    V = last - a * old
    while True:
        X = costs.prox(V, a)
        yield X
        mixed, gradient = W @ X, G(X)
        V = V + mixed - (before + last) / 2 - a * (gradient - old)
        before, last, old = X, mixed, gradient


def nids(W, costs, X, solver):
    a, G = solver.step_size, costs.smooth
    before, old = X, G(X)
    Z = X - a * old
    Z = (Z + W @ Z) / 2
    while True:
        X = costs.prox(Z, a)
        yield X
        gradient = G(X)
        moved = 2 * X - before - a * gradient + a * old
        Z = Z - X + (moved + W @ moved) / 2
        before, old = X, gradient


def exact_diffusion(W, costs, X, solver):
    a, G, before = solver.step_size, costs.gradient, X
    while True:
        P = X - a * G(X)
        moved = P + X - before
        X, before = (moved + W @ moved) / 2, P
        yield X


def prox_gt(W, costs, X, solver):
    a, Y, before = solver.step_size, 0 * X, 0 * X
    while True:
        new = costs.smooth(X)
        Y, before = W @ (Y + new - before), new
        X = W @ costs.prox(X - a * Y, a)
        yield X


def wang_elia(W, costs, X, solver):
    a, G, Z = solver.step_size, costs.gradient, 0 * X
    while True:
        both = np.concatenate([X, Z], axis=1)
        KX, KZ = np.split((both - W @ both) / 2, 2, axis=1)
        X, Z = X - KX - KZ - a * G(X), Z + KX
        yield X


def acc_gt(W, costs, X, solver):
    a, G = solver.step_size, costs.gradient
    theta = np.sqrt(solver.convexity * a) / 2
    q = solver.convexity * a / theta
    Z, S, before = X, 0 * X, 0 * X
    while True:
        Y = theta * Z + (1 - theta) * X
        gradient = G(Y)
        S = W @ S + gradient - before
        before = gradient
        Z = (W @ (q * Y + Z) - (a / theta) * S) / (1 + q)
        X = theta * Z + (1 - theta) * (W @ X)
        yield X


def opapc(W, costs, X, solver):
    a, G, m, t = solver.step_size, costs.gradient, solver.convexity, solver.momentum
    ahead, Y = X, 0 * X
    while True:
        middle = t * X + (1 - t) * ahead
        pull = X - a * (G(middle) - m * middle)
        predicted = (pull - a * Y) / (1 + a * m)
        Y = Y + solver.dual * (predicted - W @ predicted)
        new = (pull - a * Y) / (1 + a * m)
        X, ahead = new, middle + 2 * t / (2 - t) * (new - X)
        yield X


def network_giant(W, costs, X, solver, systems=Costs.solved):
    a, G, solved = solver.step_size, costs.gradient, systems(costs, solver.damping)
    Y = before = G(X)
    while True:
        X = W @ (X - a * solved(Y))
        new = G(X)
        Y, before = W @ (Y + new - before), new
        yield X


def kgt(W, costs, X, solver):
    a, K, C = solver.step_size, solver.local_steps, 0 * X
    while True:
        x = X
        for _ in range(K):
            x = x - a * (costs.gradient(x) + C)
        Z = (X - x) / (K * a)
        X, C = W @ (X - K * a * solver.scale * Z), C - Z + W @ Z
        yield X


def led(W, costs, X, solver):
    a, t, Y = solver.step_size, solver.local_steps, 0 * X
    while True:
        P = X
        for _ in range(t):
            P = P - a * costs.gradient(P) - Y / t
        X = (P + W @ P) / 2
        Y = Y + P - X
        yield X


def prox_skip(W, costs, X, solver):
    a, p, Y = solver.step_size, solver.probability, 0 * X
    coins = [solver.communicates(k) for k in range(10_000)]  # in advance: to draw one by one takes longer than a round
    for coin in itertools.cycle(coins):
        X = X - a * costs.gradient(X) - Y
        if coin:
            Z, X = X, (X + W @ X) / 2
            Y = Y + p * (Z - X)
        yield X


def auto_gt(W, costs, X, solver):
    G, a = costs.gradient, np.full((len(X), 1), 1e-3)
    Y, before, first = G(X), a, True
    old = Y
    while True:
        new = W @ (X - a * Y)
        gradient = G(new)
        turned = W @ (Y + gradient - old)
        after = a
        if not first:
            seen = np.linalg.norm(new - X, axis=1) / (2 * np.linalg.norm(turned - Y, axis=1))
            after = np.minimum(np.sqrt(1 + a / before) * a, seen[:, None])
        X, Y, old, before, a, first = new, turned, gradient, a, after, False
        yield X


def datos(W, costs, X, solver):
    agents, S, D, a, k = len(X), 0 * X, 0 * X, 1.0, 0
    while True:
        gradient = costs.smooth(X)
        value = costs.value(X)
        dual = gradient + S + D
        Xh, Dh = 0.51 * X + 0.49 * (W @ X), 0.51 * dual + 0.49 * (W @ dual)
        steps, open_ = np.full(agents, ((k + 10) / (k + 1)) ** 0.6 * a), np.ones(agents, bool)
        while open_.any():
            trial = Xh - steps[:, None] * Dh
            move = trial - X
            new = costs.value(trial)
            most = value + (gradient * move).sum(axis=1) + 0.9 / (2 * steps) * (move * move).sum(axis=1)
            open_ &= ~(new <= most + 1e-13 * abs(value))
            steps[open_] /= 2
        a, k = steps.min(), k + 1
        new = costs.prox(Xh - a * Dh + a * S, a)
        S, D, X = S + (Xh - new) / a - Dh, Dh + (X - Xh) / a - gradient - S, new
        yield X
