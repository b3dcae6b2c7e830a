"""Quadratic functions of Gaussians, learned by networks with quadratic activations in three regimes, and the risk in theory.

Samples x are normal in R^d, targets ``x' B x - tr B`` with a symmetric B, networks ``c + sum_i a_i (w_i . x)^2`` with N units:
``x' M x`` up to the constant. As x' S x has the variance 2 |S|^2, the risk with the best c is 2 |B - M|^2, in Frobenius's norm.

- Random features train a and c: M is in the span of the w_i w_i'.
- The tangent at the start moves the w_i, too, by steps v_i: M is any sum of w_i v_i' + v_i w_i'.
- The network has any M of rank N.
"""

import numpy as np
from scipy.stats import ortho_group

import consensus
from experiments.shared.cases import Case

DIMENSION = 30  # d
SAMPLES, TESTS = 12_000, 20_000


def matrix(dimension, seed):
    """B in random directions with exponentially distributed eigenvalues and |B|^2 = 1/2, so that targets have variance 1."""
    rng = np.random.default_rng(seed)
    eigenvalues, vectors = rng.exponential(size=dimension), ortho_group.rvs(dimension, random_state=rng)
    return (vectors * eigenvalues) @ vectors.T / np.sqrt(2 * np.square(eigenvalues).sum())


def case(hidden, agents, seed):
    """A network with quadratic activations, and samples of such a function."""
    rng, B = np.random.default_rng((seed, 1)), matrix(DIMENSION, seed)
    X = rng.standard_normal((SAMPLES + TESTS, DIMENSION))
    y = np.einsum("mi,mi->m", X @ B, X) - np.trace(B)
    model, shards = consensus.MLP([DIMENSION, hidden, 1], "quadratic"), consensus.partition(X[:SAMPLES], y[:SAMPLES], agents)
    return Case(consensus.Problem(model, consensus.SquaredLoss(), shards), (X[SAMPLES:], y[SAMPLES:]))


def by_features(B, W):
    """The least risk of random features, the columns of W (d, N): least squares over a, by the Gram matrix of the w_i w_i'."""
    gram, overlaps = np.square(W.T @ W), np.einsum("di,de,ei->i", W, B, W)
    return 2 * float(np.square(B).sum() - overlaps @ np.linalg.lstsq(gram, overlaps)[0])


def by_tangent(B, W):
    """The least risk of the tangent: what it leaves is B between directions that are orthogonal to all w_i."""
    basis, values, _ = np.linalg.svd(W)
    rest = basis[:, np.count_nonzero(values > 1e-10 * values.max()) :]
    return 2 * float(np.square(rest.T @ B @ rest).sum())


def by_network(B, units):
    """The least risk of any network of so many units: the eigenvalues of B but for the largest ones (Eckart and Young)."""
    return 2 * float(np.sort(np.square(np.linalg.eigvalsh(B)))[: max(len(B) - units, 0)].sum())


def limits(B, ratio):
    """The risks of random features and of the tangent, over that of a constant, for d, N to infinity with N / d = ``ratio``.

    The w_i are normal and isotropic, and tau = tr(B)^2 / (d |B|^2) in [0, 1] is the part of B that is a multiple of the
    identity. The w_i w_i' are then orthogonal but for their common part I / d, and tell of B its trace alone, of which N of
    them find the part N / (N + d). The tangent leaves a random subspace of dimension d - N.

    References
    ----------
    Ghorbani, Mei, Misiakiewicz, Montanari, "Limitations of lazy training of two-layers neural networks", NeurIPS 2019.
    """
    tau, left = np.trace(B) ** 2 / (len(B) * np.square(B).sum()), np.maximum(1 - ratio, 0)
    return 1 - tau * ratio / (1 + ratio), left**2 + tau * ratio * left
