"""Stochastic methods: their equations in plain NumPy, where they end, and what they reject."""

from functools import partial

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus import Minibatches, solvers
from consensus._arrays.parallel import one_blas_thread
from consensus.compression import Quantize, TopK
from consensus.engines.stacked import StackedNetwork
from consensus.problems import Batch
from consensus.solvers import KGT, LED, ProxSkip
from consensus.step_sizes import CosineAnnealing, StepDecay
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.engine_harness import assert_same
from tests.helpers.problems import PUSH, problem, smooth_optimum
from tests.helpers.quadratics import dense, hessians, optimum, quadratic
from tests.helpers.ranks_on_threads import assert_bits_of_one_process
from tests.helpers.refusals import refusals
from tests.helpers.steps_by_hand import MLP, SCHEDULES, states
from tests.helpers.stochastic import FALLING, LAZY, RULE, assert_equal_methods, assert_iterates, curved, rest_of_descent
from tests.helpers.turns import with_slow

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


# Stochastic methods: where they end, and what they reject.
RIDGE = quadratic(8, 7, 8)
BEST = np.tile(optimum(RIDGE), (8, 1))


@pytest.mark.parametrize(
    "solver",
    [solvers.GTSAGA(0.08), solvers.GTSARAH(0.08, 1, period=8), solvers.GTVR(0.08, 1, probability=0.1), solvers.RelaySGD(0.05)],
    ids=lambda one: type(one).__name__,
)
def test_those_without_noise_in_the_end_reach_the_optimum_itself(solver):
    result = consensus.solve(RIDGE, topologies.ring(8), solver, rounds=2500, record_every=100, tolerance=1e-9)
    np.testing.assert_allclose(result.w, BEST, rtol=0, atol=1e-8)


class Two:
    """A user's rule: two of eight samples, drawn for all rounds beforehand."""

    places = np.random.default_rng(6).integers(8, size=(1000, 8, 2))

    def check(self, problem):
        pass

    def at(self, problem, round):
        return Batch(self.places[round], np.full((8, 2), 4.0))


TWO = Two()
NETWORK = topologies.Static(topologies.erdos_renyi(8, 0.5, seed=2), weights=topologies.lazy(topologies.metropolis))
STAR = topologies.Static(topologies.star(8))
FULL = FullLinearization(1.0)
HALVED = ("QGDSGDm", "DecentLaM")  # their momentum makes steps twice as long
BIASED = {
    "DGD": solvers.DGD,
    "SGP": solvers.SGP,
    "DSGDm": lambda a, batch: solvers.DSGDm(a, batch, momentum=0.5),
    "QGDSGDm": lambda a, batch: solvers.QGDSGDm(a / 2, batch, momentum=0.5),
    "DecentLaM": lambda a, batch: solvers.DecentLaM(a / 2, batch, momentum=0.5),
}
UNBIASED = {
    "D2": solvers.D2,
    "GradientTracking": lambda a, batch: solvers.GradientTracking(a, batch=batch),
    "MoTEF": lambda a, batch: solvers.MoTEF(TopK(5), a, gamma=0.5, momentum=0.5, batch=batch),
    "GTHSGD": lambda a, batch: solvers.GTHSGD(a, batch, beta=0.5),
    "KGT": lambda a, batch: solvers.KGT(a / 2, 2, batch=batch),
    "LED": lambda a, batch: solvers.LED(a / 2, 2, batch=batch),
    "NEXT": lambda a, batch: solvers.NEXT(FULL, a, batch=batch, averaging=0.5),
    "SONATA": lambda a, batch: solvers.SONATA(FULL, a, batch=batch, averaging=1.0),
    "RelaySGD": lambda a, batch: solvers.RelaySGD(a, batch).prepared(RIDGE, STAR),
}


def limit(name, step):
    """Where whole gradients end: at the optimum; with a bias at ``X = W X - a G(X)`` (DGD), ``X = W (X - a G(X))`` (others)."""
    if name in UNBIASED:
        return BEST
    outer = np.eye(8) if name == "DGD" else None
    return rest_of_descent(RIDGE, NETWORK.weights(0).toarray(), step / 2 if name in HALVED else step, outer)


