"""The exact first-order methods: optima, rates, and their recursions as the papers have them."""

import functools
import itertools
import warnings

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from quadratics import iteration_matrix
from steps_by_hand import states

import consensus
import topologies
from consensus.solvers import (
    EXTRA,
    NIDS,
    OPAPC,
    PGEXTRA,
    AccGT,
    ExactDiffusion,
    Gossip,
    ProxGT,
    WangElia,
    check_needs,
)

SMOOTH, PROX = (EXTRA, ExactDiffusion, WangElia, AccGT, OPAPC), (PGEXTRA, NIDS, ProxGT)
RING = topologies.Static(topologies.ring(8))
NETWORKS = {
    "ring": RING,
    "geometric": topologies.Static(topologies.random_geometric(30, 0.4, seed=1)),
    "changing": topologies.RandomEdges(topologies.complete(8), 0.6, seed=1),
}


L2 = consensus.L2(0.3)


@functools.cache
def least_squares(agents, regularizer=L2):
    """Unlike data at every agent: features of other scales, targets about other means."""
    rng = np.random.default_rng(agents)
    X = rng.standard_normal((20 * agents, 3)) * np.repeat(rng.uniform(0.5, 1.5, agents), 20)[:, None]
    y = X @ [1.0, -2.0, 0.0] + np.repeat(rng.standard_normal(agents), 20) + 0.1 * rng.standard_normal(len(X))
    shards = consensus.partition(X, y, agents, "sizes", sizes=[20] * agents)
    return consensus.Problem(consensus.Linear(3, bias=False), consensus.SquaredLoss(), shards, regularizer)


def stacked_data(problem):
    return problem.shards.features.reshape(-1, 3), problem.shards.targets.ravel()


