"""Stochastic methods: plain statements of their equations, and what whole gradients make of them."""

import networkx as nx
import numpy as np
import pytest
from engine_harness import assert_same
from problems import PUSH, problem
from ranks_on_threads import assert_bits_of_one_process
from steps_by_hand import MLP, SCHEDULES, states
from stochastic import FALLING, LAZY, RULE, curved

import consensus
import topologies
from consensus import Minibatches
from consensus.problems import Batch
from consensus.solvers import (
    D2,
    GTHSGD,
    GTSAGA,
    GTSARAH,
    GTVR,
    KGT,
    LED,
    SGP,
    DecentLaM,
    DSGDm,
    ExactDiffusion,
    ProxGT,
    QGDSGDm,
    RelaySGD,
)
from consensus.surrogates import PartialLinearization

# Plain statements: G(X, k) is the stack of gradients from the batches of round k -----------------------------------------


def plain_d2(G, W, X, a):
    P = X
    for k in range(1000):
        yield X
        new = X - a(k) * G(X, k)
        X, P = W @ (new + X - P), new


def plain_qg(G, W, X, a, b=0.9, u=0.8):
    M = 0 * X
    for k in range(1000):
        yield X
        new = W @ (X - a(k) * (b * M + G(X, k)))
        X, M = new, u * M + (1 - u) * (X - new) / a(k)


def plain_momentum(G, W, X, a, b=0.9):
    M = 0 * X
    for k in range(1000):
        yield X
        M = b * M + (1 - b) * G(X, k)
        X = W @ (X - a(k) * M)


def plain_hsgd(G, W, X, a, beta=0.3):
    Y, before, V = 0 * X, 0 * X, G(X, None)
    for k in range(1000):
        yield X
        Y = W @ (Y + V - before)
        old, X = X, W @ (X - a(k) * Y)
        V, before = G(X, k + 1) + (1 - beta) * (V - G(old, k + 1)), V


def plain_sarah(G, W, X, a, q=3):
    """The paper's two loops: a whole gradient, then q rounds with batches."""
    Y, before, old, k = 0 * X, 0 * X, X, 0
    while True:
        for t in range(q + 1):
            V = before + G(X, k) - G(old, k) if t > 0 else G(X, None)
            yield X
            Y = W @ Y + V - before
            old, X, before = X, W @ X - a(k) * Y, V
            k += 1


def plain_vr(G, W, X, a):
    T, V = X, G(X, None)
    Y = V
    for k in range(1000):
        yield X
        X = W @ (X - a(k) * Y)
        T = X if SNAPPING.snaps(k + 1) else T
        new = G(X, k + 1) - G(T, k + 1) + G(T, None)
        Y, V = W @ (Y + new - V), new


def plain_lam(G, W, X, a, b=0.8):
    M = 0 * X
    for k in range(1000):
        yield X
        M = b * M + (X - W @ (X - a(k) * G(X, k))) / a(k)
        X = X - a(k) * M


def plain_sgp(G, W, X, a):
    U, v = X, np.ones((len(X), 1))
    for k in range(1000):
        yield X
        U, v = W @ (U - a(k) * G(X, k)), W @ v
        X = U / v


def plain_kgt(G, W, X, a, K=3):
    C = 0 * X
    for n in range(1000):
        yield X
        x = X
        for k in range(K):
            x = x - a(n) * (G(x, K * n + k) + C)
        Z = (X - x) / (K * a(n))
        X, C = W @ x, C - Z + W @ Z


def plain_led(G, W, X, a, K=3):
    Y = 0 * X
    for n in range(1000):
        yield X
        P = X
        for k in range(K):
            P = P - a(n) * G(P, K * n + k) - Y / K
        X = (P + W @ P) / 2
        Y = Y + P - X


SNAPPING = GTVR(FALLING, RULE, probability=0.3, seed=1)
PLAIN = {
    "D2": (D2(FALLING, RULE), plain_d2),
    "QGDSGDm": (QGDSGDm(FALLING, RULE, averaging=0.8), plain_qg),
    "DSGDm": (DSGDm(FALLING, RULE), plain_momentum),
    "GTHSGD": (GTHSGD(FALLING, RULE, beta=0.3), plain_hsgd),
    "GTSARAH": (GTSARAH(FALLING, RULE, period=4), plain_sarah),
    "GTVR": (SNAPPING, plain_vr),
    "DecentLaM": (DecentLaM(FALLING, RULE, momentum=0.8), plain_lam),
    "SGP": (SGP(FALLING, RULE), plain_sgp),
    "KGT": (KGT(FALLING, 3, batch=RULE), plain_kgt),
    "LED": (LED(FALLING, 3, batch=RULE), plain_led),
}