@pytest.mark.parametrize("name", with_slow([*BIASED, *UNBIASED], *[*BIASED, *UNBIASED][1::2]))
def test_the_square_of_the_neighbourhood_halves_with_the_step(name):
    """That of the agents' mean around the limit, for independent draws; a bias halves itself.

    (Without replacement it falls by four; around the mean the agents' own noise is of second order, too.)
    """
    make, spreads = (BIASED | UNBIASED)[name], {}
    for step in (0.04, 0.02):
        end, solver, path = limit(name, step), make(step, TWO), []
        network = StackedNetwork(STAR if name == "RelaySGD" else NETWORK, RIDGE.dtype)
        state = solver.init(RIDGE, end)
        with one_blas_thread:
            for _ in range(350):
                state = solver.step(RIDGE, network, state)
                path.append(state.w)
        spreads[step] = np.square(np.mean(np.array(path[100:]) - end, axis=1)).sum(axis=1).mean()
    assert spreads[0.04] / spreads[0.02] == pytest.approx(2, rel=0.15)
    if name in BIASED:
        whole = make(0.02, None)  # without noise it stays there
        state = whole.init(RIDGE, end)
        state = state._replace(m=RIDGE.average_gradient(end)) if name == "DSGDm" else state  # its momenta end there
        after = whole.step(RIDGE, network, whole.step(RIDGE, network, state))
        np.testing.assert_allclose(after.w, end, rtol=0, atol=1e-12)
        biases = [np.linalg.norm(limit(name, step) - BEST) for step in (0.0004, 0.0002)]
        assert biases[0] / biases[1] == pytest.approx(2, rel=0.02)


def test_d2_rejects_weights_with_which_agents_never_agree():
    """On a ring of six, weights of 1/3 have the eigenvalue -1/3: a mode that turns its sign for ever."""
    p, ring = curved(), topologies.ring(6)
    with pytest.raises(ValueError, match=r"eigenvalues are all above -1/3, and the least of .* is -0\.333333: give .*lazy"):
        consensus.solve(p, ring, solvers.D2(0.05), rounds=1)
    assert solvers.D2().prepared(p, LAZY).step_size == pytest.approx(1 / p.lipschitz().max(), rel=1e-5)


@pytest.mark.filterwarnings("ignore:RelaySGD.*theory needs", "ignore:.*never jointly connected")
def test_relay_sgd_asks_for_one_connected_network():
    for network, match in (
        (SCHEDULES["random"], r"along a tree that stays as it is, and .* changes: give a static network"),
        (
            nx.disjoint_union(topologies.ring(3), topologies.ring(3)),
            "along a tree that joins all agents, and .* falls into parts",
        ),
    ):
        with pytest.raises(ValueError, match=match):
            consensus.solve(curved(), network, solvers.RelaySGD(0.1), rounds=1)
    with pytest.raises(TypeError, match=r"the tree is not known yet: solver\.prepared"):
        solvers.RelaySGD(0.1).init(curved(), np.zeros((6, 31)))
    with pytest.raises(TypeError, match="solver of Gossip cannot be RelaySGD, which takes messages one by one"):
        solvers.Gossip(solvers.RelaySGD(0.1), 2)


def test_tables_that_would_be_too_large_are_rejected_with_their_size():
    """Of a linear model it is a number a sample and output, however many features there are."""
    shards = consensus.partition(np.ones((4000, 100)), np.ones(4000), 4)
    wide, linear = (
        consensus.Problem(model, consensus.SquaredLoss(), shards, consensus.L2(0.1))
        for model in (consensus.MLP([100, 100, 1]), consensus.Linear(100))
    )
    with pytest.raises(ValueError, match=r"GTSAGA remembers 10,201 numbers .* up to 1,000 samples an agent 311 MB .* 256"):
        consensus.solve(wide, topologies.ring(4), solvers.GTSAGA(0.1), rounds=1)
    assert solvers.GTSAGA(0.1).init(linear, np.zeros((4, 101))).table.shape == (4, 1000, 1)
    functions = consensus.Problem.from_functions(lambda w: w[:, 0], np.ones_like, agents=6, parameters=1)
    with pytest.raises(TypeError, match="GTSAGA needs a model"):
        consensus.solve(functions, LAZY, solvers.GTSAGA(0.1), rounds=1)


# KGT, LED and ProxSkip, which do more than one gradient an exchange: bounds, the rate of ProxSkip, counts.

L2 = consensus.L2(0.1)
SKIPPING = ProxSkip(0.05, probability=0.3, seed=4)


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
    assert np.linalg.eigvalsh(dense(network))[0] == pytest.approx(lowest)
    assert KGT(local_steps=1).stable_step(p, network) <= 0.9 * bound * (1 + 1e-9)
    for factor, stable in ((0.99, True), (1.01, False)):
        *_, end = states(KGT(factor * bound, local_steps=1), p, network, 4000)
        assert (abs(end.w).max() < 1e-6) == stable


