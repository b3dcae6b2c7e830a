"""AccumAdam and methods that are settings of others: their plain statements and laws, round by round."""

import numpy as np
import pytest

import topologies
from consensus.directions import AccumAdam, AdamW, Momentum
from consensus.solvers import DGD, Gossip, GradientTracking
from consensus.testing import check_schedule
from tests.helpers.steps_by_hand import states
from tests.helpers.stochastic import LAZY, RULE, assert_equal_methods, assert_iterates, curved

P, W = curved(), LAZY.weights(0).toarray()


def G(X, k):
    return P.average_gradient(X, RULE.at(P, k))


def test_momentum_tracking_is_tracking_with_momentum_on_a_static_network():
    """Trackers C of the momenta, in the paper; momenta of the trackers here."""
    beta = 0.8

    def step(k, X, C, M):
        X = W @ X - 0.02 * C
        new = beta * M + G(X, k + 1)
        return X, W @ C + new - M, new

    solver = GradientTracking(0.02, "cta", RULE, Momentum(beta))
    assert_iterates(solver, P, LAZY, step, lambda X: (G(X, 0), G(X, 0)))


@pytest.mark.parametrize("exchanges", [2, 4])
def test_detag_is_tracking_in_accelerated_gossip(exchanges):
    """With the exchanges of Chebyshev for those of the paper, whose weights are their limit."""
    gap = topologies.spectral_gap(LAZY.weights(0))
    rho = 1 - gap

    def accelerated(X):
        old, new, before, now = X, W @ X, 1.0, 1 / rho
        for _ in range(exchanges - 1):
            after = 2 * now / rho - before
            old, new = new, 2 * now / (rho * after) * W @ new - before / after * old
            before, now = now, after
        return new

    def step(k, X, Y, g):
        X = accelerated(X - 0.02 * Y)
        new = G(X, k + 1)
        return X, accelerated(Y + new - g), new

    solver = Gossip(GradientTracking(0.02, batch=RULE), exchanges, gap)
    assert_iterates(solver, P, LAZY, step, lambda X: (G(X, 0), G(X, 0)))
    limit = (1 - np.sqrt(1 - rho**2)) / (1 + np.sqrt(1 - rho**2))  # the paper's weight eta of X before
    terms = [1.0, 1 / rho]
    for _ in range(60):
        terms.append(2 * terms[-1] / rho - terms[-2])
    assert terms[-3] / terms[-1] == pytest.approx(limit, rel=1e-9)
    *_, last = states(solver, P, LAZY, 3)
    assert np.isfinite(last.w).all()


# AccumAdam: its plain statement, AdamW with a window of one, and moments of larger batches; the schedule of its paper.


def test_it_follows_its_equation():
    one, two, s = 0.8, 0.95, 3

    def step(n, X, M, V, B):
        g, t = P.average_gradient(X, RULE.at(P, n)), n + 1
        k = -(-t // s)
        m, v = (one * M + (1 - one) * g) / (1 - one**k), (two * V + (1 - two) * g * g) / (1 - two**k)
        new = W @ X - 0.01 * (m / (np.sqrt(v) + 1e-6) + 0.1 * X)
        B = B + g / s
        if t % s == 0:
            M, V, B = one * M + (1 - one) * B, two * V + (1 - two) * B * B, 0 * B
        return new, M, V, B

    solver = DGD(0.01, RULE, AccumAdam((one, two), 1e-6, s, weight_decay=0.1))
    assert_iterates(solver, P, LAZY, step, lambda X: (0 * X, 0 * X, 0 * X))


def test_with_a_window_of_one_it_is_adamw():
    one, other = (DGD(0.01, RULE, direction) for direction in (AccumAdam(window=1, weight_decay=0.1), AdamW(weight_decay=0.1)))
    assert_equal_methods(P, (one, LAZY), (other, LAZY))


def test_at_the_end_of_a_window_its_moments_are_adams_of_the_mean_gradients():
    rng = np.random.default_rng(0)
    gradients, w = rng.standard_normal((12, 2, 5)), np.zeros((2, 5))
    rule, adam = AccumAdam(window=4), AdamW(weight_decay=0.0)
    state, means = rule.init(None, w), adam.init(None, w)
    for g in gradients:
        state, _ = rule.step(None, state, g, w)
    for g in gradients.reshape(3, 4, 2, 5).mean(axis=1):
        means, _ = adam.step(None, means, g, w)
    np.testing.assert_allclose(state.m, means.m, rtol=1e-13)
    np.testing.assert_allclose(state.v, means.v, rtol=1e-13)
    assert not state.b.any()


@pytest.mark.parametrize(
    ("settings", "message"), [({"window": 0}, "window"), ({"betas": (0.9, 1.0)}, r"betas\[1\]"), ({"eps": 0}, "eps")]
)
def test_settings_out_of_bounds_are_refused(settings, message):
    with pytest.raises(ValueError, match=f"{message} of AccumAdam"):
        AccumAdam(**settings)


@pytest.mark.parametrize(("machines", "workers"), [(2, 1), (4, 1), (8, 3), (4, 4)])
def test_a_period_of_the_alternating_exponential_ring_is_the_average(machines, workers):
    network = topologies.AlternatingExponentialRing(machines, workers)
    agents, product = machines * workers, np.eye(machines * workers)
    between = []
    for round in range(network.period):
        matrix = network.weights(network.key(round)).toarray()
        blocks = matrix.reshape(machines, workers, machines, workers).sum(axis=(1, 3))
        between.append(int(np.count_nonzero(np.triu(blocks, 1))))
        product = matrix @ product
    np.testing.assert_allclose(product, 1 / agents, atol=1e-15)
    assert network.period == 2 * np.log2(machines)
    pairs = np.add(between[::2], between[1::2])
    assert pairs.tolist() == [machines // 2] * (network.period // 2)  # every machine once in two rounds
    assert max(between) <= -(-machines // 4)
    check_schedule(network, mixing="symmetric")


def test_its_rounds_are_those_of_the_papers_code():
    """Four machines of two workers: who averages with whom, round by round, written down from the published rule."""
    network = topologies.AlternatingExponentialRing(4, 2)
    groups = [
        [{0, 1}, {2, 3}, {4, 5, 6, 7}],
        [{0, 1, 2, 3}, {4, 5}, {6, 7}],
        [{0, 1}, {4, 5}, {2, 3, 6, 7}],
        [{0, 1, 4, 5}, {2, 3}, {6, 7}],
    ]
    for round, expected in enumerate(groups):
        matrix = np.zeros((8, 8))
        for group in expected:
            matrix[np.ix_(sorted(group), sorted(group))] = 1 / len(group)
        np.testing.assert_allclose(network.weights(network.key(round)).toarray(), matrix, atol=1e-15)


def test_a_number_of_machines_that_is_no_power_of_two_is_refused_with_what_works():
    with pytest.raises(ValueError, match=r"a power of two, got 6; use BaseGraph\(12\)"):
        topologies.AlternatingExponentialRing(6, 2)
    assert topologies.BaseGraph(12).agents == 12
