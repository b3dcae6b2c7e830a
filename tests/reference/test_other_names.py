"""Methods that are settings of others, under their papers' names: their own statements, round by round."""

import numpy as np
import pytest

import topologies
from consensus.directions import Momentum
from consensus.solvers import Gossip, GradientTracking
from tests.helpers.steps_by_hand import states
from tests.helpers.stochastic import LAZY, RULE, assert_iterates, curved

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
