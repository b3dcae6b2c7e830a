"""KGT, LED and ProxSkip, which do more than one gradient an exchange: optima, rates, invariants, plain statements."""

import functools

import numpy as np
import pytest
from problems import problem, smooth_optimum
from steps_by_hand import MLP, SCHEDULES, states

import consensus
import topologies
from consensus.solvers import KGT, LED, Gossip, GradientTracking, ProxSkip

NETWORKS = {
    "ring of 8": topologies.ring(8),
    "random geometric, 8": topologies.random_geometric(8, 0.5, seed=1),
    "ring of 30": topologies.ring(30),
    "random geometric, 30": topologies.random_geometric(30, 0.35, seed=1),
}
L2 = consensus.L2(0.1)
SKIPPING = ProxSkip(0.05, probability=0.3, seed=4)


@functools.cache
def regression(agents, loss="squared"):
    """A strongly convex problem whose agents have different data, and its optimum."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40 * agents, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.5 * rng.standard_normal(40 * agents)
    loss, y = (consensus.SquaredLoss(), y) if loss == "squared" else (consensus.LogisticLoss(), (y > 0).astype(float))
    p = consensus.Problem(consensus.Linear(3), loss, consensus.partition(X, y, agents, "iid", seed=0), L2)
    return p, smooth_optimum(p)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("solver", [KGT(), LED(), ProxSkip(probability=0.8)], ids=lambda solver: type(solver).__name__)
def test_they_reach_the_optimum(solver, network):
    """KGT takes tens of thousands of rounds on a ring of 30: there with ten exchanges a round."""
    graph = NETWORKS[network]
    solver = Gossip(solver, 10) if isinstance(solver, KGT) and network == "ring of 30" else solver
    p, optimum = regression(len(graph))
    result = consensus.solve(p, graph, solver, rounds=3000, record_every=100, tolerance=1e-11)
    np.testing.assert_allclose(result.w, np.broadcast_to(optimum, result.w.shape), rtol=0, atol=1e-10)


@pytest.mark.parametrize("solver", [KGT(), LED(), ProxSkip()], ids=lambda solver: type(solver).__name__)
def test_they_reach_the_optimum_of_a_logistic_regression(solver):
    p, optimum = regression(8, "logistic")
    result = consensus.solve(p, NETWORKS["ring of 8"], solver, rounds=3000, record_every=50, tolerance=1e-11)
    np.testing.assert_allclose(result.w, np.broadcast_to(optimum, result.w.shape), rtol=0, atol=1e-10)


@pytest.mark.parametrize("schedule", ["random", "periodic"])
def test_kgt_reaches_the_optimum_on_changing_networks_too(schedule):
    p = problem("squared", L2)
    *_, end = states(KGT(0.02), p, SCHEDULES[schedule], 1500)
    np.testing.assert_allclose(end.w, np.broadcast_to(smooth_optimum(p), end.w.shape), rtol=0, atol=1e-10)


@pytest.mark.parametrize("own", [0.15, 0.35, 0.7])  # least eigenvalues -0.7, where (1 - l^2) / |l| < 2, then -0.3 and 0.4
def test_with_one_local_step_and_equal_quadratics_kgt_has_the_bound_of_its_docstring(own):
    lowest, L = 2 * own - 1, 3.0
    network = topologies.Static(topologies.ring(6), lambda g: topologies.laplacian(g, (1 - own) / 2))
    p = consensus.Problem.from_functions(
        lambda w: L * (w**2).sum(axis=1) / 12, lambda w: L * w / 6, agents=6, parameters=1, lipschitz=L / 6
    )
    bound = (min(2, (1 - lowest**2) / -lowest) if lowest < 0 else 2) / L
    assert np.linalg.eigvalsh(network.weights(0).toarray())[0] == pytest.approx(lowest)
    assert KGT(local_steps=1).stable_step(p, network) <= 0.9 * bound * (1 + 1e-9)
    for factor, stable in ((0.99, True), (1.01, False)):
        *_, end = states(KGT(factor * bound, local_steps=1), p, network, 4000)
        assert (abs(end.w).max() < 1e-6) == stable


# Rates ------------------------------------------------------------------------------------------------------------------


def _quadratic(agents, seed=0):
    """Local Hessians that do not commute, as one block diagonal matrix, and the problem of them."""
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((agents, 2, 2))
    hessians, centres = roots @ roots.transpose(0, 2, 1) + 0.3 * np.eye(2), rng.standard_normal((agents, 2))
    p = consensus.Problem.from_functions(
        lambda w: np.einsum("ap,apq,aq->a", w - centres, hessians, w - centres) / (2 * agents),
        lambda w: np.einsum("apq,aq->ap", hessians, w - centres) / agents,
        agents=agents,
        parameters=2,
    )
    H = np.zeros((2 * agents, 2 * agents))
    for i, own in enumerate(hessians):
        H[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = own
    return p, H, np.linalg.solve(hessians.sum(axis=0), np.einsum("apq,aq->p", hessians, centres)), np.linalg.norm(H, 2)


def _kgt(W, H, alpha, K):
    """The linear part of a round of K-GT on (X, C)."""
    eye = np.eye(len(H))
    M, N = eye, 0 * eye
    for _ in range(K):
        M, N = M - alpha * H @ M, N - alpha * (H @ N + eye)
    Z = np.hstack([eye - M, -N]) / (K * alpha)
    X, C = np.hstack([eye, 0 * eye]), np.hstack([0 * eye, eye])
    return np.vstack([W @ (X - K * alpha * Z), C - Z + W @ Z])


def _led(W, H, alpha, t):
    """The linear part of a round of LED on (X, Y); with t = 1 of ProxSkip with p = 1, too."""
    eye = np.eye(len(H))
    M, N = eye, 0 * eye
    for _ in range(t):
        M, N = M - alpha * H @ M, N - alpha * H @ N - eye / t
    P, lazy = np.hstack([M, N]), (eye + W) / 2
    return np.vstack([lazy @ P, np.hstack([0 * eye, eye]) + P - lazy @ P])


@pytest.mark.parametrize("method", ["KGT", "LED", "ProxSkip"])
def test_the_rate_is_the_spectral_radius_of_the_iteration(method):
    p, H, optimum, L = _quadratic(8)
    graph = NETWORKS["random geometric, 8"]
    W = np.kron(topologies.metropolis(graph).toarray(), np.eye(2))
    solver, matrix = {
        "KGT": (KGT(0.25 / L, local_steps=3), _kgt(W, H, 0.25 / L, 3)),
        "LED": (LED(0.25 / L, local_steps=4), _led(W, H, 0.25 / L, 4)),
        "ProxSkip": (ProxSkip(1 / L, probability=1.0), _led(W, H, 1 / L, 1)),
    }[method]
    # The sum of the second variable never changes: as many eigenvalues as parameters are one.
    sizes = np.sort(np.abs(np.linalg.eigvals(matrix)))
    np.testing.assert_allclose(sizes[-2:], 1, rtol=0, atol=1e-12)
    radius = sizes[-3]
    first, last = (int(np.log(error) / np.log(radius)) for error in (1e-4, 1e-11))
    errors = [np.linalg.norm(state.w - optimum) for state in states(solver, p, topologies.Static(graph), last)]
    assert np.log(errors[last] / errors[first]) / (last - first) == pytest.approx(np.log(radius), rel=0.02)
    assert radius < 0.98


def test_the_squared_error_of_proxskip_shrinks_as_its_theory_says():
    """By 1 - min(alpha mu, p^2 (1 - lambda_2) / 2) or faster; by the second here, so half of p takes four times as long."""
    p, H, optimum, L = _quadratic(8)
    network = topologies.Static(NETWORKS["ring of 8"])
    mu, second = np.linalg.eigvalsh(H)[0], np.linalg.eigvalsh(network.weights(0).toarray())[-2]
    rates = {}
    for probability in (0.1, 0.2):
        solvers = [ProxSkip(1 / L, probability=probability, seed=seed) for seed in range(4)]
        ends = [list(states(solver, p, network, 600))[-1] for solver in solvers]
        rates[probability] = -np.mean([np.log(np.sum((end.w - optimum) ** 2)) for end in ends]) / 600
        shrinks = probability**2 * (1 - second) / 2
        assert shrinks < mu / L
        assert shrinks < rates[probability]
    assert rates[0.2] / rates[0.1] == pytest.approx(4, rel=0.3)


# Invariants, plain statements, counts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("solver", [KGT(0.01), LED(0.01), SKIPPING], ids=lambda solver: type(solver).__name__)
def test_the_corrections_add_up_to_zero_at_every_round(solver, schedule):
    p = problem("squared", consensus.L2(0.01), MLP, scheme="sizes")
    for state in states(solver, p, SCHEDULES[schedule], 30):
        dual = state[2]
        np.testing.assert_allclose(dual.sum(axis=0), 0, rtol=0, atol=1e-13)
    assert np.abs(dual).max() > 1e-3


def plain_kgt(G, W, X, rounds, alpha, K, s):
    C = 0 * X
    for _ in range(rounds):
        yield X
        x = X
        for _ in range(K):
            x = x - alpha * (G(x) + C)
        Z = (X - x) / (K * alpha)
        X, C = W @ (X - K * alpha * s * Z), C - Z + W @ Z


def plain_led(G, W, X, rounds, alpha, t):
    Y, lazy = 0 * X, (np.eye(len(W)) + W) / 2
    for _ in range(rounds):
        yield X
        P = X
        for _ in range(t):
            P = P - alpha * G(P) - Y / t
        X = lazy @ P
        Y = Y + P - X


def plain_proxskip(G, W, X, rounds, alpha, p, coin):
    Y, lazy = 0 * X, (np.eye(len(W)) + W) / 2
    for k in range(rounds):
        yield X
        Z = X - alpha * G(X) - Y
        X = lazy @ Z if coin(k) else Z
        Y = Y + p * (Z - X)


@pytest.mark.parametrize(
    ("solver", "plain", "settings"),
    [
        (KGT(0.02, local_steps=3, scale=0.7), plain_kgt, (0.02, 3, 0.7)),
        (LED(0.02, local_steps=3), plain_led, (0.02, 3)),
        (SKIPPING, plain_proxskip, (0.05, 0.3, SKIPPING.communicates)),
    ],
    ids=["KGT", "LED", "ProxSkip"],
)
def test_they_are_what_plain_numpy_makes_of_their_equations(solver, plain, settings):
    p = problem("squared", consensus.L2(0.01), MLP, scheme="sizes")
    found = [state.w for state in states(solver, p, SCHEDULES["static"], 40)]
    W = SCHEDULES["static"].weights(0).toarray()
    for w, expected in zip(found, plain(p.average_gradient, W, found[0], 41, *settings), strict=True):
        np.testing.assert_allclose(w, expected, rtol=0, atol=1e-12)


def test_kgt_with_one_step_is_gradient_tracking():
    """X+ = W (X - alpha Y), Y+ = W Y + G+ - G with Y = G + C: its trackers start at G0, as those of "atc" do."""
    p = problem("squared", L2)
    first = [state.w for state in states(KGT(0.05, local_steps=1), p, SCHEDULES["static"], 2)]
    tracking = [state.w for state in states(GradientTracking(0.05), p, SCHEDULES["static"], 1)]
    np.testing.assert_allclose(first[1], tracking[1], rtol=0, atol=1e-15)


def test_led_with_one_step_is_proxskip_that_never_skips():
    p = problem("squared", L2)
    pair = (states(solver, p, SCHEDULES["static"], 30) for solver in (LED(0.05, local_steps=1), ProxSkip(0.05, probability=1)))
    for one, other in zip(*pair, strict=True):
        np.testing.assert_allclose(one.w, other.w, rtol=0, atol=1e-14)


def test_a_round_that_is_skipped_costs_no_exchange():
    p = problem("squared", L2)
    history = consensus.solve(p, SCHEDULES["static"], SKIPPING, rounds=200).history
    made = np.diff(history["exchanges"]).astype(bool)
    assert made.tolist() == [SKIPPING.communicates(n) for n in range(200)]
    assert 40 < made.sum() < 80
    edges = 2 * SCHEDULES["static"].graph(0).number_of_edges()
    assert history["messages"][-1] == edges * made.sum()
    assert history["floats"][-1] == edges * made.sum() * p.parameters
    assert history["gradients"][-1] == 200


@pytest.mark.parametrize("solver", [KGT(0.02, local_steps=3), LED(0.02, local_steps=3)])
def test_local_steps_are_counted(solver):
    p = problem("squared", L2)
    history = consensus.solve(p, SCHEDULES["static"], solver, rounds=10).history
    assert history["gradients"][-1] == 30
    assert history["exchanges"][-1] == 10


# What does not fit ------------------------------------------------------------------------------------------------------


def test_what_their_theory_does_not_hold_for_is_refused_or_warned_of():
    p = problem("squared", L2)
    for solver in (KGT(0.02), LED(0.02), SKIPPING):
        with pytest.raises(ValueError, match="needs a smooth regularizer"):
            consensus.solve(problem("squared", consensus.L1(0.1)), SCHEDULES["static"], solver, rounds=1)
        with pytest.warns(UserWarning, match="condition 'static'"):
            consensus.solve(p, SCHEDULES["random"], solver, rounds=1)
    with pytest.warns(UserWarning, match="ProxSkip's theory needs convex costs"):
        consensus.solve(problem("squared", L2, MLP), SCHEDULES["static"], SKIPPING, rounds=1)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: KGT(0.1, local_steps=0), "local_steps"),
        (lambda: KGT(0.1, scale=0.0), "scale"),
        (lambda: LED(0.1, local_steps=1.5), "local_steps"),
        (lambda: ProxSkip(0.1, probability=0.0), "probability"),
        (lambda: ProxSkip(0.1, seed=-1), "seed"),
    ],
)
def test_settings_out_of_range_are_named(make, named):
    with pytest.raises(ValueError, match=f"^{named} must be"):
        make()
