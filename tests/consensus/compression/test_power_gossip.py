"""PowerGossip: its equations edge by edge, where it ends, what it sends."""

import itertools

import numpy as np
import pytest

import consensus
from consensus.compression.base import generator
from consensus.solvers import DGD, NEXT, GradientTracking, PowerGossip, table
from consensus.surrogates import FullLinearization
from tests.helpers.problems import PUSH, problem
from tests.helpers.quadratics import NETWORKS, optimum, quadratic
from tests.helpers.steps_by_hand import SCHEDULES, states
from tests.helpers.stochastic import assert_iterates

MLP = consensus.MLP([4, 5, 2, 1])
STATIC, L2 = SCHEDULES["static"], consensus.L2(0.1)
P = problem("squared", L2, MLP, scheme="sizes")
ALPHA, RANK, SEED = 0.03, 1, 5
LAYERS = ((0, 4, 5), (25, 5, 2))
REST = np.r_[20:25, 35:40]  # biases, and the last layer, as short as its factors


def test_it_follows_its_equation_edge_by_edge():
    """``X+ = gossip(X) - alpha G(X)``, i the higher number of an edge's agents."""
    solver = PowerGossip(DGD(ALPHA), RANK, seed=SEED).prepared(P, STATIC)
    assert solver.layers == LAYERS
    W, directions = STATIC.weights(0).toarray(), {}
    edges = [(i, j) for i in range(6) for j in range(i) if W[i, j]]
    for edge, (number, (start, _, n)) in itertools.product(edges, enumerate(LAYERS)):
        rng = generator(SEED, edge[1] * 6 + edge[0], number)
        directions[edge, start] = np.linalg.qr(rng.standard_normal((n, RANK)))[0]

    def step(round, X):
        mixed = X.copy()
        mixed[:, REST] = W @ X[:, REST]
        for (i, j), (start, m, n) in itertools.product(edges, LAYERS):
            matrix = slice(start, start + m * n)
            difference = (X[i, matrix] - X[j, matrix]).reshape(m, n)
            D = (difference.T if round % 2 else difference) @ directions[(i, j), start]
            change = W[i, j] * D @ directions[(i, j), start].T
            change = (change.T if round % 2 else change).ravel()
            mixed[i, matrix] -= change
            mixed[j, matrix] += change
            directions[(i, j), start] = np.linalg.qr(D)[0]
        return (mixed - ALPHA * P.average_gradient(X),)

    assert_iterates(solver, P, STATIC, step, lambda X: (), rounds=25)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["ring of 8", "geometric of 30"])
def test_with_tracking_it_reaches_the_optimum(network):
    net = NETWORKS[network]
    p = quadratic(net.agents, 7)
    solver = PowerGossip(GradientTracking(0.2 / p.lipschitz().max(), "cta"), layers=((0, 2, 3),))
    result = consensus.solve(p, net, solver, rounds=4000, record_every=100, tolerance=1e-11)
    np.testing.assert_allclose(result.w, np.tile(optimum(p), (net.agents, 1)), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_sums_are_kept_though_agents_differ_by_no_more_than_rounding():
    """They agree after some hundreds of rounds; from then on differences are rounding errors, and zeros of either sign."""
    solver = PowerGossip(GradientTracking(1e-9), seed=SEED).prepared(P, STATIC)
    first, *_, last = states(solver, P, STATIC, 600)
    np.testing.assert_allclose(last.w.mean(axis=0), first.w.mean(axis=0), rtol=0, atol=1e-5)
    assert abs(last.w - last.w.mean(axis=0)).max() < 1e-7
    np.testing.assert_allclose(last.inner.y.mean(axis=0), P.average_gradient(last.w).mean(axis=0), rtol=0, atol=1e-13)


def test_bytes_by_hand():
    """Of 4 x 5 and 5 x 2 one side in even rounds, the other in odd ones; and ten numbers as they are."""
    history = consensus.solve(P, STATIC, PowerGossip(DGD(ALPHA)), rounds=3, record_every=1).history
    edges = 2 * STATIC.graph(0).number_of_edges()
    assert np.diff(history["floats"]).tolist() == [edges * (m + 10) for m in (4 + 5, 5 + 2, 4 + 5)]
    assert np.diff(history["bytes"]).tolist() == [8 * edges * (m + 10) for m in (4 + 5, 5 + 2, 4 + 5)]
    assert history["messages"][-1] == 3 * edges
    assert history["exchanges"][-1] == 3


@pytest.mark.filterwarnings("ignore:PowerGossip.*static")
def test_what_does_not_fit_is_rejected():
    for p, network, match in (
        (P, SCHEDULES["random"], "PowerGossip remembers a direction for every edge, and the edges of"),
        (problem("squared", L2), STATIC, r"rank of LowRank must make a matrix shorter, .* one of 4 x 1; got 1"),
        (problem("squared", consensus.L1(0.1), MLP), STATIC, r"PowerGossip\(DGD\) needs a smooth regularizer"),
        (P, PUSH, "PowerGossip needs symmetric doubly stochastic mixing matrices"),
    ):
        with pytest.raises(ValueError, match=match):
            consensus.solve(p, network, PowerGossip(DGD(ALPHA)), rounds=1)
    with pytest.raises(TypeError, match=r"GradientTracking inside of PowerGossip has no bound.*give step_size="):
        consensus.solve(P, STATIC, PowerGossip(GradientTracking()), rounds=1)


def test_its_row_in_the_table_of_solvers():
    row = table(PowerGossip(NEXT(FullLinearization(4.0), 0.1))).rows[-1]
    assert (row.reference, row.regularizer, row.network, row.sends) == (
        "Vogels et al. 2020",
        "prox",
        "symmetric, static",
        "w, y",
    )
