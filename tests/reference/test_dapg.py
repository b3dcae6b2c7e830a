"""DAPG: its plain statement, the edge of its step, its rate and optima by CVXPY."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.errors import DivergenceError
from consensus.solvers import DAPG, Gossip, ProxGT
from tests.helpers.problems import nonsmooth_optimum, problem
from tests.helpers.quadratics import NETWORKS, costs, dense, optimum, quadratic
from tests.helpers.steps_by_hand import SCHEDULES, states
from tests.helpers.turns import with_slow

L1 = consensus.L1(0.2)
RING = topologies.Static(topologies.ring(8))


def plain(W, gradient, prox, X, a, mu, rounds):
    theta, before, Y, S, old = np.sqrt(mu * a), X, X, 0 * X, 0 * X
    for _ in range(rounds):
        S, old = W @ (S + gradient(Y) - old), gradient(Y)
        X = W @ prox(Y - a * S, a)
        Y, before = X + (1 - theta) / (1 + theta) * (X - before), X
        yield X


@pytest.mark.parametrize("exchanges", [1, 3])
def test_it_follows_its_equation(exchanges):
    """With Chebyshev's exchanges for W, too; r is not smooth."""
    p = quadratic(8)
    lasso, own, W = consensus.Problem(p.model, p.loss, p.shards, L1), costs(p), dense(RING)
    solver, M = DAPG(0.05, convexity=0.3), W
    if exchanges > 1:
        gap = topologies.spectral_gap(RING.weights(0))
        M = (4 * W @ W @ W - 3 * (1 - gap) ** 2 * W) / (4 - 3 * (1 - gap) ** 2)  # T_3(W / rho) / T_3(1 / rho)
        solver = Gossip(solver, 3, gap)
    prox = lambda V, a: np.sign(V) * np.maximum(np.abs(V) - 0.2 * a, 0)  # noqa: E731
    found = [state.w for state in states(solver, lasso, RING, 20)]
    expected = plain(M, own.smooth, prox, found[0], 0.05, 0.3, 20)
    for w, other in zip(found[1:], expected, strict=True):
        np.testing.assert_allclose(w, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lazy", [0.2, 0.45, 0.7])
def test_the_edge_of_its_step_is_the_bound(lazy):
    """Of equal quadratics: below ``min (1 + l) (1 + 3 l) / (6 l^2)`` it converges, above it explodes, with little convexity."""
    matrix = lazy * np.eye(8) + (1 - lazy) * dense(RING)
    network = topologies.Static(topologies.ring(8), weights=topologies.from_matrix(matrix))
    values = np.linalg.eigvalsh(matrix)
    edge = ((1 + values) * (1 + 3 * values) / (6 * values**2)).min()
    p = consensus.Problem.from_functions(
        lambda w: (w**2).sum(axis=1) / 16, lambda w: w / 8, agents=8, parameters=1, lipschitz=1 / 8
    )
    slow = 1 - np.sort(values)[-2]
    assert DAPG().prepared(p, network).step_size == pytest.approx(min(0.9 * min(1, edge), slow / 1e-2), rel=1e-5)
    sizes = []
    for share in (0.97, 1.03):
        *_, last = states(DAPG(share * edge, convexity=1e-9), p, network, 3000)
        sizes.append(np.abs(last.w).max())
    assert sizes[0] < 1e-2
    assert sizes[1] > 1e3


@pytest.mark.parametrize("network", with_slow(NETWORKS, *[*NETWORKS][1:]))
def test_with_default_settings_it_reaches_the_optimum(network):
    schedule = topologies.Static(NETWORKS[network].graph(0), weights=topologies.lazy(topologies.metropolis))
    p = quadratic(schedule.agents)
    result = consensus.solve(p, schedule, DAPG(), rounds=10_000, record_every=100, tolerance=2e-12)
    np.testing.assert_allclose(result.w, np.tile(optimum(p), (p.agents, 1)), rtol=0, atol=1e-10)


def test_it_reaches_cvxpys_optimum_where_the_regularizer_is_not_smooth():
    p = problem("squared", L1)
    w, objective = nonsmooth_optimum("squared", L1)
    solver = Gossip(DAPG(), 3, topologies.spectral_gap(SCHEDULES["static"].weights(0)))
    result = consensus.solve(p, SCHEDULES["static"], solver, rounds=3000, record_every=100, tolerance=2e-12)
    assert p.objective(result.mean) == pytest.approx(objective, abs=1e-10)
    np.testing.assert_allclose(result.w, np.tile(w, (6, 1)), rtol=0, atol=1e-8)


@pytest.mark.slow
def test_its_rounds_grow_as_the_root_of_the_condition():
    """Two coordinates of curvatures 1 and 1/kappa, of which the agents know both; without acceleration it is kappa."""
    rounds = {}
    for kappa in (16.0, 256.0):
        scales = np.array([1.0, 1 / kappa])
        p = consensus.Problem.from_functions(
            lambda w, s=scales: (s * (w - 1) ** 2).sum(axis=1) / 12,
            lambda w, s=scales: s * (w - 1) / 6,
            agents=6,
            parameters=2,
            lipschitz=1 / 6,
        )
        for solver in (DAPG(1.0, convexity=1 / kappa), ProxGT(1.0)):
            run = consensus.solve(p, topologies.complete(6), solver, rounds=8000, stop="objective <= 1e-6", start=np.zeros(2))
            rounds[type(solver).__name__, kappa] = int(run.history["round"][-1])
    assert rounds["DAPG", 256.0] < 5 * rounds["DAPG", 16.0]
    assert rounds["ProxGT", 256.0] > 10 * rounds["ProxGT", 16.0]
    assert rounds["DAPG", 256.0] < 0.25 * rounds["ProxGT", 256.0]


def test_a_matrix_of_low_eigenvalues_is_refused_and_both_remedies_work():
    p, matrix = quadratic(4), 0.1 * np.eye(4) + 0.45 * topologies.adjacency(topologies.ring(4)).toarray()
    network = topologies.Static(topologies.ring(4), weights=topologies.from_matrix(matrix))
    with pytest.raises(ValueError, match=r"eigenvalues are all above -1/3, .*topologies\.lazy"):
        consensus.solve(p, network, DAPG(), rounds=1)
    lazy = topologies.Static(network.graph(0), weights=topologies.lazy(topologies.metropolis))
    assert consensus.solve(p, lazy, DAPG(), rounds=2000, record_every=500).history["stationarity"][-1] < 1e-8
    assert consensus.solve(p, network, Gossip(DAPG(), 2), rounds=2000, record_every=500).history["stationarity"][-1] < 1e-8
    with pytest.raises(DivergenceError):
        consensus.solve(p, lazy, DAPG(1e3, convexity=0.1), rounds=2000)
