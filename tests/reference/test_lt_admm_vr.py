"""LT-ADMM-VR: its plain statement with every sample by itself, LT-ADMM without noise, and its limits."""

import numpy as np
import pytest

import consensus
from consensus import Minibatches, solvers
from consensus.problems import Batch
from consensus.solvers import LTADMMVR
from tests.helpers.problems import problem, smooth_optimum
from tests.helpers.steps_by_hand import MLP
from tests.helpers.stochastic import LAZY, assert_equal_methods, assert_iterates, curved

W = LAZY.weights(0).toarray()


@pytest.mark.slow
@pytest.mark.parametrize("model", [MLP, consensus.Linear(4)], ids=["MLP", "Linear"])
def test_it_follows_its_equation(model):
    p, rule, gamma, K = curved(model), Minibatches(4, 3), 0.05, 3

    def alone(X):
        """A times the samples' gradients (samples, agents, P)."""
        return 6 * np.array([p.gradient(X, Batch(np.full((6, 1), m), np.ones((6, 1)))) for m in range(16)])

    def step(n, X, U):
        lean = (X - W @ X) / (2 * K * gamma)
        U, V, H = U + lean, X, alone(X)
        for k in range(K):
            places, weights = rule.at(p, K * n + k)
            E, new = H.sum(axis=0) + 0.01 * V, alone(V)
            owns = [places[agent][weights[agent] > 0] for agent in range(6)]
            for agent, own in enumerate(owns):
                E[agent] += p.shards.sizes[agent] / len(own) * (new[own, agent] - H[own, agent]).sum(axis=0)
            V = V - gamma * (E + U + lean)
            new = alone(V)
            for agent, own in enumerate(owns):
                H[own, agent] = new[own, agent]
        return V, U

    assert_iterates(LTADMMVR(gamma, K, rule), p, LAZY, step, lambda X: (0 * X,), rounds=8)


def test_with_all_samples_it_is_lt_admm():
    one, other = LTADMMVR(0.05, 4, batch=16, penalty=3.0), solvers.LTADMM(0.05, 4, penalty=3.0)
    assert_equal_methods(curved(), (one, LAZY), (other, LAZY))


@pytest.mark.slow
def test_its_noise_vanishes():
    """A constant step and single samples reach the optimum to rounding; LED with batches does not."""
    p = problem("squared", consensus.L2(0.1))
    run = consensus.solve(p, LAZY, LTADMMVR(0.05), rounds=1500, record_every=100, tolerance=1e-11)
    np.testing.assert_allclose(run.w, np.tile(smooth_optimum(p), (6, 1)), rtol=0, atol=1e-9)
    noisy = consensus.solve(p, LAZY, solvers.LED(0.05, batch=1), rounds=300, record_every=100).history["stationarity"][-1]
    assert noisy > 1e-3


def test_what_it_cannot_take_is_refused_with_what_works():
    with pytest.raises(TypeError, match="got None: LTADMM takes all samples"):
        LTADMMVR(0.05, batch=None)
    p = curved()
    wide = consensus.Problem(consensus.MLP([4, 500_000, 1]), p.loss, p.shards)
    with pytest.raises(ValueError, match=r"LTADMMVR remembers 3,000,001 numbers of every sample .* use GTHSGD"):
        LTADMMVR(0.05).check(wide)
    solvers.GTHSGD(0.05).check(wide)
    bare = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=6, parameters=2)
    with pytest.raises(TypeError, match="LTADMMVR needs a model"):
        consensus.solve(bare, LAZY, LTADMMVR(0.05), rounds=1)
