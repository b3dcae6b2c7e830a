"""AdaptiveNEXT does the same in other units of the objective, and whatever number an agent has."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from problems import problem
from threadpoolctl import threadpool_limits

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.losses.base import Loss
from consensus.solvers import AdaptiveNEXT

AGENTS = 6
GRAPH = topologies.erdos_renyi(AGENTS, 0.5, seed=3)
CIRCLE = nx.DiGraph([(k, (k + 1) % AGENTS) for k in range(AGENTS)] + [(0, 3), (5, 2)])
MLP = consensus.MLP([4, 3, 1])
ROUNDS = 10


@pytest.fixture(autouse=True)
def one_thread():
    """As engines do: threads cost more than they bring in small systems."""
    with threadpool_limits(1):
        yield


class Scaled(Loss):
    """``factor`` times another loss."""

    def __init__(self, loss, factor):
        self.loss, self.factor = loss, factor
        self.separable, self.quadratic = loss.separable, loss.quadratic

    def value(self, outputs, targets):
        return self.factor * self.loss.value(outputs, targets)

    def gradient(self, outputs, targets):
        return self.factor * self.loss.gradient(outputs, targets)

    def curvature(self, outputs, targets):
        return self.factor * self.loss.curvature(outputs, targets)

    def curvature_root(self, outputs, targets):
        return np.sqrt(self.factor) * self.loss.curvature_root(outputs, targets)

    def expression(self, outputs, targets, weights):
        return self.factor * self.loss.expression(outputs, targets, weights)

    def check(self, targets, outputs):
        self.loss.check(targets, outputs)


def iterates(p, schedule, w=None):
    """The estimates and trial points of the first rounds, and tau."""
    if w is None:
        w = np.tile(0.5 * np.random.default_rng(0).standard_normal(p.parameters), (p.agents, 1))
    network, solver = StackedNetwork(schedule, p.dtype), AdaptiveNEXT()
    state, found, taus = solver.init(p, w), [], []
    for _ in range(ROUNDS):
        state = solver.step(p, network, state)
        found.append(np.stack([state.step.w, state.w]))
        taus.append(state.step.tau)
    return np.array(found), np.array(taus)


def scaled(name, factor):
    """The problem ``name`` with everything times ``factor``."""
    loss, regularizer, model = {
        "MLP": ("squared", consensus.L2(0.01 * factor), MLP),
        "MLP, L1": ("squared", consensus.L1(0.01 * factor), MLP),
        "classes": ("classes", consensus.L2(0.02 * factor), None),
        "logistic MLP": ("logistic", consensus.L2(0.02 * factor), MLP),
        "elastic net": ("huber", consensus.ElasticNet(0.05 * factor, 0.1 * factor), None),
        "no regularizer": ("squared", None, None),
    }[name]
    p = problem(loss, regularizer, model)
    return consensus.Problem(p.model, Scaled(p.loss, factor), p.shards, regularizer)


def functions(name, factor):
    """Heterogeneous functions: quadratics, or nonconvex ones."""
    rng = np.random.default_rng(1)
    centres, scales = rng.standard_normal((AGENTS, 5)), rng.uniform(0.5, 3, (AGENTS, 5))
    bend = 0.5 if name == "nonconvex" else 0.0
    return consensus.Problem.from_functions(
        lambda w: factor * (scales * (w - centres) ** 2 / 2 + bend * np.cos(2 * w)).sum(axis=1),
        lambda w: factor * (scales * (w - centres) - 2 * bend * np.sin(2 * w)),
        agents=AGENTS,
        parameters=5,
        regularizer=consensus.L1(0.3 * factor) if name == "L1" else consensus.L2(0.1 * factor),
    )


def assert_same_run(found, expected, factor):
    (iterates, taus), (others, other_taus) = found, expected
    moved = np.abs(np.diff(others[:, 1], axis=0)).max(axis=(1, 2))
    assert moved.max() > 1e-2
    np.testing.assert_allclose(iterates, others, rtol=0, atol=1e-9 * np.abs(others).max())
    last = np.flatnonzero(moved > 1e-12).max() + 1  # shorter steps are judged by what rounding makes of their promise
    assert last > 5
    np.testing.assert_allclose(taus[:last], factor * other_taus[:last], rtol=1e-6, atol=0)


@pytest.mark.parametrize("random", [False, True], ids=["static", "random"])
@pytest.mark.parametrize("name", ["MLP", "MLP, L1", "classes", "logistic MLP", "elastic net", "no regularizer"])
def test_the_loss_and_the_regularizer_rescaled_together(name, random):
    schedule = topologies.RandomEdges(GRAPH, 0.5, seed=1) if random else topologies.Static(GRAPH)
    expected = iterates(scaled(name, 1.0), schedule)
    for factor in (2.0**10, 2.0**-10):  # units are powers of two
        assert_same_run(iterates(scaled(name, factor), schedule), expected, factor)


@pytest.mark.parametrize("name", ["quadratic", "nonconvex", "L1"])
def test_functions_and_the_regularizer_rescaled_together(name):
    schedule = topologies.Static(GRAPH)
    expected = iterates(functions(name, 1.0), schedule)
    for factor in (2.0**10, 2.0**-10):
        assert_same_run(iterates(functions(name, factor), schedule), expected, factor)


def test_the_sum_of_losses_is_their_mean_rescaled():
    schedule = topologies.Static(GRAPH)
    total = problem("squared", consensus.L2(0.6), MLP, scheme="sizes", reduction="sum")
    mean = problem("squared", consensus.L2(0.01), MLP, scheme="sizes")
    half = consensus.Problem(mean.model, Scaled(mean.loss, 60.0), mean.shards, consensus.L2(0.6))
    assert_same_run(iterates(total, schedule), iterates(half, schedule), 1)


# Numbers of agents --------------------------------------------------------------------------------------------------

ORDER = np.array([3, 0, 5, 1, 4, 2])  # the new agent k is the old agent ORDER[k]


def renumbered(graph):
    new = {int(old): k for k, old in enumerate(ORDER)}
    return nx.relabel_nodes(graph, new)


SCHEDULES = {
    "static": lambda change: topologies.Static(change(GRAPH)),
    "changing": lambda change: topologies.Periodic(
        [change(topologies.ring(AGENTS)), change(topologies.star(AGENTS)), change(GRAPH)]
    ),
    "directed": lambda change: topologies.Static(change(CIRCLE), weights=topologies.push),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("regularizer", [consensus.L2(0.01), consensus.L1(0.01)], ids=str)
@pytest.mark.parametrize("model", [MLP, None], ids=["MLP", "linear"])
def test_agents_renumbered(model, regularizer, schedule):
    p = problem("squared", regularizer, model, scheme="sizes")
    moved = replace(p.shards.restrict(ORDER), rows=np.arange(AGENTS))
    q = consensus.Problem(p.model, p.loss, moved, regularizer)
    w = 0.5 * np.random.default_rng(0).standard_normal((AGENTS, p.parameters))
    expected, taus = iterates(p, SCHEDULES[schedule](lambda graph: graph), w)
    found, other_taus = iterates(q, SCHEDULES[schedule](renumbered), w[ORDER])
    assert np.abs(p.gradient(w) - p.gradient(w)[ORDER]).max() > 1e-2  # agents differ
    np.testing.assert_allclose(found, expected[:, :, ORDER], rtol=0, atol=1e-8)
    np.testing.assert_allclose(other_taus[:4], taus[:4, ORDER], rtol=1e-5, atol=0)