@pytest.mark.parametrize("name", PLAIN)
def test_they_are_what_plain_numpy_makes_of_their_equations(name):
    p, (solver, plain) = curved(), PLAIN[name]
    network = PUSH if name == "SGP" else LAZY
    found = [state.w for state in states(solver, p, network, 30)]

    def G(X, k):
        return p.average_gradient(X, None if k is None else RULE.at(p, k))

    for w, expected in zip(found, plain(G, network.weights(0).toarray(), found[0], FALLING)):
        np.testing.assert_allclose(w, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("model", [MLP, consensus.Linear(4)], ids=["MLP", "Linear"])
def test_saga_is_what_plain_numpy_makes_of_its_equation(model, replacement):
    """Every sample's gradient is asked for by itself; with replacement a batch may hold one several times."""
    p, rule = problem("squared", consensus.L2(0.1), model, scheme="sizes"), Minibatches(4, 3, replacement)
    W, a, sizes = LAZY.weights(0).toarray(), 0.05, p.shards.sizes
    found = [state.w for state in states(GTSAGA(a, rule), p, LAZY, 12)]

    def alone(X):
        """A times the samples' gradients (samples, agents, P)."""
        return 6 * np.array([p.gradient(X, Batch(np.full((6, 1), m), np.ones((6, 1)))) for m in range(16)])

    X = found[0]
    H, before, Y = alone(X), 0 * X, 0 * X
    V = H.sum(axis=0) + 0.1 * X
    for k, w in enumerate(found):
        np.testing.assert_allclose(w, X, rtol=0, atol=1e-12)
        Y = W @ (Y + V - before)
        X, before = W @ (X - a * Y), V
        V, new, (places, weights) = H.sum(axis=0) + 0.1 * X, alone(X), rule.at(p, k + 1)
        for agent in range(6):
            own = places[agent][weights[agent] > 0]
            V[agent] += sizes[agent] / len(own) * (new[own, agent] - H[own, agent]).sum(axis=0)
            H[own, agent] = new[own, agent]


def plain_relay(G, tree, X, a):
    """As Vogels et al. have it: ``x_i(k+1) = sum_j y_j(k + 1 - d_ij) / A``, with x_i(0) in place of y_j before the first round.

    d_ij is the distance in the tree, and one for i itself.
    """
    A, far, Y = len(X), nx.floyd_warshall_numpy(tree, range(len(X))).astype(int), []
    late, start = np.maximum(far, 1) - 1, X
    for k in range(1000):
        yield X
        Y.append(X - a(k) * G(X, k))
        X = np.array([sum(Y[k - late[i, j]][j] if late[i, j] <= k else start[i] for j in range(A)) / A for i in range(A)])


@pytest.mark.parametrize("graph", [topologies.path(6), topologies.star(6), SCHEDULES["static"].graph(0)], ids=str)
def test_relay_sgd_is_what_plain_numpy_makes_of_its_messages(graph):
    p, network = curved(), topologies.Static(graph)
    solver = RelaySGD(FALLING, RULE).prepared(p, network)
    tree = solver.edges(network)
    assert nx.is_tree(tree.graph(0))
    assert set(tree.graph(0).edges) <= {edge for i, j in graph.edges for edge in ((i, j), (j, i))}
    found = [state.w for state in states(solver, p, tree, 30)]

    def G(X, k):
        return p.average_gradient(X, RULE.at(p, k))

    for w, expected in zip(found, plain_relay(G, tree.graph(0), found[0], FALLING)):
        np.testing.assert_allclose(w, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [2, 3])
def test_relayed_models_come_to_those_they_are_for_wherever_blocks_begin(size):
    assert_bits_of_one_process(curved(), SCHEDULES["static"], RelaySGD(FALLING, RULE), size, rounds=8)


def test_relayed_averages_are_of_every_model_as_late_as_its_agent_is_far_away():
    """Without gradients ``x_i(n+1) = (x_i(n) + sum_j x_j(n + 1 - d_ij)) / A``, d the distance. The tree alone carries rows."""
    p = consensus.Problem.from_functions(lambda w: 0 * w[:, 0], np.zeros_like, agents=6, parameters=2)
    path = topologies.Static(topologies.path(6))
    X = [state.w for state in states(RelaySGD(0.1).prepared(p, path), p, path, 12)]
    far = np.abs(np.subtract.outer(range(6), range(6)))
    for n in range(5, 12):
        late = [[X[n + 1 - max(1, far[i, j])][j] for j in range(6)] for i in range(6)]
        np.testing.assert_allclose(X[n + 1], np.mean(late, axis=1), rtol=0, atol=1e-15)
    history = consensus.solve(p, topologies.complete(6), RelaySGD(0.1), rounds=3).history
    assert history["messages"].tolist() == [0, 10, 20, 30]
    assert history["floats"].tolist() == [0, 30, 60, 90]


# Batches of everything --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [D2, DecentLaM, DSGDm, GTHSGD, GTSARAH, GTVR, KGT, LED, QGDSGDm, RelaySGD, SGP])
def test_a_batch_of_everything_is_the_whole_gradient_to_the_bit(make):
    p = curved()
    whole, batched = (consensus.solve(p, LAZY, make(0.02, batch=size), rounds=6) for size in (None, 16))
    assert_same(batched, whole)


def test_d2_with_lazy_weights_and_all_samples_is_exact_diffusion():
    p = curved()
    ours, theirs = states(D2(0.05, 16), p, LAZY, 40), states(ExactDiffusion(0.05), p, SCHEDULES["static"], 40)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.w, other.w, rtol=0, atol=1e-12)


