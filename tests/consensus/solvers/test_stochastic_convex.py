"""NEXT and SONATA on batches."""

import numpy as np
import pytest
from engine_harness import assert_same
from problems import PUSH, problem
from steps_by_hand import SCHEDULES, states
from stochastic import FALLING, LAZY, RULE, curved

import consensus
from consensus.solvers import (
    NEXT,
    SONATA,
)
from consensus.step_sizes import StepDecay
from consensus.surrogates import FullLinearization, PartialLinearization


@pytest.mark.parametrize("surrogate", [FullLinearization(2.0), PartialLinearization(0.5), PartialLinearization(0.3, "local")])
@pytest.mark.parametrize("kind", [NEXT, SONATA])
def test_a_surrogate_of_a_batch_of_everything_is_the_whole_one_to_the_bit(kind, surrogate):
    p = curved()
    whole, batched = (consensus.solve(p, LAZY, kind(surrogate, 0.3, batch=size), rounds=5) for size in (None, 16))
    assert_same(batched, whole)


@pytest.mark.parametrize("kind", [NEXT, SONATA])
def test_next_on_batches_is_what_plain_numpy_makes_of_its_normal_equations(kind):
    """Least squares: the surrogate is ``s c sum_m (x_m . w - d_m)^2 / 2 + ...`` over the batch, its minimiser by a matrix."""
    p, tau, averaging = problem("squared", consensus.L2(0.1), scheme="sizes"), 0.5, StepDecay(1.0, every=2, gamma=0.5)
    solver = kind(PartialLinearization(tau), FALLING, batch=RULE, averaging=averaging)
    network = PUSH if kind is SONATA else LAZY
    found = [state.w for state in states(solver, p, network, 12)]
    C, x, d = network.weights(0).toarray(), p.shards.features, p.shards.targets[:, :, 0]
    x = np.concatenate([x, np.ones((*x.shape[:2], 1))], axis=2)

    def quadratic(k):
        """H, b of the round's costs g_i = w H w / 2 + b w + ..."""
        places, weights = RULE.at(p, k)
        own, c = np.arange(6)[:, None], weights / 60
        D = x[own, places]
        return (D * c[:, :, None]).swapaxes(1, 2) @ D, -np.einsum("asp,as,as->ap", D, c, d[own, places])

    def gradient(X, k):
        H, b = quadratic(k)
        return np.einsum("apq,aq->ap", H, X) + b

    X, mass = found[0], np.ones((6, 1))
    Y = average = gradient(X, 0)
    for k, w in enumerate(found):
        np.testing.assert_allclose(w, X, rtol=0, atol=1e-9)  # the local problems are solved to 1e-8 of what they begin with
        matrix, own = 6 * quadratic(k)[0] + (tau + 0.1) * np.eye(5), (tau * np.eye(5) + 6 * quadratic(k)[0])
        right = np.einsum("apq,aq->ap", own, X) - 6 * Y
        Z = X + FALLING(k) * (np.linalg.solve(matrix, right[:, :, None])[:, :, 0] - X)
        old, mass = mass, C @ mass
        X, before = C @ (old * Z) / mass, average
        rho = np.where(p.shards.sizes > 3, averaging(k + 1), 1.0)[:, None]
        average = (1 - rho) * average + rho * gradient(X, k + 1)
        Y = (C @ (old * Y) + average - before) / mass


@pytest.mark.parametrize("kind", [NEXT, SONATA])
def test_trackers_average_to_the_running_averages(kind):
    solver = kind(PartialLinearization(0.5), 0.2, batch=RULE, averaging=0.3)
    for state in states(solver, curved(), PUSH if kind is SONATA else SCHEDULES["random"], 10):
        sums = (state.y * getattr(state, "mass", 1.0)).sum(axis=0)
        np.testing.assert_allclose(sums, state.average.sum(axis=0), rtol=0, atol=1e-13)


def test_averaging_is_of_batches():
    with pytest.raises(ValueError, match=r"averaging is of gradients from batches: give batch=, or leave averaging=0\.5 out"):
        NEXT(FullLinearization(1.0), 0.5, averaging=0.5)
    with pytest.raises(ValueError, match=r"^averaging must be .* <= 1; got 2\.0"):
        NEXT(FullLinearization(1.0), 0.5, batch=3, averaging=2.0)
