"""Methods that send compressed differences: plain statements, where they end, invariants, what they need."""

import itertools
import warnings

import numpy as np
import pytest
from problems import PUSH, SCHEDULES, problem
from quadratics import NETWORKS, dense, optimum, quadratic
from steps_by_hand import MLP, states

import consensus
import topologies
from consensus.compression import NoCompression, Quantize, RandomK, TopK
from consensus.solvers import (
    BEER,
    CGT,
    DGD,
    LEAD,
    NEXT,
    SONATA,
    ChocoSGD,
    Compressed,
    Gossip,
    GradientTracking,
    MoTEF,
    check_needs,
)
from consensus.surrogates import FullLinearization

L2 = consensus.L2(0.1)
STATIC = SCHEDULES["static"]
ALPHA, GAMMA, K = 0.02, 0.3, 3
TOP = TopK(K)
FULL = FullLinearization(4.0)


# Plain statements ---------------------------------------------------------------------------------------------------


def top(x):
    """The K largest of every row."""
    return np.where(np.abs(x) >= np.sort(np.abs(x), axis=1)[:, [-K]], x, 0)


def choco(G, W, X):
    S = 0 * X
    while True:
        yield X
        Z = X - ALPHA * G(X)
        S = S + top(Z - S)
        X = Z + GAMMA * (W @ S - S)


def beer(G, W, X, momentum=1.0):
    H, S, M, V = 0 * X, 0 * X, G(X), G(X)
    while True:
        yield X
        X = X + GAMMA * (W @ H - H) - ALPHA * V
        H = H + top(X - H)
        new = (1 - momentum) * M + momentum * G(X)
        V, M = V + GAMMA * (W @ S - S) + new - M, new
        S = S + top(V - S)


def motef(G, W, X):
    return beer(G, W, X, momentum=0.2)


def cgt(G, W, X):
    H, S, Y = 0 * X, 0 * X, G(X)
    while True:
        yield X
        H, S = H + top(X - H), S + top(Y - S)
        new = X - GAMMA * (H - W @ H) - ALPHA * Y
        Y = Y - GAMMA * (S - W @ S) + G(new) - G(X)
        X = new


def lead(G, W, X):
    H, D = 0 * X, 0 * X
    while True:
        yield X
        H = H + top(X - ALPHA * G(X) - ALPHA * D - H)
        D = D + GAMMA / (2 * ALPHA) * (H - W @ H)
        X = X - ALPHA * G(X) - ALPHA * D


PLAIN = [
    (ChocoSGD(TOP, ALPHA, GAMMA), choco),
    (BEER(TOP, ALPHA, GAMMA), beer),
    (CGT(TOP, ALPHA, GAMMA), cgt),
    (LEAD(TOP, ALPHA, GAMMA), lead),
    (MoTEF(TOP, ALPHA, GAMMA, momentum=0.2), motef),
]
NAMES = [plain.__name__ for _, plain in PLAIN]


@pytest.mark.parametrize(("solver", "plain"), PLAIN, ids=NAMES)
def test_they_are_what_plain_numpy_makes_of_their_equations(solver, plain):
    p = problem("squared", consensus.L2(0.01), MLP, scheme="sizes")
    found = [state.w for state in states(solver, p, STATIC, 30)]
    for w, expected in zip(found, plain(p.average_gradient, STATIC.weights(0).toarray(), found[0]), strict=False):
        np.testing.assert_allclose(w, expected, rtol=0, atol=1e-12)


def test_an_unbiased_message_is_remembered_in_part():
    """b = 1 / (1 + C) of it: two bits of 5 numbers have C = min((5 - 1) / 4, sqrt(5)) = 1."""
    p, solver = problem("squared", L2), BEER(Quantize(2), ALPHA, GAMMA)
    start, after = states(solver, p, STATIC, 1)
    expected = start.w - ALPHA * start.y
    message = solver.compressor.pack(expected, p.rows, 0).unpack()
    np.testing.assert_allclose(after.w, expected, rtol=1e-14)
    np.testing.assert_allclose(after.known_w.sent, message / 2, rtol=1e-14)


