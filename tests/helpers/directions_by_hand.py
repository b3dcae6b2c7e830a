"""Methods with directions as their papers state them: loops over agents, matrices and coordinates' vectors, in plain NumPy."""

import numpy as np


def gt_adam(gradients, W, x, alpha, rounds, betas=(0.9, 0.999), eps=1e-8, most=1e6):
    """GTAdam: trackers s, means m and v of theirs, and one exchange of x and s a round."""
    agents, (one, two) = len(x), betas
    old = gradients(x)
    s, m, v = old.copy(), np.zeros_like(x), np.zeros_like(x)
    for _ in range(rounds):
        d = np.empty_like(x)
        for i in range(agents):
            m[i] = one * m[i] + (1 - one) * s[i]
            v[i] = np.minimum(two * v[i] + (1 - two) * s[i] * s[i], most)
            d[i] = np.diag(1 / np.sqrt(v[i] + eps)) @ m[i]
        x = np.array([sum(W[i, j] * x[j] for j in range(agents)) - alpha * d[i] for i in range(agents)])
        new = gradients(x)
        s = np.array([sum(W[i, j] * s[j] for j in range(agents)) for i in range(agents)]) + new - old
        old = new
    return x


def adam_w(m, v, t, g, x, betas=(0.9, 0.999), eps=1e-8, decay=0.01):
    """Adam's new means, and AdamW's direction, at step t = 1, 2, ..."""
    one, two = betas
    m, v = one * m + (1 - one) * g, two * v + (1 - two) * g**2
    return m, v, (m / (1 - one**t)) / (np.sqrt(v / (1 - two**t)) + eps) + decay * x


def decentralised_adam_w(gradients, W, x, alpha, rounds, decay=0.01):
    """Each agent averages with its neighbours, then makes its own step of AdamW."""
    m, v = np.zeros_like(x), np.zeros_like(x)
    for t in range(1, rounds + 1):
        g, mixed = gradients(x), np.array([sum(W[i, j] * x[j] for j in range(len(x))) for i in range(len(x))])
        for i in range(len(x)):
            m[i], v[i], d = adam_w(m[i], v[i], t, g[i], x[i], decay=decay)
            mixed[i] -= alpha * d
        x = mixed
    return x


def newton_schulz(B, steps=5, a=3.4445, b=-4.775, c=2.0315):
    """The factor of B after some steps: its singular vectors with a polynomial of its singular values."""
    U, values, V = np.linalg.svd(B, full_matrices=False)
    values = values / np.linalg.norm(B)
    for _ in range(steps):
        values = a * values + b * values**3 + c * values**5
    return U @ np.diag(values) @ V


def de_muon(gradients, W, x, eta, rounds, theta, matrices, vectors):
    """DeMuon: trackers V of the momenta M, both zero before the first round.

    ``matrices`` are (start, m, k) of layers' weights (m, k) in the parameter vector. For other coordinates, ``vectors``, which
    the paper has none of, the direction is AdamW's without decay, of trackers of the gradients.
    """
    agents = len(x)

    def mixed(rows):
        return np.array([sum(W[i, j] * rows[j] for j in range(agents)) for i in range(agents)])

    V, M, Y, old, m, v = (np.zeros_like(x) for _ in range(6))
    for t in range(1, rounds + 1):
        new = gradients(x)
        new_M = (1 - theta) * M + theta * new
        V, Y = mixed(V + new_M - M), mixed(Y + new - old)
        M, old = new_M, new
        d = np.zeros_like(x)
        for i in range(agents):
            for start, rows, columns in matrices:
                part = slice(start, start + rows * columns)
                d[i, part] = newton_schulz(V[i, part].reshape(rows, columns)).ravel()
            m[i], v[i], own = adam_w(m[i], v[i], t, Y[i], x[i], decay=0.0)
            d[i, vectors] = own[vectors]
        x = mixed(x - eta * d)
    return x