def test_hybrid_estimates_from_all_samples_are_the_gradients_whatever_beta():
    p = problem("squared", None, MLP, scheme="sizes")
    ours, theirs = states(GTHSGD(0.05, 16, beta=0.3), p, LAZY, 40), states(ProxGT(0.05), p, LAZY, 40)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.w, other.w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [GTHSGD, GTSAGA, GTSARAH, GTVR])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_trackers_average_to_the_estimates(schedule, make):
    for state in states(make(0.05, batch=RULE), curved(), SCHEDULES[schedule], 20):
        tracked = state.y + state.change if make is GTSARAH else state[2]
        np.testing.assert_allclose(tracked.mean(axis=0), state.v.mean(axis=0), rtol=0, atol=1e-13)


def test_masses_add_up():
    p = curved()
    for state in states(SGP(0.02, RULE), p, PUSH, 20):
        assert state.mass.sum() == pytest.approx(6, rel=1e-13)
    assert np.ptp(state.mass) > 0.1


def test_gradients_of_batches_are_averaged_unless_the_batch_is_the_shard():
    """The last batch of an epoch may be smaller than the others: its gradient is one of some of the samples, too."""
    p = problem("squared", consensus.L2(0.1), scheme="sizes")  # shards of 4, 16, 9, 11, 7 and 13
    solver = consensus.solvers.NEXT(consensus.surrogates.FullLinearization(1.0), 0.3, batch=4, averaging=0.25)
    old, new = np.zeros((6, 5)), np.ones((6, 5))
    for round in range(9):
        averaged = solver.averaged(p, old, new, round)
        np.testing.assert_array_equal(averaged, np.array([1, *[0.25] * 5])[:, None] * new)


@pytest.mark.parametrize("solver", [consensus.solvers.NEXT, consensus.solvers.SONATA], ids=lambda solver: solver.__name__)
def test_surrogates_of_batches_are_what_plain_numpy_makes_of_them(solver):
    """In round n costs and gradients are of batch n; with a quadratic surrogate its minimiser is one linear system away."""
    p, tau, alpha, rule = problem("squared", consensus.L2(0.1)), 2.0, 0.3, Minibatches(3)
    schedule = SCHEDULES["static"]
    W, N = schedule.weights(0).toarray(), p.shards.samples

    def own(w, n):
        """Of every agent's batch in round n: the gradient of g_i, and the Hessian."""
        places, weights = rule.at(p, n)
        slopes, hessians = np.empty_like(w), np.empty((6, 5, 5))
        for i in range(6):
            J = np.column_stack([p.shards.features[i, places[i]], np.ones(3)]) * np.sqrt(weights[i] / N)[:, None]
            slopes[i] = J.T @ (J @ w[i] - np.sqrt(weights[i] / N) * p.shards.targets[i, places[i], 0])
            hessians[i] = J.T @ J
        return slopes, hessians

    found = list(states(solver(PartialLinearization(tau), alpha, batch=3, averaging=0.25), p, schedule, 6))
    w = found[0].w
    y = average = own(w, 0)[0]
    for n, state in enumerate(found):
        np.testing.assert_allclose(state.w, w, rtol=0, atol=1e-9)
        H = 6 * own(w, n)[1] + (tau + 0.1) * np.eye(5)
        best = w - np.linalg.solve(H, (6 * y + 0.1 * w)[:, :, None])[:, :, 0]
        w = W @ (w + alpha * (best - w))
        before, average = average, 0.75 * average + 0.25 * own(w, n + 1)[0]
        y = W @ y + average - before
