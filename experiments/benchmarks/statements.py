"""Updates of the exact methods as a user of NumPy would write them down, to compare with: generators of iterates.

Arguments: the mixing matrix W (an array: for so few agents it is faster than a sparse one), the costs, the iterates X to begin
with, and the solver, prepared, for its settings. What stays the same in all rounds is computed once.
"""

import itertools

import numpy as np

RIDGE = 0.1


class Costs:
    """Least squares of a linear model with L2, in NumPy: ``f_i = A g_i + r`` of agents with samples x (agents, n, m), d."""

    def __init__(self, features, targets, weights, ridge=RIDGE):
        ones = np.ones((*features.shape[:2], 1), features.dtype)
        self.x, self.d, self.scale = np.concatenate([features, ones], axis=2), targets, len(features) * weights[:, :, None]
        self.ridge = ridge

    def smooth(self, w):
        """The gradients of A g_i, without r."""
        residuals = self.x @ w[:, :, None] - self.d
        return (self.x.swapaxes(1, 2) @ (self.scale * residuals))[:, :, 0]

    def gradient(self, w):
        return self.smooth(w) + self.ridge * w

    def value(self, w):
        """A g_i, without r."""
        residuals = self.x @ w[:, :, None] - self.d
        return (self.scale * residuals**2).sum(axis=(1, 2)) / 2

    def prox(self, V, a):
        return V / (1 + self.ridge * a)

    def solved(self, shift):
        """The function ``B -> (H + shift I)^-1 B`` for the Hessians H of the f_i, which solves these systems in every round."""
        hessians = self.hessians(shift)
        return lambda B: np.linalg.solve(hessians, B[:, :, None])[:, :, 0]

    def inverted(self, shift):
        """The same with inverses that are kept: faster, and where H is badly conditioned less exact."""
        inverses = np.linalg.inv(self.hessians(shift))
        return lambda B: (inverses @ B[:, :, None])[:, :, 0]

    def hessians(self, shift=0.0):
        hessians = self.x.swapaxes(1, 2) @ (self.scale * self.x)
        return hessians + (self.ridge + shift) * np.eye(self.x.shape[2], dtype=self.x.dtype)


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


def network_giant(W, costs, X, solver, systems=Costs.solved):
    a, G, solved = solver.step_size, costs.gradient, systems(costs, solver.damping)
    Y = before = G(X)
    while True:
        X = W @ (X - a * solved(Y))
        new = G(X)
        Y, before = W @ (Y + new - before), new
        yield X


def newton_tracking(W, costs, X, solver, systems=Costs.solved):
    c, U = solver.penalty, 0 * X
    solved = systems(costs, solver.damping)
    while True:
        apart = c * (X - W @ X)
        U = U + apart
        X = X - solved(costs.gradient(X) + U + apart)
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