def test_the_squared_error_of_proxskip_shrinks_as_its_theory_says():
    """By 1 - min(alpha mu, p^2 (1 - lambda_2) / 2) or faster; by the second here, so half of p takes four times as long."""
    p, network = quadratic(8), topologies.Static(topologies.ring(8))
    curvatures, second = np.linalg.eigvalsh(hessians(p)[0]), np.linalg.eigvalsh(dense(network))[-2]
    rates = {}
    for probability in (0.1, 0.2):
        runs = [list(states(ProxSkip(1 / curvatures.max(), probability, seed), p, network, 600)) for seed in range(4)]
        errors = [[np.sum((run[n].w - optimum(p)) ** 2) for n in (100, 600)] for run in runs]
        rates[probability] = -np.mean([np.log(late / early) for early, late in errors]) / 500
        shrinks = probability**2 * (1 - second) / 2
        assert shrinks < curvatures.min() / curvatures.max()
        assert shrinks < rates[probability]
    assert rates[0.2] / rates[0.1] == pytest.approx(4, rel=0.3)


def test_a_round_that_is_skipped_costs_no_exchange():
    p = problem("squared", L2)
    history = consensus.solve(p, SCHEDULES["static"], SKIPPING, rounds=200, record_every=1).history
    made = np.diff(history["exchanges"]).astype(bool)
    assert made.tolist() == [SKIPPING.communicates(n) for n in range(200)]
    assert 40 < made.sum() < 80
    edges = 2 * SCHEDULES["static"].graph(0).number_of_edges()
    assert history["messages"][-1] == edges * made.sum()
    assert history["floats"][-1] == edges * made.sum() * p.parameters
    assert history["gradients"][-1] == 200


@pytest.mark.parametrize("solver", [KGT(0.02, local_steps=3), LED(0.02, local_steps=3)], ids=str)
def test_local_steps_are_counted(solver):
    history = consensus.solve(problem("squared", L2), SCHEDULES["static"], solver, rounds=10, record_every=1).history
    assert (history["gradients"][-1], history["exchanges"][-1]) == (30, 10)


# Methods with minibatches: batches that are whole shards, what trackers keep, what is counted, and settings.

DESCENT = "D2 DecentLaM DGD DSGDm GradientTracking GTHSGD GTSARAH GTVR KGT LED QGDSGDm RelaySGD SGP"
SURROGATES = (FullLinearization(2.0), PartialLinearization(0.5), PartialLinearization(0.3, "local"))
COMPRESSED = [partial(getattr(solvers, name), Quantize(4)) for name in ("BEER", "CGT", "ChocoSGD", "LEAD", "MoTEF")]
BATCHED = [partial(getattr(solvers, name), 0.02) for name in DESCENT.split()]
BATCHED += [partial(make, 0.02) for make in COMPRESSED]
BATCHED += [partial(kind, surrogate, 0.3) for kind in (solvers.NEXT, solvers.SONATA) for surrogate in SURROGATES]


@pytest.mark.parametrize("make", BATCHED, ids=lambda make: " ".join(map(str, (make.func.__name__, *make.args))))
@pytest.mark.filterwarnings("ignore:LEAD's theory needs convex")
def test_a_batch_of_everything_is_the_whole_gradient_to_the_bit(make):
    whole, batched, few = (consensus.solve(P, LAZY, make(batch=size), rounds=6) for size in (None, 16, 3))
    assert_same(batched, whole)
    assert not np.array_equal(few.w, whole.w)


def test_whole_batches_make_exact_methods():
    assert_equal_methods(P, (solvers.D2(0.05, 16), LAZY), (solvers.ExactDiffusion(0.05), SCHEDULES["static"]))
    assert_equal_methods(
        problem("squared", None, MLP), (solvers.GTHSGD(0.05, 10, beta=0.3), LAZY), (solvers.ProxGT(0.05), LAZY)
    )


TRACKING = [partial(kind, 0.05) for kind in (solvers.GTHSGD, solvers.GTSAGA, solvers.GTSARAH, solvers.GTVR)]
TRACKING += [partial(solvers.GradientTracking, 0.05, order) for order in ("atc", "cta")]
TRACKING += [partial(kind, FULL, 0.3, averaging=0.5) for kind in (solvers.NEXT, solvers.SONATA)]
TRACKING += [partial(kind, TopK(3), 0.02, 0.3) for kind in (solvers.BEER, solvers.CGT, solvers.MoTEF)]


