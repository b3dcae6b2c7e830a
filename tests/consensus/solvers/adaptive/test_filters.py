"""The weights of a round: against least squares with the noise written out matrix by matrix."""

import numpy as np
import pytest
import scipy.linalg

import topologies
from consensus.solvers.adaptive import filters

GRAPHS = {
    "path": topologies.path(7),
    "star": topologies.star(6),
    "ring": topologies.ring(9),
    "random": topologies.erdos_renyi(8, 0.4, seed=5),
}
WORLD = topologies.small_world(100, 6, 0.3, seed=1)
shift = np.roll(np.eye(7), 1, axis=0)
MATRICES = {name: topologies.Static(graph).weights(0).toarray() for name, graph in GRAPHS.items()} | {
    "asymmetric": 0.5 * np.eye(7) + 0.3 * shift + 0.2 * shift @ shift
}
both = pytest.mark.parametrize("what", ["points", "products"])
every = pytest.mark.parametrize("name", MATRICES)


def powers(W, K):
    """Return W^0 ... W^K."""
    return np.array([np.linalg.matrix_power(W, k) for k in range(K + 1)])


def found(W, K, what="points"):
    """Return the weights of all agents, from unit vectors as probes, and the misfits."""
    return filters.weights(powers(W, K).swapaxes(0, 1), np.full(len(W), 1 / len(W)), what)


def stacked(W, K, agent, noise):
    """Return what an agent's weights multiply, (rows, K + 1): all data, then ``noise`` times the rounding of every message."""
    A, P = len(W), powers(W, K)
    rounding = [
        np.stack([P[k - n] @ (np.eye(A) - W) if k >= n else np.zeros((A, A)) for k in range(K + 1)]) for n in range(1, K + 1)
    ]
    return np.concatenate([P[:, agent].T, *(noise * block[:, agent].T for block in rounding)])


@both
@pytest.mark.parametrize("K", [1, 3, 6])
@every
def test_they_are_the_least_squares_of_the_docstring(name, K, what):
    W = MATRICES[name]
    c, misfit = found(W, K, what)
    assert c.shape == (len(W), K + 1)
    np.testing.assert_allclose(c.sum(axis=1), 1, rtol=0, atol=1e-12)
    across = scipy.linalg.null_space(np.ones((1, K + 1)))  # weights that sum to one: the last, and what sums to zero
    last = np.eye(K + 1)[K]
    for agent in range(len(W)):
        rows = stacked(W, K, agent, filters._ROUNDING[what])
        goal = np.zeros(len(rows))
        goal[: len(W)] = 1 / len(W)
        best = last + across @ scipy.linalg.lstsq(rows @ across, goal - rows @ last)[0]
        least = np.linalg.norm(rows @ best - goal) / np.sqrt(1 - 1 / len(W))
        assert misfit[agent] == pytest.approx(least, abs=2e-6)  # they add a ridge of 1e-12 to the squares
        np.testing.assert_allclose(rows @ c[agent], rows @ best, rtol=0, atol=2e-6)


@both
@every
def test_the_misfit_falls_with_every_exchange(name, what):
    misfits = np.array([found(MATRICES[name], K, what)[1] for K in range(1, 17)])
    assert (np.diff(misfits, axis=0) <= 1e-9).all()
    assert misfits[-1].max() < 0.2 * misfits[0].max()


def test_each_of_few_agents_has_a_probe_and_many_have_signs():
    np.testing.assert_array_equal(filters.draw(filters.PROBES), np.eye(filters.PROBES))
    many = filters.draw(100)
    assert many.shape == (100, filters.PROBES)
    np.testing.assert_array_equal(np.abs(many), 1 / np.sqrt(filters.PROBES))
    assert abs(many.mean()) < 0.01
    np.testing.assert_array_equal(many, filters.draw(100))


@pytest.mark.parametrize("K", [4, 8])
def test_random_probes_lead_to_nearly_the_weights_of_all_probes(K):
    W, probes = topologies.Static(WORLD).weights(0).toarray(), filters.draw(100)
    P, best = powers(W, K), found(W, K)[1]
    c, misfit = filters.weights((P @ probes).swapaxes(0, 1), probes.mean(axis=0), "points")
    missed = np.linalg.norm(np.einsum("ak,kab->ab", c, P) - 1 / 100, axis=1)
    assert (missed < 1.25 * best).all()
    assert np.median(misfit / best) == pytest.approx(1, abs=0.15)


def test_one_agent_has_its_average():
    c, misfit = found(np.ones((1, 1)), 4)
    assert misfit.tolist() == [0]
    assert c.sum() == pytest.approx(1, abs=1e-12)
