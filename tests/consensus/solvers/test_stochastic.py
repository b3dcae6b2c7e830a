"""Stochastic methods follow their equations, as plain NumPy states them."""

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus import Minibatches, solvers
from consensus.problems import Batch
from consensus.step_sizes import StepDecay
from consensus.surrogates import PartialLinearization
from tests.helpers.problems import PUSH, problem
from tests.helpers.ranks_on_threads import assert_bits_of_one_process
from tests.helpers.steps_by_hand import MLP, SCHEDULES
from tests.helpers.stochastic import FALLING, LAZY, RULE, assert_iterates, curved

# Plain statements of a round k: X, and the other arrays that a method keeps ----------------------------------------------

P = curved()
W, PUSHED, a = LAZY.weights(0).toarray(), PUSH.weights(0).toarray(), FALLING


def G(X, k=None):
    """The stack of gradients from the batches of round k, or from all samples."""
    return P.average_gradient(X, None if k is None else RULE.at(P, k))


def descent(k, X):
    return (W @ X - a(k) * G(X, k),)


def tracking(order):
    def step(k, X, Y, V):
        X = W @ (X - a(k) * Y) if order == "atc" else W @ X - a(k) * Y
        new = G(X, k + 1)
        return X, W @ (Y + new - V) if order == "atc" else W @ Y + new - V, new

    return step


def d2(k, X, before):
    new = X - a(k) * G(X, k)
    return W @ (new + X - before), new


def quasi_global(k, X, M, b=0.9, u=0.8):
    new = W @ (X - a(k) * (b * M + G(X, k)))
    return new, u * M + (1 - u) * (X - new) / a(k)


def momentum(k, X, M, b=0.9):
    M = b * M + (1 - b) * G(X, k)
    return W @ (X - a(k) * M), M


def decent_lam(k, X, M, b=0.8):
    M = b * M + (X - W @ (X - a(k) * G(X, k))) / a(k)
    return X - a(k) * M, M


def hybrid(k, X, Y, V, before, beta=0.3):
    Y = W @ (Y + V - before)
    new = W @ (X - a(k) * Y)
    return new, Y, G(new, k + 1) + (1 - beta) * (V - G(X, k + 1)), V


def recursive(k, X, Y, before, old):
    V = before + G(X, k) - G(old, k) if k % 4 else G(X)
    Y = W @ Y + V - before
    return W @ X - a(k) * Y, Y, V, X


def snapshots(k, X, Y, V, T):
    X = W @ (X - a(k) * Y)
    T = X if SNAPPING.snaps(k + 1) else T
    new = G(X, k + 1) - G(T, k + 1) + G(T)
    return X, W @ (Y + new - V), new, T


def push(k, X, U, v):
    U, v = PUSHED @ (U - a(k) * G(X, k)), PUSHED @ v
    return U / v, U, v


def kgt(n, X, C, K=3):
    x = X
    for k in range(K):
        x = x - a(n) * (G(x, K * n + k) + C)
    Z = (X - x) / (K * a(n))
    return W @ x, C - Z + W @ Z


def led(n, X, Y, K=3):
    x = X
    for k in range(K):
        x = x - a(n) * G(x, K * n + k) - Y / K
    new = (x + W @ x) / 2
    return new, Y + x - new


def zero(X):
    return (0 * X,)


SNAPPING = solvers.GTVR(a, RULE, probability=0.3, seed=1)
PLAIN = {
    "DGD": (solvers.DGD(a, RULE), descent, lambda X: ()),
    "tracking, atc": (solvers.GradientTracking(a, "atc", RULE), tracking("atc"), lambda X: (G(X, 0), G(X, 0))),
    "tracking, cta": (solvers.GradientTracking(a, "cta", RULE), tracking("cta"), lambda X: (G(X, 0), G(X, 0))),
    "D2": (solvers.D2(a, RULE), d2, lambda X: (X,)),
    "QGDSGDm": (solvers.QGDSGDm(a, RULE, averaging=0.8), quasi_global, zero),
    "DSGDm": (solvers.DSGDm(a, RULE), momentum, zero),
    "DecentLaM": (solvers.DecentLaM(a, RULE, momentum=0.8), decent_lam, zero),
    "GTHSGD": (solvers.GTHSGD(a, RULE, beta=0.3), hybrid, lambda X: (0 * X, G(X), 0 * X)),
    "GTSARAH": (solvers.GTSARAH(a, RULE, period=4), recursive, lambda X: (0 * X, 0 * X, X)),
    "GTVR": (SNAPPING, snapshots, lambda X: (G(X), G(X), X)),
    "SGP": (solvers.SGP(a, RULE), push, lambda X: (X, np.ones((6, 1)))),
    "KGT": (solvers.KGT(a, 3, batch=RULE), kgt, zero),
    "LED": (solvers.LED(a, 3, batch=RULE), led, zero),
}


@pytest.mark.parametrize("name", PLAIN)
def test_methods_follow_their_equations(name):
    solver, step, others = PLAIN[name]
    assert_iterates(solver, P, PUSH if name == "SGP" else LAZY, step, others)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("model", [MLP, consensus.Linear(4)], ids=["MLP", "Linear"])