@pytest.mark.parametrize("make", TRACKING, ids=lambda make: f"{make.func.__name__} {make.args[-1]}")
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_trackers_add_up_to_the_estimates(schedule, make):
    for state in states(make(batch=RULE), P, SCHEDULES[schedule], 20):
        tracked = state.y + state.change if make.func is solvers.GTSARAH else state[2] * getattr(state, "mass", 1.0)
        estimates = next(getattr(state, name) for name in ("average", "momentum", "v", "gradient") if hasattr(state, name))
        np.testing.assert_allclose(tracked.mean(axis=0), estimates.mean(axis=0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("solver", [solvers.SGP(0.02, RULE), solvers.SONATA(FULL, 0.3, batch=RULE)], ids=["SGP", "SONATA"])
def test_masses_add_up(solver):
    for state in states(solver, P, PUSH, 20):
        assert state.mass.sum() == pytest.approx(6, rel=1e-13)
    assert np.ptp(state.mass) > 0.1


@pytest.mark.parametrize("make", [solvers.DGD, solvers.GradientTracking])
def test_a_number_of_samples_is_a_rule(make):
    assert make(0.05, batch=3) == make(0.05, batch=Minibatches(3))
    assert make(0.05).batch is None
    assert "batch=Minibatches(size=3, seed=0, replacement=False)" in repr(make(0.05, batch=3))


def test_the_history_counts_samples():
    """3 of 4, 16, 9, 11, 7 and 13 samples in each of 13 rounds, less in the last round of an epoch."""
    ring, sizes = topologies.ring(6), [4, 16, 9, 11, 7, 13]
    history = consensus.solve(P, ring, solvers.DGD(0.05, batch=3), rounds=13, record_every=1).history
    expected = [sum(min(3, n - round % -(-n // 3) * 3) for n in sizes) for round in range(13)]
    assert history["samples"].tolist() == [0, *np.cumsum(expected)]
    assert history["gradients"].tolist() == list(range(14))
    whole = consensus.solve(P, ring, solvers.GradientTracking(0.05), rounds=2, record_every=1).history
    assert whole["samples"].tolist() == [60, 120, 180]
    assert history["epochs"].tolist() == (history["samples"] / 60).tolist()
    assert whole["epochs"].tolist() == [1, 2, 3]


def test_estimates_count_every_sample_that_they_look_at():
    """Whole gradients of 60 samples, two gradients of a batch: but SAGA remembers the second."""
    two = Minibatches(2, replacement=True)
    for solver, rounds in (
        (solvers.GTSAGA(0.02, two), 12),
        (solvers.GTHSGD(0.02, two), 24),
        (solvers.GTSARAH(0.02, two, period=2), 24),
    ):
        samples = np.diff(consensus.solve(P, LAZY, solver, rounds=4, record_every=1).history["samples"], prepend=0)
        expected = [60, rounds, 60, rounds, 60] if isinstance(solver, solvers.GTSARAH) else [60] + 4 * [rounds]
        assert samples.tolist() == expected


@pytest.mark.parametrize("make", [solvers.D2, *COMPRESSED])
def test_theory_has_no_step_for_batches(make):
    name = getattr(make, "func", make).__name__
    with pytest.raises(TypeError, match=f"{name} has no bound on its step for batches from theory: give step_size="):
        consensus.solve(problem("squared", consensus.L2(0.1)), LAZY, make(batch=3), rounds=1)


test_refusals = refusals(
    (lambda: solvers.QGDSGDm(0.1, momentum=1), ValueError, "momentum must be a finite number >= 0 and < 1; got 1"),
    (lambda: solvers.QGDSGDm(0.1, averaging=-0.1), ValueError, "averaging must be .*got -0.1"),
    (lambda: solvers.GTHSGD(0.1, beta=0), ValueError, "beta must be a finite number > 0 and <= 1; got 0"),
    (lambda: solvers.DecentLaM(0.1, momentum=1), ValueError, "momentum must be .*< 1; got 1"),
    (lambda: solvers.GTSARAH(0.1, period=0), ValueError, "period must be a whole number >= 1; got 0"),
    (lambda: solvers.GTVR(0.1, probability=0), ValueError, "probability must be a finite number > 0 and <= 1; got 0"),
    (lambda: solvers.GTVR(0.1, seed=-1), ValueError, "seed must be a whole number >= 0; got -1"),
    (lambda: solvers.GTHSGD(0), ValueError, "step_size must be a finite number > 0; got 0"),
    (lambda: solvers.NEXT(FULL, 0.5, averaging=0.5), ValueError,
     r"averaging is of gradients from batches: give batch=, or leave averaging=0\.5"),
    (lambda: solvers.NEXT(FULL, 0.5, batch=3, averaging=2.0), ValueError, r"^averaging must be .* <= 1; got 2\.0"),
    (lambda: consensus.solve(P, LAZY, solvers.QGDSGDm(CosineAnnealing(0.1, 3)), rounds=6), ValueError,
     r"step_size=CosineAnnealing.* in round 3 must be a finite number > 0; got 0\.0"),
)  # fmt: skip
