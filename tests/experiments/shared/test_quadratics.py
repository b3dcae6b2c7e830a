"""Risks of quadratic networks for Gaussians: least squares on samples, averages over starts, and limits of large dimensions."""

import numpy as np
import pytest
from scipy.linalg import null_space

import consensus
from consensus.models import linearize
from experiments import tangent
from experiments.shared import quadratics

pytestmark = pytest.mark.slow

D = 12
B = quadratics.matrix(D, seed=0)


def drawn(units, seed=0, d=D):
    return np.random.default_rng(seed).standard_normal((d, units)) / np.sqrt(d)


def expected_tangent(B, units):
    """The mean of the tangent's least risk over directions of the w_i, for any d.

    For the projection P on a uniform subspace of dimension m = d - N, with D the identity,

        E P_ij P_kl = alpha D_ij D_kl + beta (D_ik D_jl + D_il D_jk),

    where (tr P)^2 = m^2 and tr P^2 = m give alpha and beta.
    """
    d, trace = len(B), np.trace(B)
    m = d - min(units, d)
    alpha = m * (m * (d + 1) - 2) / (d * (d - 1) * (d + 2))
    beta = (m - alpha * d) / (d * (d + 1))
    return 2 * float((alpha + beta) * np.square(B).sum() + beta * trace**2)


def least(B, spanned):
    """The least of 2 |B - M|^2 over the span of matrices, by least squares on all their entries."""
    columns = np.array([M.ravel() for M in spanned]).T
    best = np.linalg.lstsq(columns, B.ravel(), rcond=None)[0]
    return 2 * np.square(B.ravel() - columns @ best).sum()


def test_targets_have_variance_one_and_mean_zero_and_risks_are_norms():
    """E (x'Sx)^2 for normal x, by the fourth moments of Gaussians: 2 |S|^2 + (tr S)^2."""
    np.testing.assert_allclose(2 * np.square(B).sum(), 1, rtol=1e-12)
    eye = np.eye(D)
    moments = sum(np.einsum(rule, eye, eye) for rule in ("ij,kl->ijkl", "ik,jl->ijkl", "il,jk->ijkl"))
    np.testing.assert_allclose(np.einsum("ij,kl,ijkl", B, B, moments) - np.trace(B) ** 2, 1, rtol=1e-12)
    case = quadratics.case(4, 3, seed=1)
    X, y = case.test
    assert abs(y.mean()) < 4 / np.sqrt(len(y))
    assert abs(y.var() - 1) < 0.1
    own = quadratics.matrix(quadratics.DIMENSION, 1)
    np.testing.assert_allclose(y[:5], [x @ own @ x - np.trace(own) for x in X[:5]], rtol=1e-12)


@pytest.mark.parametrize("units", [1, 5, 11, 12, 15])
def test_least_risks_are_those_of_least_squares_on_what_a_regime_spans(units):
    W = drawn(units)
    outer = [np.outer(w, w) for w in W.T]
    np.testing.assert_allclose(quadratics.by_features(B, W), least(B, outer), rtol=1e-9)
    moved = [np.outer(w, e) + np.outer(e, w) for w in W.T for e in np.eye(D)]
    np.testing.assert_allclose(quadratics.by_tangent(B, W), least(B, moved), rtol=1e-9, atol=1e-14)
    singular = np.linalg.svd(B, compute_uv=False)
    np.testing.assert_allclose(quadratics.by_network(B, units), 2 * np.square(singular[units:]).sum(), rtol=1e-12)
    found = [quadratics.by_network(B, units), quadratics.by_tangent(B, W), quadratics.by_features(B, W)]
    assert found == sorted(found)  # each regime has the functions of the next one


@pytest.mark.parametrize("units", [2, 6, 11])
def test_the_tangents_mean_risk_is_that_of_random_subspaces(units):
    """Of 3,000 subspaces, drawn as null spaces; to four standard errors."""
    risks = []
    for seed in range(3000):
        rest = null_space(drawn(units, seed).T)
        risks.append(2 * np.square(rest.T @ B @ rest).sum())
    error = np.std(risks) / np.sqrt(len(risks))
    assert abs(np.mean(risks) - expected_tangent(B, units)) < 4 * error
    np.testing.assert_allclose(expected_tangent(B, 0), 1, rtol=1e-12)
    assert expected_tangent(B, D) == 0


@pytest.mark.parametrize("ratio", [0.25, 0.5, 0.75, 1.5])
def test_limits_are_approached_as_dimensions_grow(ratio):
    """Mean distances from the limit over ten matrices and starts: in 200 dimensions less than half of those in 25."""
    distances = []
    for d in (25, 200):
        units, found = int(ratio * d), []
        for seed in range(10):
            own, W = quadratics.matrix(d, seed), drawn(units, seed, d)
            limit = quadratics.limits(own, units / d)
            found.append(np.abs([quadratics.by_features(own, W) - limit[0], quadratics.by_tangent(own, W) - limit[1]]))
            np.testing.assert_allclose(expected_tangent(own, units), limit[1], atol=1.5 / d)
        distances.append(np.mean(found, axis=0))
    assert (distances[1] < 0.015).all()
    assert distances[1][0] < distances[0][0] / 2
    assert distances[1][1] < distances[0][1] / 2 or ratio > 1


def test_cases_of_the_regimes_have_the_risks_of_theory():
    """Least squares on samples of the features that the experiment makes: a little above the least risk, by the ratio of
    coefficients to samples."""
    case, seed, units = quadratics.case(10, 3, seed=0), 0, 10
    model = case.problem.model
    W = model.init(np.random.default_rng(seed))[: model.widths[0] * units].reshape(-1, units)
    own = quadratics.matrix(quadratics.DIMENSION, 0)
    for regime, risk, free in (
        (tangent.tangent, quadratics.by_tangent, units * quadratics.DIMENSION),
        (tangent.random_features, quadratics.by_features, units),
    ):
        linear = regime(case, seed)
        features, targets = tangent._with_bias(linear.problem)
        best = np.linalg.lstsq(features, targets, rcond=None)[0]
        inside, outside = linear.test
        inside = np.column_stack([inside, np.ones(len(inside))]) if linear.problem.model.bias else inside
        found = np.mean((inside @ best - outside) ** 2)
        excess = 1 + free / quadratics.SAMPLES
        np.testing.assert_allclose(found, excess * risk(own, W), rtol=0.03)


def test_random_features_are_the_networks_last_layer():
    case = quadratics.case(7, 4, seed=2)
    model, start = case.problem.model, case.problem.model.init(np.random.default_rng(5))
    last = model.matrices[1][0]
    linear = tangent.random_features(case, seed=5)
    np.testing.assert_allclose(
        linear.problem.model.predict(start[last:], linear.test[0]), model.predict(start, case.test[0]), rtol=0, atol=1e-12
    )
    assert isinstance(linear.problem.model, consensus.Linear)
    X = case.test[0][:5]
    jacobian = linearize(model, start[None], X[None])[1].jacobian()[0]
    np.testing.assert_allclose(jacobian[:, last:-1], linear.test[0][:5], rtol=0, atol=1e-12)
