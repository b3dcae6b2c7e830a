"""Exchanges on symmetric weights are Chebyshev's polynomials of the mixing matrix."""

import numpy as np
import pytest
from exchanges import COMMON, PUSH, products
from numpy.polynomial import chebyshev as reference

from consensus.engines.stacked import StackedNetwork
from consensus.solvers.adaptive import chebyshev


@pytest.mark.parametrize("name", COMMON)
def test_they_are_chebyshevs_polynomials_of_the_stretched_matrix(name):
    schedule = COMMON[name]
    network, start = StackedNetwork(schedule, np.float64), np.random.default_rng(0).standard_normal((schedule.agents, 3))
    values, vectors = np.linalg.eigh(schedule.weights(0).toarray())
    a = network.least_eigenvalue
    assert a <= values[0] + 1e-12
    stretched = (2 * values - (1 + a)) / (1 - a)
    assert np.abs(stretched).max() <= 1 + 1e-12
    history = [start]
    for k in range(1, 9):
        history.append(chebyshev.exchange(network, k - 1, history))
        T = vectors * reference.chebval(stretched, np.eye(9)[k]) @ vectors.T
        np.testing.assert_allclose(history[-1], T @ start, rtol=0, atol=1e-12)
    assert network.exchanges == 8


def test_on_other_weights_they_are_plain():
    network, history = StackedNetwork(PUSH, np.float64), [np.eye(PUSH.agents)]
    for k in range(4):
        history.append(chebyshev.exchange(network, k, history))
    np.testing.assert_allclose(history, products(PUSH, 4), rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", COMMON)
def test_a_polynomial_is_the_combination_of_what_was_held(name):
    schedule, rng = COMMON[name], np.random.default_rng(1)
    A, start, b = schedule.agents, rng.standard_normal((schedule.agents, 3)), rng.standard_normal(5)
    network, history = StackedNetwork(schedule, np.float64), [start]
    for k in range(5):
        history.append(chebyshev.exchange(network, k, history))
    expected = history[-1] + np.tensordot(b, np.diff(history, axis=0), 1)
    found = chebyshev.polynomial(network, 0, np.tile(b, (A, 1)), start)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=0), start.sum(axis=0), rtol=0, atol=1e-11)
