"""Direct feedback alignment by plain loops in NumPy."""

import itertools

import numpy as np

AGENTS, SAMPLES, WIDTHS, SEED = 3, 6, [5, 7, 4, 3], 2
SLOPES = {  # of an activation at a, and the activation
    "tanh": (np.tanh, lambda a: 1 - np.tanh(a) ** 2),
    "relu": (lambda a: np.maximum(a, 0), lambda a: a > 0),
    "sigmoid": (lambda a: 1 / (1 + np.exp(-a)), lambda a: np.exp(-a) / (1 + np.exp(-a)) ** 2),
    "softplus": (lambda a: np.log(1 + np.exp(a)), lambda a: 1 / (1 + np.exp(-a))),
    "quadratic": (np.square, lambda a: 2 * a),
}


def feedback(outputs, widths, seed):
    """The matrices: the first columns of one, each divided by the root of its width."""
    R = np.random.default_rng(seed).standard_normal((outputs, max(widths))) / np.sqrt(outputs)
    return [R[:, :width] / np.sqrt(width) for width in widths]


def by_hand(widths, activation, w, x, u, seed=SEED):
    """The direction of one agent, sample by sample: outer products of a layer's inputs and its error."""
    function, slope = SLOPES[activation]
    matrices, direction = feedback(widths[-1], widths[1:-1], seed), np.zeros_like(w)
    for sample, e in zip(x, u):
        h, start = sample, 0
        for layer, (m, k) in enumerate(itertools.pairwise(widths)):
            end = start + m * k
            a = h @ w[start:end].reshape(m, k) + w[end : end + k]
            d = e if layer == len(matrices) else (e @ matrices[layer]) * slope(a)
            direction[start:end] += np.outer(h, d).ravel()
            direction[end : end + k] += d
            h, start = function(a), end + k
    return direction


def drawn(parameters, outputs, shape=(WIDTHS[0],), seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((AGENTS, *size)) for size in ((parameters,), (SAMPLES, *shape), (SAMPLES, outputs))]