@pytest.mark.parametrize(
    ("kind", "network"),
    [(kind, name) for kind in (*SMOOTH, *PROX) for name in NETWORKS if name != "changing" or kind in (AccGT, ProxGT)],
)
def test_with_its_own_step_it_finds_the_least_squares_solution(kind, network):
    problem = least_squares(NETWORKS[network].agents)
    X, y = stacked_data(problem)
    expected = np.linalg.solve(X.T @ X / len(X) + 0.3 * np.eye(3), X.T @ y / len(X))
    options = {"rounds": 20_000, "record_every": 100, "tolerance": 2e-12}
    result = consensus.solve(problem, NETWORKS[network], kind(), **options)
    np.testing.assert_allclose(result.w, np.tile(expected, (problem.agents, 1)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", PROX)
@pytest.mark.parametrize("network", ["ring", "geometric"])
def test_with_l1_it_finds_cvxpys_optimum(kind, network):
    problem = least_squares(NETWORKS[network].agents, consensus.L1(0.2))
    X, y = stacked_data(problem)
    w = cp.Variable(3)
    loss = cp.sum_squares(X @ w - y) / (2 * len(X))
    cp.Problem(cp.Minimize(loss + 0.2 * cp.norm1(w))).solve("CLARABEL", tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
    options = {"rounds": 20_000, "record_every": 100, "tolerance": 2e-12}
    result = consensus.solve(problem, NETWORKS[network], kind(), **options)
    np.testing.assert_allclose(result.w, np.tile(w.value, (problem.agents, 1)), rtol=0, atol=1e-9)
    assert abs(result.w[:, 2]).max() < 1e-10 < abs(result.w[:, :2]).min()


@pytest.mark.parametrize("kind", [*SMOOTH, *PROX])
def test_its_rate_is_the_spectral_radius_of_its_iteration(kind):
    problem = least_squares.__wrapped__(8)
    solver = kind().prepared(problem, RING)
    moduli = abs(values := np.linalg.eigvals(iteration_matrix(solver, problem, RING)))
    # What the agents' sums keep from round to round has the eigenvalue one, and is zero from the start on.
    radius = moduli[abs(values - 1) > 1e-6].max()
    assert moduli.max() < 1 + 1e-6
    # Without targets the optimum is zero, and errors are known far below what is left of others after subtraction.
    problem.shards.targets[:] = 0
    sizes = (np.linalg.norm(state.w) for state in states(solver, problem, RING, 4000))
    errors = np.array(list(itertools.takewhile(lambda size: size > 1e-14, sizes)))
    late = np.flatnonzero(errors < 1e-9 * errors[0])
    assert len(late) > 20
    slope = np.polyfit(late, np.log(errors[late]), 1)[0]
    assert slope == pytest.approx(np.log(radius), rel=0.03)


def extra(W, G, prox, a, X, **_):
    before, X = X, W @ X - a * G(X)
    yield X
    while True:
        before, X = X, X + W @ X - (before + W @ before) / 2 - a * (G(X) - G(before))
        yield X


def pgextra(W, G, prox, a, X, **_):
    before, V = X, W @ X - a * G(X)
    while True:
        X = prox(V, a)
        yield X
        V = V + W @ X - (before + W @ before) / 2 - a * (G(X) - G(before))
        before = X


def nids(W, G, prox, a, X, **_):
    half = (np.eye(len(W)) + W) / 2
    before, Z = X, half @ (X - a * G(X))
    while True:
        X = prox(Z, a)
        yield X
        Z = Z - X + half @ (2 * X - before - a * G(X) + a * G(before))
        before = X


def exact_diffusion(W, G, prox, a, X, **_):
    before = X
    while True:
        P = X - a * G(X)
        X = (np.eye(len(W)) + W) @ (P + X - before) / 2
        before = P
        yield X


def proxgt(W, G, prox, a, X, **_):
    Y = before = 0 * X
    while True:
        new = G(X)
        Y = W @ (Y + new - before)
        X, before = W @ prox(X - a * Y, a), new
        yield X


def wang_elia(W, G, prox, a, X, **_):
    Z, K = 0 * X, (np.eye(len(W)) - W) / 2
    while True:
        X, Z = X - K @ (X + Z) - a * G(X), Z + K @ X
        yield X


def accgt(W, G, prox, a, X, convexity):
    theta = np.sqrt(convexity * a) / 2
    q = convexity * a / theta
    Z, S, before = X, 0 * X, 0 * X
    while True:
        Y = theta * Z + (1 - theta) * X
        S = W @ S + G(Y) - before
        before = G(Y)
        Z = (W @ (q * Y + Z) - (a / theta) * S) / (1 + q)
        X = theta * Z + (1 - theta) * W @ X
        yield X


def opapc(W, G, prox, a, X, convexity, momentum, dual):
    m, t = convexity, momentum
    ahead, Y = X, 0 * X
    while True:
        middle = t * X + (1 - t) * ahead
        predicted = (X - a * (G(middle) - m * middle + Y)) / (1 + a * m)
        Y = Y + dual * (predicted - W @ predicted)
        new = (X - a * (G(middle) - m * middle + Y)) / (1 + a * m)
        ahead = middle + 2 * t / (2 - t) * (new - X)
        X = new
        yield X


MOMENTUM, MODULUS = {"convexity": 0.3, "momentum": 0.4, "dual": 2.0}, {"convexity": 0.3}
PLAIN = [(EXTRA, extra, {}), (ExactDiffusion, exact_diffusion, {}), (WangElia, wang_elia, {}), (AccGT, accgt, MODULUS)]
PLAIN += [(OPAPC, opapc, MOMENTUM), (PGEXTRA, pgextra, {}), (NIDS, nids, {}), (ProxGT, proxgt, {})]


@pytest.mark.parametrize(("kind", "plain", "settings"), PLAIN, ids=lambda value: getattr(value, "__name__", ""))
def test_its_rounds_are_the_recursion_of_the_paper(kind, plain, settings):
    problem = least_squares(8, consensus.L1(0.2) if kind in PROX else consensus.L2(0.3))
    r, W, step = problem.regularizer, RING.weights(0).toarray(), 0.1
    gradient = (lambda X: 8 * problem.gradient(X)) if kind in PROX else problem.average_gradient
    found = [state.w for state in states(kind(step, **settings), problem, RING, 40)]
    for mine, theirs in zip(found[1:], plain(W, gradient, r.prox, step, found[0], **settings)):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)


def test_nids_without_a_regularizer_is_exact_diffusion():
    problem = least_squares(8, None)
    one, other = (list(states(kind(0.2), problem, RING, 30)) for kind in (NIDS, ExactDiffusion))
    np.testing.assert_array_equal([state.w for state in one], [state.w for state in other])


@pytest.mark.parametrize("kind", [*SMOOTH, *PROX])
def test_what_it_cannot_run_on_is_refused_and_what_its_theory_misses_is_warned_of(kind):
    problem, solver = least_squares(8), kind()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_needs(solver, problem, RING)
        if kind in (AccGT, ProxGT):
            check_needs(solver, problem, NETWORKS["changing"])
    if kind not in (AccGT, ProxGT):
        with pytest.warns(UserWarning, match=rf"{kind.__name__}'s theory needs mixing matrices with the condition 'static'"):
            check_needs(solver, problem, NETWORKS["changing"])
    if kind in SMOOTH:
        with pytest.raises(ValueError, match=rf"^{kind.__name__} needs a smooth regularizer, and L1"):
            check_needs(solver, least_squares(8, consensus.L1(0.2)), RING)
    circle = nx.DiGraph([(k, (k + 1) % 8) for k in range(8)] + [(0, 3)])
    with pytest.raises(ValueError, match=rf"^{kind.__name__} needs .*doubly stochastic mixing matrices, but"):
        check_needs(solver, problem, topologies.Static(circle, weights=topologies.push))
    if kind is not ProxGT:
        mlp = consensus.Problem(consensus.MLP([3, 2, 1]), consensus.SquaredLoss(), problem.shards, consensus.L2(0.1))
        with pytest.warns(UserWarning, match=rf"^{kind.__name__}'s theory needs convex costs"):
            check_needs(solver, mlp, RING)


def test_accelerated_methods_ask_for_a_modulus_that_nobody_knows():
    flat = least_squares(8, consensus.L2(0.0))
    logistic = consensus.Problem(flat.model, consensus.LogisticLoss(), consensus.partition(np.eye(9)[:, :3], np.eye(9)[0], 8))
    for kind in (AccGT, OPAPC):
        with pytest.raises(ValueError, match=r"not known to be strongly convex \(mu = 0\): give convexity=, or an L2"):
            consensus.solve(logistic, RING, kind(), rounds=1)
        assert consensus.solve(logistic, RING, kind(convexity=0.1), rounds=1).rounds == 1
    solver = OPAPC().prepared(flat, RING)
    assert solver.convexity == float(f"{flat.strong_convexity().min():.6g}")
    W, L = RING.weights(0).toarray(), flat.lipschitz().max()
    chi = (1 - np.linalg.eigvalsh(W)[0]) / (1 - np.linalg.eigvalsh(W)[-2])
    tau = min(1, np.sqrt(chi * solver.convexity / L) / 2)
    assert solver.momentum == pytest.approx(tau, rel=1e-5)
    assert solver.step_size == pytest.approx(1 / (4 * tau * L), rel=1e-4)
    assert 0.9999 < solver.dual * solver.step_size * (1 - np.linalg.eigvalsh(W)[0]) < 1
    with pytest.raises(ValueError, match=r"momentum must be a finite number > 0 and <= 1; got 1\.5"):
        OPAPC(momentum=1.5)


def test_chebyshev_exchanges_speed_opapc_up():
    network = topologies.Static(
        topologies.ring(
            8,
        )
    )
    gap = topologies.spectral_gap(network.weights(0))
    plain, sped = (
        consensus.solve(least_squares(8), network, solver, rounds=2000, tolerance=1e-9)
        for solver in (OPAPC(), Gossip(OPAPC(), 3, gap))
    )
    assert sped.rounds < plain.rounds