# Where they end -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "solver"),
    [
        ("ring of 8", LEAD(Quantize(2))),
        ("ring of 8", BEER(TOP)),
        ("ring of 8", BEER(RandomK(5))),
        ("ring of 8", CGT(Quantize(3))),
        ("ring of 8", MoTEF(TOP)),
        ("geometric of 30", LEAD(Quantize(4))),
        ("geometric of 30", BEER(TopK(6))),
        ("geometric of 30", CGT(Quantize(5))),
        ("geometric of 30", MoTEF(Quantize(5, "nearest"))),
    ],
    ids=repr,
)
def test_they_reach_the_optimum_with_their_own_settings(network, solver):
    net = NETWORKS[network]
    p = quadratic(net.agents, 7)
    result = consensus.solve(p, net, solver, rounds=4000, record_every=100, tolerance=1e-11)
    np.testing.assert_allclose(result.w, np.tile(optimum(p), (net.agents, 1)), rtol=0, atol=1e-10)


def rest_of_descent(p, W, alpha):
    """Where ``X = W (X - alpha G(X))`` rests: a linear system, as the costs are quadratic."""
    shape = (p.agents, p.parameters)
    zero, units = np.zeros(shape), np.eye(np.prod(shape)).reshape(-1, *shape)
    constant = p.average_gradient(zero)
    apply = np.array([(unit - W @ (unit - alpha * (p.average_gradient(unit) - constant))).ravel() for unit in units])
    return np.linalg.solve(apply.T, -alpha * (W @ constant).ravel()).reshape(shape)


@pytest.mark.slow
def test_choco_rests_where_descent_on_a_slower_network_does_away_from_the_optimum_by_as_much_as_the_step():
    net = NETWORKS["ring of 8"]
    p, W = quadratic(8), (1 - GAMMA) * np.eye(8) + GAMMA * dense(net)
    best, distances = optimum(p), []
    for alpha in (0.04, 0.02):
        found = consensus.solve(p, net, ChocoSGD(TopK(2), alpha, GAMMA), rounds=int(50 / alpha), record_every=10_000).w
        rest = rest_of_descent(p, W, alpha)
        np.testing.assert_allclose(found, rest, rtol=0, atol=1e-9)
        distances.append(np.linalg.norm(rest - best))
    assert distances[-1] > 0.01 * np.linalg.norm(best)
    assert distances[0] / distances[1] == pytest.approx(2, rel=0.2)


@pytest.mark.parametrize("solver", [solver for solver, _ in PLAIN[1:]], ids=NAMES[1:])
def test_means_are_kept_at_every_round_whatever_is_lost(solver):
    p = problem("squared", L2, MLP, scheme="sizes")
    for state in states(solver, p, STATIC, 20):
        if isinstance(solver, LEAD):
            np.testing.assert_allclose(state.dual.sum(axis=0), 0, atol=1e-12)
            continue
        tracked = state.momentum if isinstance(solver, MoTEF) else p.average_gradient(state.w)
        np.testing.assert_allclose(state.y.mean(axis=0), tracked.mean(axis=0), rtol=0, atol=1e-12)


def test_motef_without_momentum_is_beer():
    p = problem("squared", L2, MLP)
    pair = (states(solver, p, STATIC, 20) for solver in (BEER(TOP, ALPHA, GAMMA), MoTEF(TOP, ALPHA, GAMMA, momentum=1.0)))
    for one, other in zip(*pair, strict=True):
        np.testing.assert_allclose(one.w, other.w, rtol=0, atol=1e-13)


@pytest.mark.parametrize("make", [ChocoSGD, BEER, CGT, LEAD, MoTEF])
def test_a_batch_of_everything_is_the_method_without(make):
    p = problem("squared", L2, scheme="sizes")
    compressor = Quantize(4)
    whole, batched, few = (
        consensus.solve(p, STATIC, make(compressor, ALPHA, batch=size), rounds=9, record_every=9).w for size in (None, 16, 3)
    )
    np.testing.assert_array_equal(batched, whole)
    assert not np.array_equal(few, whole)
    with pytest.raises(TypeError, match=f"{make.__name__} has no bound on its step for batches from theory: give step_size="):
        consensus.solve(p, STATIC, make(compressor, batch=3), rounds=1)