def test_saga_follows_its_equation(model, replacement):
    """Every sample's gradient is taken by itself; with replacement a batch may hold a sample several times."""
    p, rule, step_size = curved(model), Minibatches(4, 3, replacement), 0.05

    def alone(X):
        """A times the samples' gradients (samples, agents, P)."""
        return 6 * np.array([p.gradient(X, Batch(np.full((6, 1), m), np.ones((6, 1)))) for m in range(16)])

    def step(k, X, Y, V, before, H):
        Y = W @ (Y + V - before)
        X, before = W @ (X - step_size * Y), V
        V, new, (places, weights) = H.sum(axis=0) + 0.01 * X, alone(X), rule.at(p, k + 1)
        for agent in range(6):
            own = places[agent][weights[agent] > 0]
            V[agent] += p.shards.sizes[agent] / len(own) * (new[own, agent] - H[own, agent]).sum(axis=0)
            H[own, agent] = new[own, agent]
        return X, Y, V, before, H

    others = lambda X: (0 * X, alone(X).sum(axis=0) + 0.01 * X, 0 * X, alone(X))  # noqa: E731
    assert_iterates(solvers.GTSAGA(step_size, rule), p, LAZY, step, others, rounds=12)


@pytest.mark.parametrize("graph", [topologies.path(6), topologies.star(6), SCHEDULES["static"].graph(0)], ids=str)
def test_relay_sgd_averages_every_model_as_late_as_its_agent_is_far_away(graph):
    """``x_i(k+1) = sum_j y_j(k + 1 - d_ij) / A``, with x_i(0) for y_j before the first round.

    d_ij is the distance in the tree, and one for i itself.
    """
    network = topologies.Static(graph)
    solver = solvers.RelaySGD(a, RULE).prepared(P, network)
    schedule = solver.edges(network)
    tree = schedule.graph(0)
    assert nx.is_tree(tree)
    assert set(tree.edges) <= {edge for i, j in graph.edges for edge in ((i, j), (j, i))}
    late, Y, start = np.maximum(nx.floyd_warshall_numpy(tree, range(6)).astype(int), 1) - 1, [], []

    def step(k, X):
        start.append(X)
        Y.append(X - a(k) * G(X, k))
        terms = [[Y[k - late[i, j]][j] if late[i, j] <= k else start[0][i] for j in range(6)] for i in range(6)]
        return (np.mean(terms, axis=1),)

    assert_iterates(solver, P, schedule, step, lambda X: ())
    history = consensus.solve(P, network, solvers.RelaySGD(a, RULE), rounds=3, record_every=1).history
    assert history["messages"].tolist() == [0, 10, 20, 30]  # the tree alone carries rows
    assert history["floats"].tolist() == [0, 320, 640, 960]


@pytest.mark.parametrize("size", [2, 3])
def test_relayed_models_reach_their_receivers_wherever_blocks_begin(size):
    assert_bits_of_one_process(P, SCHEDULES["static"], solvers.RelaySGD(a, RULE), size, rounds=8)


@pytest.mark.parametrize("kind", [solvers.NEXT, solvers.SONATA])
def test_next_on_batches_follows_its_normal_equations(kind):
    """Least squares: the surrogate is ``s c sum_m (x_m . w - d_m)^2 / 2 + ...`` over the batch, its minimiser by a matrix.

    Gradients are averaged but for the first agent, whose batch is its shard.
    """
    p, tau, rule = problem("squared", consensus.L2(0.1), scheme="sizes"), 0.5, Minibatches(4, seed=2)
    averaging = StepDecay(1.0, every=2, gamma=0.5)
    network = PUSH if kind is solvers.SONATA else LAZY
    C, x, d = network.weights(0).toarray(), p.shards.features, p.shards.targets[:, :, 0]
    x = np.concatenate([x, np.ones((*x.shape[:2], 1))], axis=2)

    def gradient(X, k):
        """Of the round's costs ``g_i = w H w / 2 + b w + ...``, and H."""
        places, weights = rule.at(p, k)
        own, c = np.arange(6)[:, None], weights / 60
        D = x[own, places]
        H = (D * c[:, :, None]).swapaxes(1, 2) @ D
        return np.einsum("apq,aq->ap", H, X) - np.einsum("asp,as,as->ap", D, c, d[own, places]), H

    def step(k, X, Y, average, mass):
        H = tau * np.eye(5) + 6 * gradient(X, k)[1]
        right = np.einsum("apq,aq->ap", H, X) - 6 * Y
        Z = X + a(k) * (np.linalg.solve(H + 0.1 * np.eye(5), right[:, :, None])[:, :, 0] - X)
        old, mass = mass, C @ mass
        X, rho = C @ (old * Z) / mass, np.where(p.shards.sizes > 4, averaging(k + 1), 1.0)[:, None]
        before, average = average, (1 - rho) * average + rho * gradient(X, k + 1)[0]
        return X, (C @ (old * Y) + average - before) / mass, average, mass

    solver = kind(PartialLinearization(tau), a, batch=rule, averaging=averaging)
    others = lambda X: (gradient(X, 0)[0], gradient(X, 0)[0], np.ones((6, 1)))  # noqa: E731
    assert_iterates(solver, p, network, step, others, rounds=12, atol=1e-9)  # local problems are solved to 1e-8 of the start
