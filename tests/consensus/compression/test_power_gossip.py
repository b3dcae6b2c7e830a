"""PowerGossip: what a plain loop over edges makes of its equations, where it ends, what it sends."""

import itertools

import numpy as np
import pytest
from problems import PUSH, problem
from quadratics import NETWORKS, optimum, quadratic
from steps_by_hand import SCHEDULES, states

import consensus
from consensus.compression.base import generator
from consensus.solvers import DGD, NEXT, GradientTracking, PowerGossip, table
from consensus.surrogates import FullLinearization

MLP = consensus.MLP([4, 5, 2, 1])
STATIC, L2 = SCHEDULES["static"], consensus.L2(0.1)
ALPHA, RANK, SEED = 0.03, 1, 5
LAYERS = ((0, 4, 5), (25, 5, 2))
REST = np.r_[20:25, 35:40]  # biases, and the last layer, as short as its factors


def plain(G, W, X):
    """``X+ = gossip(X) - alpha G(X)``, edge by edge."""
    agents, turn = len(W), 0
    edges = [(i, j) for i in range(agents) for j in range(i) if W[i, j]]  # i is the higher number
    P = {}
    for edge, (number, (start, _, n)) in itertools.product(edges, enumerate(LAYERS)):
        rng = generator(SEED, edge[1] * agents + edge[0], number)
        P[edge, start] = np.linalg.qr(rng.standard_normal((n, RANK)))[0]
    while True:
        yield X
        mixed = X.copy()
        mixed[:, REST] = W @ X[:, REST]
        for i, j in edges:
            for start, m, n in LAYERS:
                part = slice(start, start + m * n)
                apart = (X[i, part] - X[j, part]).reshape(m, n)
                apart = apart.T if turn % 2 else apart
                direction = P[(i, j), start]
                D = apart @ direction
                step = W[i, j] * D @ direction.T
                step = (step.T if turn % 2 else step).ravel()
                mixed[i, part] -= step
                mixed[j, part] += step
                P[(i, j), start] = np.linalg.qr(D)[0]
        X, turn = mixed - ALPHA * G(X), turn + 1


def test_it_is_what_a_loop_over_edges_makes_of_it():
    p = problem("squared", L2, MLP, scheme="sizes")
    solver = PowerGossip(DGD(ALPHA), RANK, seed=SEED).prepared(p, STATIC)
    assert solver.layers == LAYERS
    found = [state.w for state in states(solver, p, STATIC, 25)]
    for w, expected in zip(found, plain(p.average_gradient, STATIC.weights(0).toarray(), found[0]), strict=False):
        np.testing.assert_allclose(w, expected, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["ring of 8", "geometric of 30"])
def test_with_tracking_it_reaches_the_optimum(network):
    net = NETWORKS[network]
    p = quadratic(net.agents, 7)
    solver = PowerGossip(GradientTracking(0.2 / p.lipschitz().max(), "cta"), layers=((0, 2, 3),))
    result = consensus.solve(p, net, solver, rounds=4000, record_every=100, tolerance=1e-11)
    np.testing.assert_allclose(result.w, np.tile(optimum(p), (net.agents, 1)), rtol=0, atol=1e-10)


def test_sums_are_kept_though_agents_differ_by_no_more_than_rounding():
    """They agree after some hundreds of rounds; from then on differences are rounding errors, and zeros of either sign."""
    p = problem("squared", L2, MLP)
    solver = PowerGossip(GradientTracking(1e-9), seed=SEED).prepared(p, STATIC)
    first, *_, last = states(solver, p, STATIC, 600)
    np.testing.assert_allclose(last.w.mean(axis=0), first.w.mean(axis=0), rtol=0, atol=1e-5)
    assert abs(last.w - last.w.mean(axis=0)).max() < 1e-7
    np.testing.assert_allclose(last.inner.y.mean(axis=0), p.average_gradient(last.w).mean(axis=0), rtol=0, atol=1e-13)


def test_bytes_by_hand():
    """Of 4 x 5 and 5 x 2 one side in even rounds, the other in odd ones; and ten numbers as they are."""
    p = problem("squared", L2, MLP)
    history = consensus.solve(p, STATIC, PowerGossip(DGD(ALPHA)), rounds=3).history
    edges = 2 * STATIC.graph(0).number_of_edges()
    assert np.diff(history["floats"]).tolist() == [edges * (m + 10) for m in (4 + 5, 5 + 2, 4 + 5)]
    assert np.diff(history["bytes"]).tolist() == [8 * edges * (m + 10) for m in (4 + 5, 5 + 2, 4 + 5)]
    assert history["messages"][-1] == 3 * edges
    assert history["exchanges"][-1] == 3


@pytest.mark.parametrize(
    ("p", "network", "match"),
    [
        (
            problem("squared", L2, MLP),
            SCHEDULES["random"],
            r"PowerGossip remembers a direction for every edge, and the edges of",
        ),
        (problem("squared", L2), STATIC, r"rank of LowRank must make a matrix shorter, .* one of 4 x 1; got 1"),
        (problem("squared", consensus.L1(0.1), MLP), STATIC, r"PowerGossip\(DGD\) needs a smooth regularizer"),
        (problem("squared", L2, MLP), PUSH, r"PowerGossip needs symmetric doubly stochastic mixing matrices"),
    ],
    ids=["changing", "short", "sharp", "directed"],
)
@pytest.mark.filterwarnings("ignore:PowerGossip.*static")
def test_what_does_not_fit_is_refused(p, network, match):
    with pytest.raises(ValueError, match=match):
        consensus.solve(p, network, PowerGossip(DGD(ALPHA)), rounds=1)


def test_what_it_says_of_itself():
    row = table(PowerGossip(NEXT(FullLinearization(4.0), 0.1))).rows[-1]
    assert (row.reference, row.regularizer, row.network, row.sends) == (
        "Vogels et al. 2020",
        "prox",
        "symmetric, static",
        "w, y",
    )
    with pytest.raises(TypeError, match=r"GradientTracking inside of PowerGossip has no bound.*give step_size="):
        consensus.solve(problem("squared", L2, MLP), STATIC, PowerGossip(GradientTracking()), rounds=1)
