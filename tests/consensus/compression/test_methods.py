"""Methods that send compressed differences: their equations, where they end, what they need."""

import warnings

import numpy as np
import pytest

import consensus
import topologies
from consensus import solvers
from consensus.compression import NoCompression, Quantize, RandomK, TopK
from consensus.solvers import BEER, CGT, DGD, LEAD, NEXT, SONATA, ChocoSGD, Compressed, Gossip, GradientTracking, MoTEF
from consensus.surrogates import FullLinearization
from tests.helpers.problems import PUSH, SCHEDULES, problem
from tests.helpers.quadratics import NETWORKS, dense, optimum, quadratic
from tests.helpers.refusals import refusals
from tests.helpers.stochastic import RULE, assert_equal_methods, assert_iterates, curved, rest_of_descent

L2, FULL, TOP = consensus.L2(0.1), FullLinearization(4.0), TopK(3)
STATIC, ALPHA, GAMMA = SCHEDULES["static"], 0.02, 0.3


class Plain:
    """Plain statements of a round k: X, and the other arrays that a method keeps.

    Q(x, number) is what is sent of x, ``memory`` the part of it that is remembered, ``pull(H) = (W - I) H``. Vector p of round
    n is message 2 n + p, or n where there is one.
    """

    def __init__(self, compressor, memory, rule):
        self.p, self.compressor, self.memory, self.rule = curved(), compressor, memory, rule

    def G(self, X, k):
        return self.p.average_gradient(X, self.rule and self.rule.at(self.p, k))

    def Q(self, x, number):
        return self.compressor.pack(x, np.arange(6), number).unpack()

    def pull(self, H):
        return STATIC.weights(0) @ H - H

    def choco(self, k, X, H):
        Z = X - ALPHA * self.G(X, k)
        H = H + self.memory * self.Q(Z - H, k)
        return Z + GAMMA * self.pull(H), H

    def lead(self, k, X, D, H):
        Z = X - ALPHA * self.G(X, k)
        q = self.Q(Z - ALPHA * D - H, k)
        D = D - GAMMA / (2 * ALPHA) * self.pull(H + q)
        return Z - ALPHA * D, D, H + self.memory * q

    def beer(self, k, X, V, M, H, S, momentum=1.0):
        X, before = X + GAMMA * self.pull(H) - ALPHA * V, M
        M = (1 - momentum) * M + momentum * self.G(X, k + 1)
        V = V + GAMMA * self.pull(S) + M - before
        return X, V, M, H + self.memory * self.Q(X - H, 2 * k), S + self.memory * self.Q(V - S, 2 * k + 1)

    def motef(self, k, *arrays):
        return self.beer(k, *arrays, momentum=0.3)

    def cgt(self, k, X, Y, V, H, S):
        q, r = self.Q(X - H, 2 * k), self.Q(Y - S, 2 * k + 1)
        X = X + GAMMA * self.pull(H + q) - ALPHA * Y
        new = self.G(X, k + 1)
        return X, Y + GAMMA * self.pull(S + r) + new - V, new, H + self.memory * q, S + self.memory * r

    def feedback(self, k, X, Y, V, H, S):
        H, S = H + self.memory * self.Q(X - H, 2 * k), S + self.memory * self.Q(Y - S, 2 * k + 1)
        X = X + GAMMA * self.pull(H) - ALPHA * Y
        new = self.G(X, k + 1)
        return X, Y + GAMMA * self.pull(S) + new - V, new, H, S

    def start(self, X, memories):
        """The arrays of a method that are not X at first: zero, or gradients and memories."""
        return [0 * X] * memories if memories < 3 else [self.G(X, 0)] * 2 + [0 * X] * 2


METHODS = {
    "choco": (1, lambda Q, batch: ChocoSGD(Q, ALPHA, GAMMA, batch)),
    "lead": (2, lambda Q, batch: LEAD(Q, ALPHA, GAMMA, batch)),
    "beer": (4, lambda Q, batch: BEER(Q, ALPHA, GAMMA, batch)),
    "motef": (4, lambda Q, batch: MoTEF(Q, ALPHA, GAMMA, batch, momentum=0.3)),
    "cgt": (4, lambda Q, batch: CGT(Q, ALPHA, GAMMA, batch)),
    "feedback": (4, lambda Q, batch: Compressed(GradientTracking(ALPHA, "cta", batch), Q, GAMMA)),
}


@pytest.mark.parametrize(("compressor", "memory", "rule"), [
    (TOP, 1, None),
    (RandomK(2, seed=5), 1, RULE),
    (Quantize(3, seed=5), 6 / 11, RULE),  # 1 / (1 + C), and C = min((31 - 1) / (4 3^2), sqrt(31) / 3) = 5 / 6
], ids=["top", "random", "quantised"])  # fmt: skip
@pytest.mark.parametrize("name", METHODS)
def test_methods_follow_their_equations(name, compressor, memory, rule):
    plain, (arrays, make) = Plain(compressor, memory, rule), METHODS[name]
    step, others = getattr(plain, name), lambda X: plain.start(X, arrays)
    assert_iterates(make(compressor, rule), plain.p, STATIC, step, others, rounds=12)


