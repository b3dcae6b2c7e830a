"""The weights of what an agent held during a round: against least squares with the noise written out matrix by matrix."""

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


def matrix(name):
    """W of a graph; of "turning" one that is doubly stochastic and not symmetric."""
    if name == "turning":
        shift = np.roll(np.eye(7), 1, axis=0)
        return 0.5 * np.eye(7) + 0.3 * shift + 0.2 * shift @ shift
    return topologies.Static(GRAPHS[name]).weights(0).toarray()


def powers(W, K):
    """W^0 ... W^K."""
    return np.array([np.linalg.matrix_power(W, k) for k in range(K + 1)])


def found(W, K, what="points"):
    """The weights of all agents, of probes that are the unit vectors, and the misfits."""
    probes = powers(W, K).swapaxes(0, 1)
    return filters.weights(probes, np.full(len(W), 1 / len(W)), what)


def stacked(W, K, agent, noise):
    """What an agent's weights c multiply, (rows, K + 1): the agents' data, then ``noise`` times every message's rounding."""
    A, P = len(W), powers(W, K)
    rounding = [
        np.stack([P[k - n] @ (np.eye(A) - W) if k >= n else np.zeros((A, A)) for k in range(K + 1)]) for n in range(1, K + 1)
    ]
    return np.concatenate([P[:, agent].T, *(noise * block[:, agent].T for block in rounding)])


@pytest.mark.parametrize("what", ["points", "products"])
@pytest.mark.parametrize("K", [1, 3, 6])
@pytest.mark.parametrize("name", [*GRAPHS, "turning"])
def test_they_are_the_least_squares_of_the_docstring(name, K, what):
    W = matrix(name)
    c, misfit = found(W, K, what)
    assert c.shape == (len(W), K + 1)
    np.testing.assert_allclose(c.sum(axis=1), 1, rtol=0, atol=1e-12)
    across = scipy.linalg.null_space(np.ones((1, K + 1)))  # weights that sum to one: the last, and what sums to zero
    last = np.eye(K + 1)[K]
    for agent in range(len(W)):
        rows = stacked(W, K, agent, filters._ROUNDING[what])
        goal = np.zeros(len(rows))
        goal[: len(W)] = 1 / len(W)
        b = scipy.linalg.lstsq(rows @ across, goal - rows @ last)[0]
        least = np.linalg.norm(rows @ (last + across @ b) - goal) / np.sqrt(1 - 1 / len(W))
        assert misfit[agent] == pytest.approx(least, abs=2e-6)  # they add a ridge of 1e-12 to the squares
        np.testing.assert_allclose(rows @ c[agent], rows @ (last + across @ b), rtol=0, atol=2e-6)


@pytest.mark.parametrize("what", ["points", "products"])
@pytest.mark.parametrize("name", [*GRAPHS, "turning"])
def test_the_misfit_falls_with_every_exchange(name, what):
    misfits = np.array([found(matrix(name), K, what)[1] for K in range(1, 17)])
    assert (np.diff(misfits, axis=0) <= 1e-9).all()
    assert misfits[-1].max() < 0.2 * misfits[0].max()


@pytest.mark.parametrize("agents", [2, 5, 8])
def test_without_rounding_a_path_is_averaged_exactly_in_as_many_exchanges_as_it_has_edges(agents, monkeypatch):
    monkeypatch.setattr(filters, "_ROUNDING", {"points": 0.0})
    W, data = topologies.Static(topologies.path(agents)).weights(0).toarray(), np.random.default_rng(0).standard_normal(agents)
    held = powers(W, agents - 1) @ data
    c, misfit = found(W, agents - 1)
    np.testing.assert_allclose(np.einsum("ak,ka->a", c, held), data.mean(), rtol=0, atol=1e-5)
    assert (misfit < 1e-5).all()
    if agents > 2:
        assert found(W, agents - 2)[1][0] > 1e-2  # the end of the path has not heard from the other one


def test_they_make_of_rounded_messages_what_their_misfit_says():
    """Data of variance one, rounding of a hundredth: the mean square error over many draws is the square of the misfit."""
    W, K, rng, draws = matrix("random"), 5, np.random.default_rng(3), 4000
    c, misfit = found(W, K)
    start = rng.standard_normal((len(W), draws))
    z, estimate = start, c[:, 0, None] * start
    for k in range(1, K + 1):
        lost = filters._ROUNDING["points"] * rng.standard_normal(z.shape)
        z = W @ (z - lost) + lost
        estimate = estimate + c[:, k, None] * z
    error = np.sqrt(np.square(estimate - start.mean(axis=0)).mean(axis=1))
    np.testing.assert_allclose(error, misfit * np.sqrt(1 - 1 / len(W)), rtol=0.06)


def test_products_are_rounded_in_larger_units_and_so_their_weights_suppress_more_of_it():
    W, K = matrix("path"), 6
    noise = [np.linalg.norm(stacked(W, K, 0, 1.0)[len(W) :] @ found(W, K, what)[0][0]) for what in ("points", "products")]
    assert noise[1] < 0.5 * noise[0]


def test_of_few_agents_each_has_a_probe_and_of_many_they_are_signs():
    np.testing.assert_array_equal(filters.draw(filters.PROBES), np.eye(filters.PROBES))
    many = filters.draw(100)
    assert many.shape == (100, filters.PROBES)
    np.testing.assert_array_equal(np.abs(many), 1 / np.sqrt(filters.PROBES))
    assert abs(many.mean()) < 0.01
    np.testing.assert_array_equal(many, filters.draw(100))


@pytest.mark.parametrize("K", [4, 8])
def test_random_probes_lead_to_nearly_the_weights_that_all_probes_would(K):
    A = 100
    W = topologies.Static(topologies.small_world(A, 6, 0.3, seed=1)).weights(0).toarray()
    probes, P = filters.draw(A), powers(W, K)
    c, misfit = filters.weights((P @ probes).swapaxes(0, 1), probes.mean(axis=0), "points")
    best = found(W, K)[1]
    left = np.linalg.norm(np.einsum("ak,kab->ab", c, P) - 1 / A, axis=1)
    assert (left < 1.25 * best).all()  # the misfit among all agents of what was found among the probes
    assert np.median(misfit / best) == pytest.approx(1, abs=0.15)


def test_one_agent_has_its_average():
    c, misfit = found(np.ones((1, 1)), 4)
    assert misfit.tolist() == [0]
    assert c.sum() == pytest.approx(1, abs=1e-12)
