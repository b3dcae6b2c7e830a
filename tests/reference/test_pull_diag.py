"""PullDiag: its plain statement, the weighted sum that it conserves, and the networks that it cannot take."""

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.solvers import PullDiag, PushDIGing
from consensus.testing import check_solver
from tests.helpers.problems import CIRCLE, problem, smooth_optimum
from tests.helpers.steps_by_hand import states
from tests.helpers.stochastic import assert_iterates, curved

NETWORK = topologies.Static(CIRCLE, weights=topologies.pull)
R = NETWORK.weights(0).toarray()


def test_it_follows_its_equation():
    p = curved()

    def step(k, X, Y, g, V):
        new = R @ V
        X = R @ X - 0.03 * Y
        after = p.average_gradient(X) / 6
        return X, R @ Y + after / np.diag(new)[:, None] - g / np.diag(V)[:, None], after, new

    first = lambda X: (p.average_gradient(X) / 6, p.average_gradient(X) / 6, np.eye(6))  # noqa: E731
    assert_iterates(PullDiag(0.03), p, NETWORK, step, first)


def test_the_sum_by_the_left_eigenvector_is_that_of_the_corrected_gradients():
    values, vectors = np.linalg.eig(R.T)
    pi = np.real(vectors[:, np.argmax(np.real(values))])
    pi = (pi / pi.sum())[:, None]
    assert pi.max() > 1.5 * pi.min()  # the weights that are to be taken out
    for state in states(PullDiag(0.03), curved(), NETWORK, 40):
        corrected = state.gradient / np.diag(state.power)[:, None]
        np.testing.assert_allclose((pi * state.y).sum(axis=0), (pi * corrected).sum(axis=0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(state.power, np.linalg.matrix_power(R, 40), rtol=0, atol=1e-14)


def test_it_reaches_the_optimum_of_the_unweighted_sum():
    p = problem("logistic", consensus.L2(0.1))
    result = consensus.solve(p, NETWORK, PullDiag(0.2), rounds=5000, record_every=100, tolerance=1e-11)
    np.testing.assert_allclose(result.w, np.tile(smooth_optimum(p), (6, 1)), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_workers_hold_rows_of_the_power():
    check_solver(PullDiag(0.02), engines=[Processes(2)])


def test_networks_that_it_cannot_take_are_refused_with_what_works():
    p = problem("squared", consensus.L2(0.1))

    def run(network, solver=PullDiag(0.02)):  # noqa: B008
        return consensus.solve(p, network, solver, rounds=1)

    with pytest.raises(ValueError, match=r"one mixing matrix for all rounds, .* PushDIGing takes"):
        run(topologies.Periodic([CIRCLE, nx.reverse(CIRCLE)], weights=topologies.pull))
    run(topologies.Periodic([CIRCLE, nx.reverse(CIRCLE)], weights=topologies.push), PushDIGing(0.02))
    ring = nx.DiGraph([(k, (k + 1) % 6) for k in range(6)])
    with pytest.raises(ValueError, match=r"agent 0 gives itself none: topologies\.pull gives"):
        run(topologies.Static(ring, weights=lambda g: topologies.adjacency(g).T))
    run(topologies.Static(ring, weights=topologies.pull))
    path = nx.DiGraph([(k, k + 1) for k in range(5)])
    with (
        pytest.warns(UserWarning, match="strongly connected|condition|connected"),
        pytest.raises(ValueError, match=r"some agents .* never hear from some others: add edges"),
    ):
        run(topologies.Static(path, weights=topologies.pull))
    path.add_edge(5, 0)
    run(topologies.Static(path, weights=topologies.pull))
    with pytest.raises(ValueError, match="PullDiag"):
        run(topologies.Static(CIRCLE, weights=topologies.push))