def test_with_the_largest_tenth_a_fifth_of_the_bytes_of_tracking_is_enough():
    """A small network trained on the diabetes data: to the stationarity that tracking reaches in 150 rounds, or a lower one."""
    X, y = consensus.datasets.load("diabetes")
    shards = consensus.partition(X / X.std(axis=0), (y - y.mean()) / y.std(), 8)
    p = consensus.Problem(consensus.MLP([10, 10, 1]), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    net = NETWORKS["geometric of 8"]
    tracking = consensus.solve(p, net, GradientTracking(0.1), rounds=150, record_every=5).history
    for solver in (BEER(TopK(0.1), 0.1, gamma=0.2), CGT(TopK(0.1), 0.1, gamma=0.2)):
        history = consensus.solve(p, net, solver, rounds=200, record_every=5).history
        reached = history["stationarity"] <= tracking["stationarity"].min()
        assert history["bytes"][reached.argmax()] <= 0.2 * tracking["bytes"][-1]
        assert reached.any()


def sampled(kind, Q, b, G, X, pull, momentum=0.3):
    """Plain statements with batches and unbiased messages: G(x, round) is of the round's batch, Q(x, number) of its own draw.

    H grows by b Q(x - H), with ``b = 1 / (1 + C)``; vector p of round n is message 2 n + p, or n where there is one.
    """
    H, Y, D, V = np.zeros((2, *X.shape)), G(X, 0), 0 * X, G(X, 0)
    for n in itertools.count():
        yield X
        if kind in (ChocoSGD, LEAD):
            Z = X - ALPHA * G(X, n)
            q = Q(Z - H[0] - (ALPHA * D if kind is LEAD else 0), n)
            if kind is LEAD:
                D = D - GAMMA / (2 * ALPHA) * pull(H[0] + q)
            H[0] += b * q
            X = Z - ALPHA * D if kind is LEAD else Z + GAMMA * pull(H[0])
            continue
        before = V
        if kind is CGT:
            q = np.array([Q(X - H[0], 2 * n), Q(Y - H[1], 2 * n + 1)])
            X = X + GAMMA * pull(H[0] + q[0]) - ALPHA * Y
            V = G(X, n + 1)
            Y = Y + GAMMA * pull(H[1] + q[1]) + V - before
        else:
            X = X + GAMMA * pull(H[0]) - ALPHA * Y
            V = G(X, n + 1) if kind is BEER else (1 - momentum) * V + momentum * G(X, n + 1)
            Y = Y + GAMMA * pull(H[1]) + V - before
            q = np.array([Q(X - H[0], 2 * n), Q(Y - H[1], 2 * n + 1)])
        H += b * q


@pytest.mark.parametrize("kind", [ChocoSGD, LEAD, BEER, CGT, MoTEF], ids=lambda kind: kind.__name__)
def test_methods_with_batches_and_unbiased_messages_are_their_equations(kind):
    p, W, messages, rule = problem("squared", L2), STATIC.weights(0).toarray(), Quantize(3, seed=5), consensus.Minibatches(3)
    more = {"momentum": 0.3} if kind is MoTEF else {}
    found = list(states(kind(messages, ALPHA, GAMMA, batch=3, **more), p, STATIC, 8))
    plain = sampled(
        kind,
        lambda x, number: messages.pack(x, np.arange(6), number).unpack(),
        1 / (2 - messages.omega(p.parameters)),
        lambda x, round: p.average_gradient(x, rule.at(p, round)),
        found[0].w,
        lambda h: W @ h - h,
    )
    for state, x in zip(found, plain, strict=False):
        np.testing.assert_allclose(state.w, x, rtol=0, atol=1e-12)


# Error feedback for other methods -----------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [NEXT(FULL, 0.1), GradientTracking(0.05), GradientTracking(0.05, order="cta"), DGD(0.05)])
def test_without_loss_a_compressed_method_is_the_method(inner):
    p = problem("squared", L2)
    found = states(Compressed(inner, NoCompression(), gamma=1.0), p, STATIC, 30)
    for one, other in zip(found, states(inner, p, STATIC, 30), strict=True):
        np.testing.assert_allclose(one.w, other.w, rtol=0, atol=1e-12)


def test_masses_meet_the_same_slower_matrix():
    p, inner = problem("squared", L2), SONATA(FULL, 0.1)
    slow = topologies.schedule_from_matrix(0.4 * np.eye(6) + 0.6 * PUSH.weights(0).toarray())
    found = states(Compressed(inner, NoCompression(), gamma=0.6), p, PUSH, 30)
    for one, other in zip(found, states(inner, p, slow, 30), strict=True):
        np.testing.assert_allclose(one.inner.mass, other.mass, rtol=1e-13)
        np.testing.assert_allclose(one.w, other.w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("compressor", [RandomK(2, seed=5), Quantize(3, seed=5), TOP], ids=["random", "quantised", "top"])
def test_error_feedback_is_its_equation(compressor):
    """Vector p of round n is message 2 n + p; what contracts is a part 1 / (1 + C) of an unbiased message."""
    p, W, everyone = problem("squared", L2), STATIC.weights(0).toarray(), np.arange(6)
    part = 1 / (2 - compressor.omega(p.parameters)) if compressor.unbiased else 1.0
    assert (part < 1) == isinstance(compressor, Quantize)
    found = list(states(Compressed(GradientTracking(ALPHA, order="cta"), compressor, GAMMA), p, STATIC, 8))
    x = found[0].w
    y = gradient = p.average_gradient(x)
    known = np.zeros((2, *x.shape))
    for n, state in enumerate(found):
        np.testing.assert_allclose(state.w, x, rtol=0, atol=1e-12)
        for place, vector in enumerate((x, y)):
            known[place] += part * compressor.pack(vector - known[place], everyone, 2 * n + place).unpack()
        slow = [vector + GAMMA * (W @ h - h) for vector, h in zip((x, y), known, strict=True)]
        x, before = slow[0] - ALPHA * y, gradient
        gradient = p.average_gradient(x)
        y = slow[1] + gradient - before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inner", "network"),
    [(NEXT(FULL, 0.1), STATIC), (SONATA(FULL, 0.1), PUSH), (GradientTracking(0.05), STATIC)],
    ids=["NEXT", "SONATA", "tracking"],
)
def test_they_reach_the_optimum_with_compressed_messages(inner, network):
    p = problem("squared", consensus.L1(0.05) if not isinstance(inner, GradientTracking) else L2)
    result = consensus.solve(p, network, Compressed(inner, TopK(2), gamma=0.2), rounds=3000, record_every=100, tolerance=1e-12)
    exact = consensus.solve(p, STATIC, GradientTracking() if p.regularizer is L2 else NEXT(FULL, 0.3), rounds=9000,
                            record_every=100, tolerance=1e-13)  # fmt: skip
    np.testing.assert_allclose(result.w, np.tile(exact.mean, (6, 1)), rtol=0, atol=1e-10)
    edges = result.history["messages"][-1] / result.history["exchanges"][-1]
    message = 2 * TopK(2).pack(np.ones((1, p.parameters)), np.arange(1), 0).bytes[0]  # of w and of y; and a mass
    assert result.history["bytes"][-1] == result.rounds * edges * (message + (8 if isinstance(inner, SONATA) else 0))


# What they need -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:LEAD's theory needs an unbiased")
@pytest.mark.parametrize(
    "solver", [*(solver for solver, _ in PLAIN), Compressed(GradientTracking(ALPHA), TOP, GAMMA)], ids=[*NAMES, "wrapped"]
)
def test_on_a_changing_network_they_warn_as_they_never_agree(solver):
    p = problem("squared", L2)
    with pytest.warns(UserWarning, match="theory needs mixing matrices with the condition 'static'"):
        history = consensus.solve(p, SCHEDULES["random"], solver, rounds=600, record_every=600).history
    assert history["disagreement"][-1] > 1e-3
    if not isinstance(solver, ChocoSGD):
        calm = consensus.solve(p, STATIC, solver, rounds=600, record_every=600).history
        assert calm["disagreement"][-1] < 1e-4


def test_lead_warns_of_a_compressor_with_a_bias():
    p = problem("squared", L2)
    with pytest.warns(UserWarning, match=r"LEAD's theory needs an unbiased compressor, and TopK\(k=3\) is not"):
        check_needs(LEAD(TOP), p, STATIC)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_needs(LEAD(Quantize(2)), p, STATIC)


class Silent(DGD):
    """Says less than it sends."""

    sends = ""


class Chatty(GradientTracking):
    """Says that it sends one vector, and sends two."""

    sends = "w"


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: Compressed(Gossip(DGD(0.1), 2), TOP),
            "solver of Compressed must be a method, not another wrapper; got Gossip",
        ),
        (lambda: Gossip(Compressed(DGD(0.1), TOP), 2), "solver of Gossip cannot be Compressed"),
        (lambda: Compressed(Silent(0.1), TOP), 'solver of Compressed must say what it sends, as in sends = "w, y"; Silent'),
        (lambda: Compressed(DGD(0.1), 0.1), r"compressor must be one, such as TopK\(0\.1\)"),
        (lambda: run(Compressed(Chatty(0.1), TOP)), "Chatty mixes more vectors in a round than its sends = 'w' says"),
        (
            lambda: run(Compressed(GradientTracking(), TOP)),
            "GradientTracking inside of Compressed has no bound.*give step_size",
        ),
    ],
)
def test_what_cannot_be_compressed_is_refused(make, match):
    with pytest.raises(TypeError, match=match):
        make()


def run(solver):
    return consensus.solve(problem("squared", L2), STATIC, solver, rounds=2)