INNER = [NEXT(FULL, 0.1), GradientTracking(0.05), GradientTracking(0.05, order="cta"), DGD(0.05)]
SLOWER = topologies.schedule_from_matrix(0.4 * np.eye(6) + 0.6 * PUSH.weights(0).toarray())
EQUAL = [((Compressed(inner, NoCompression(), 1.0), STATIC), (inner, STATIC)) for inner in INNER]
EQUAL += [((Compressed(SONATA(FULL, 0.1), NoCompression(), 0.6), PUSH), (SONATA(FULL, 0.1), SLOWER))]  # masses, too
EQUAL += [((MoTEF(TOP, ALPHA, GAMMA, momentum=1.0), STATIC), (BEER(TOP, ALPHA, GAMMA), STATIC))]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_without_loss_a_compressed_method_is_the_method_and_without_momentum_motef_is_beer(one, other):
    assert_equal_methods(problem("squared", L2), one, other)


# Where they end -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("network", "solver"), [
    ("ring of 8", LEAD(Quantize(2))),
    ("ring of 8", BEER(TOP)),
    ("ring of 8", BEER(RandomK(5))),
    ("ring of 8", CGT(Quantize(3))),
    ("ring of 8", MoTEF(TOP)),
    ("geometric of 30", LEAD(Quantize(4))),
    ("geometric of 30", BEER(TopK(6))),
    ("geometric of 30", CGT(Quantize(5))),
    ("geometric of 30", MoTEF(Quantize(5, "nearest"))),
], ids=repr)  # fmt: skip
def test_they_reach_the_optimum_with_their_own_settings(network, solver):
    net = NETWORKS[network]
    p = quadratic(net.agents, 7)
    result = consensus.solve(p, net, solver, rounds=4000, record_every=100, tolerance=1e-11)
    np.testing.assert_allclose(result.w, np.tile(optimum(p), (net.agents, 1)), rtol=0, atol=1e-10)


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


@pytest.mark.slow
@pytest.mark.parametrize(("inner", "network", "exact"), [
    (NEXT(FULL, 0.1), STATIC, NEXT(FULL, 0.3)),
    (SONATA(FULL, 0.1), PUSH, NEXT(FULL, 0.3)),
    (GradientTracking(0.05), STATIC, GradientTracking()),
], ids=["NEXT", "SONATA", "tracking"])  # fmt: skip
def test_they_reach_the_optimum_with_compressed_messages(inner, network, exact):
    p = problem("squared", L2 if isinstance(inner, GradientTracking) else consensus.L1(0.05))
    result = consensus.solve(p, network, Compressed(inner, TopK(2), gamma=0.2), rounds=3000, record_every=100, tolerance=1e-12)
    best = consensus.solve(p, STATIC, exact, rounds=9000, record_every=100, tolerance=1e-13).mean
    np.testing.assert_allclose(result.w, np.tile(best, (6, 1)), rtol=0, atol=1e-10)
    edges = result.history["messages"][-1] / result.history["exchanges"][-1]
    message = 2 * TopK(2).pack(np.ones((1, p.parameters)), np.arange(1), 0).bytes[0]  # of w and of y; and a mass
    assert result.history["bytes"][-1] == result.rounds * edges * (message + (8 if isinstance(inner, SONATA) else 0))


# What they need -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:LEAD's theory needs an unbiased")
@pytest.mark.parametrize("name", METHODS)
def test_on_a_changing_network_they_warn_as_they_never_agree(name):
    p, solver = problem("squared", L2), METHODS[name][1](TOP, None)
    with pytest.warns(UserWarning, match="theory needs mixing matrices with the condition 'static'"):
        history = consensus.solve(p, SCHEDULES["random"], solver, rounds=600, record_every=600).history
    assert history["disagreement"][-1] > 1e-3
    if name != "choco":
        calm = consensus.solve(p, STATIC, solver, rounds=600, record_every=600).history
        assert calm["disagreement"][-1] < 1e-4


def test_lead_warns_of_a_compressor_with_a_bias():
    p = problem("squared", L2)
    with pytest.warns(UserWarning, match=r"LEAD's theory needs an unbiased compressor, and TopK\(k=3\) is not"):
        solvers.check_needs(LEAD(TOP), p, STATIC)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solvers.check_needs(LEAD(Quantize(2)), p, STATIC)


class Silent(DGD):
    """Declares less than it sends."""

    sends = ""


class Chatty(GradientTracking):
    """Declares one vector, and sends two."""

    sends = "w"


def run(solver):
    return consensus.solve(problem("squared", L2), STATIC, solver, rounds=2)


test_refusals = refusals(
    (lambda: Compressed(Gossip(DGD(0.1), 2), TOP), TypeError, "must be a method, not another wrapper; got Gossip"),
    (lambda: Gossip(Compressed(DGD(0.1), TOP), 2), TypeError, "solver of Gossip cannot be Compressed"),
    (lambda: Compressed(Silent(0.1), TOP), TypeError,
     'solver of Compressed must say what it sends, as in sends = "w, y"; Silent'),
    (lambda: Compressed(DGD(0.1), 0.1), TypeError, r"compressor must be one, such as TopK\(0\.1\)"),
    (lambda: run(Compressed(Chatty(0.1), TOP)), TypeError, "Chatty mixes more vectors in a round than its sends = 'w' says"),
    (lambda: run(Compressed(GradientTracking(), TOP)), TypeError,
     "GradientTracking inside of Compressed has no bound.*give step_size"),
)  # fmt: skip
