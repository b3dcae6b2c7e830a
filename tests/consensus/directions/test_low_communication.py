"""NoLoCo and DiLoCo: their papers' statements, agents that stay together, compressed outer steps, settings."""

import pickle

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.compression import TopK
from consensus.directions import Momentum
from consensus.solvers import Compressed, DiLoCo, NoLoCo
from consensus.step_sizes import CosineAnnealing, Diminishing
from tests.helpers import directions_by_hand as by_hand
from tests.helpers.turns import in_turn

AGENTS, LOCAL, ROUNDS = 6, 5, 7
CLOSE = {"rtol": 0, "atol": 1e-12}


def problem(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((48, 4))
    y = np.tanh(X @ rng.standard_normal((4, 2)))
    return consensus.Problem(consensus.MLP([4, 6, 2]), consensus.SquaredLoss(), consensus.partition(X, y, AGENTS, "sorted"))


def locally(p, outer, memory, alpha):
    """The agents' inner steps of AdamW, whose means go on from round to round."""
    x = outer.copy()
    for _ in range(LOCAL):
        g, memory["t"] = p.average_gradient(x), memory["t"] + 1
        for i in range(AGENTS):
            memory["m"][i], memory["v"][i], d = by_hand.adam_w(memory["m"][i], memory["v"][i], memory["t"], g[i], x[i])
            x[i] = x[i] - alpha * d
    return x


def memory_of(p):
    return {"m": np.zeros((AGENTS, p.parameters)), "v": np.zeros((AGENTS, p.parameters)), "t": 0}


def test_noloco_in_random_pairs_is_the_statement_pair_by_pair():
    p, pairs = problem(), topologies.Matchings(AGENTS, seed=3)
    o = np.tile(p.model.init(np.random.default_rng(1)), (AGENTS, 1))
    start, m, memory = o[0].copy(), np.zeros_like(o), memory_of(p)
    for n in range(ROUNDS):
        x = locally(p, o, memory, 0.01)
        edges = list(pairs.graph(n).edges)
        assert len(edges) == AGENTS / 2
        for pair in map(list, edges):
            step = (x[pair] - o[pair]).mean(axis=0) + o[pair].mean(axis=0) - o[pair]
            m[pair] = 0.5 * m[pair] + 0.7 * step
        o = o + m
    result = consensus.solve(p, pairs, NoLoCo(0.01, LOCAL), rounds=ROUNDS, start=start)
    np.testing.assert_allclose(result.w, o, **CLOSE)


def test_diloco_on_the_complete_graph_has_pytorch_s_outer_optimiser_of_a_server():
    torch = pytest.importorskip("torch")
    p = problem()
    start, memory = p.model.init(np.random.default_rng(1)), memory_of(p)
    o = torch.tensor(start)
    server = torch.optim.SGD([o], lr=0.7, momentum=0.9, nesterov=True)
    for _ in range(ROUNDS):
        ends = locally(p, np.tile(o.numpy(), (AGENTS, 1)), memory, 0.01)
        o.grad = o - torch.tensor(ends.mean(axis=0))
        server.step()
    result = consensus.solve(p, topologies.complete(AGENTS), DiLoCo(0.01, LOCAL), rounds=ROUNDS, start=start)
    np.testing.assert_allclose(result.w, np.tile(o.numpy(), (AGENTS, 1)), **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "network"), in_turn([NoLoCo, DiLoCo], ["pairs on a ring", "ring"], every=3))
def test_agents_stay_together_though_their_labels_differ(method, network):
    """The worst agent's error is within two points of the mean's."""
    data = consensus.datasets.split(*consensus.datasets.load("digits"), classification=True)
    shards = consensus.partition(data.X, data.y, agents=8, scheme="dirichlet", concentration=0.5, seed=0)
    whole = consensus.Problem(consensus.MLP([64, 32, 10]), consensus.CrossEntropy(), shards)
    graph = topologies.ring(8) if network == "ring" else topologies.Matchings(8, graph=nx.cycle_graph(8))
    solver = method(CosineAnnealing(0.002, rounds=1500), 50, batch=32)
    history = consensus.solve(whole, graph, solver, rounds=30, record_every=30, test=(data.X_test, data.y_test)).history
    assert history["test_error"][-1] < 0.06
    assert history["test_error_worst"][-1] <= history["test_error"][-1] + 0.02


def test_outer_steps_can_be_compressed():
    p = problem()
    options = {"rounds": 150, "record_every": 150}
    sent = {}
    for name, solver in (("whole", DiLoCo(0.003, LOCAL)), ("compressed", Compressed(DiLoCo(0.003, LOCAL), TopK(0.2)))):
        history = consensus.solve(p, topologies.ring(AGENTS), solver, **options).history
        assert history["objective"][-1] < 0.5 * history["objective"][0]
        sent[name] = history["bytes"][-1]
    assert sent["compressed"] < 0.4 * sent["whole"]


@pytest.mark.parametrize("method", [NoLoCo, DiLoCo])
def test_no_direction_is_a_setting_of_its_own(method):
    plain = method(0.01, direction=None)
    assert pickle.loads(pickle.dumps(plain)) == plain != method(0.01)
    assert repr(plain).endswith("direction=None)")
    p, ring = problem(), topologies.ring(AGENTS)
    solvers = [method(0.01, LOCAL, direction=direction) for direction in (None, Momentum(0.0))]  # the gradient itself
    np.testing.assert_allclose(
        *[consensus.solve(p, ring, one, rounds=3, start=np.ones(p.parameters)).w for one in solvers], **CLOSE
    )


def test_rules_of_steps_count_local_steps():
    p, rule = problem(), Diminishing(0.05, 0.5)
    start = np.ones(p.parameters)
    o = np.tile(start, (AGENTS, 1))
    for n in range(2):
        x = o
        for k in range(n * LOCAL, (n + 1) * LOCAL):
            x = x - rule(k) * p.average_gradient(x)
        o = np.tile(x.mean(axis=0), (AGENTS, 1))
    solver = NoLoCo(rule, LOCAL, outer=1.0, momentum=0.0, direction=None)
    np.testing.assert_allclose(consensus.solve(p, topologies.complete(AGENTS), solver, rounds=2, start=start).w, o, **CLOSE)


@pytest.mark.parametrize(("settings", "fault"), [
    ({"local_steps": 0}, "local_steps must be a whole number >= 1"),
    ({"outer": 0.0}, "outer must be .*> 0"),
    ({"momentum": 1.0}, "momentum must be .*< 1"),
    ({"momentum": -0.1}, "momentum must be .*>= 0"),
])  # fmt: skip
@pytest.mark.parametrize("method", [NoLoCo, DiLoCo])
def test_settings_that_are_wrong_are_named(method, settings, fault):
    with pytest.raises(ValueError, match=fault):
        method(0.01, **settings)
