"""AdaptiveNEXT does the same in other units of objective, parameters and features, and with other numbers of the agents."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import AdaptiveNEXT
from tests.helpers.problems import AGENTS, CIRCLE, GRAPH, SCHEDULES, problem
from tests.helpers.turns import in_turn

MLP = consensus.MLP([4, 3, 1])
NAMES = {
    "MLP": ("squared", consensus.L2, (0.01,), MLP),
    "MLP, L1": ("squared", consensus.L1, (0.01,), MLP),
    "classes": ("classes", consensus.L2, (0.02,), None),
    "logistic MLP": ("logistic", consensus.L2, (0.02,), MLP),
    "elastic net": ("huber", consensus.ElasticNet, (0.05, 0.1), None),
    "no regularizer": ("squared", consensus.L2, (0.0,), None),
}


def iterates(p, schedule, w=None):
    """Return the estimates and trial points of ten rounds, and tau."""
    if w is None:
        w = np.tile(0.5 * np.random.default_rng(0).standard_normal(p.parameters), (p.agents, 1))
    network, solver = StackedNetwork(schedule, p.dtype), AdaptiveNEXT()
    state, found, taus = solver.init(p, w), [], []
    for _ in range(10):
        state = solver.step(p, network, state)
        found.append(np.stack([state.step.w, state.w]))
        taus.append(state.step.tau)
    return np.array(found), np.array(taus)


def weighted(p, factor, regularizer):
    """Return the problem with the losses times a factor, and another regularizer."""
    return consensus.Problem(p.model, p.loss, replace(p.shards, weights=factor * p.shards.weights), regularizer)


def scaled(name, factor):
    """Return the problem ``name`` times a factor; "quadratic", "nonconvex" and "L1" are given by functions."""
    if name in NAMES:
        loss, kind, weights, model = NAMES[name]
        return weighted(problem(loss, None, model), factor, kind(*(weight * factor for weight in weights)))
    rng, bend = np.random.default_rng(1), 0.5 if name == "nonconvex" else 0.0
    c, scales = rng.standard_normal((AGENTS, 5)), rng.uniform(0.5, 3, (AGENTS, 5))
    return consensus.Problem.from_functions(
        lambda w: factor * (scales * (w - c) ** 2 / 2 + bend * np.cos(2 * w)).sum(axis=1),
        lambda w: factor * (scales * (w - c) - 2 * bend * np.sin(2 * w)),
        agents=AGENTS,
        parameters=5,
        regularizer=consensus.L1(0.3 * factor) if name == "L1" else consensus.L2(0.1 * factor),
    )


def assert_same_run(found, expected, factor):
    (iterates, taus), (others, other_taus) = found, expected
    moved = np.abs(np.diff(others[:, 1], axis=0)).max(axis=(1, 2))
    assert moved.max() > 1e-2
    np.testing.assert_allclose(iterates, others, rtol=0, atol=1e-9 * np.abs(others).max())
    last = np.flatnonzero(moved > 1e-12).max() + 1  # shorter steps are judged by rounding
    assert last > 5
    np.testing.assert_allclose(taus[:last], factor * other_taus[:last], rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("name", "schedule"),
    in_turn(NAMES, ("static", "random"), every=4) + [(name, "static") for name in ("quadratic", "nonconvex", "L1")],
)
def test_costs_and_regularizer_rescaled_together(name, schedule):
    expected = iterates(scaled(name, 1.0), SCHEDULES[schedule])
    for factor in (1e6, 1e-6):
        assert_same_run(iterates(scaled(name, factor), SCHEDULES[schedule]), expected, factor)


def test_the_sum_of_losses_is_their_mean_rescaled():
    total = problem("squared", consensus.L2(0.6), MLP, scheme="sizes", reduction="sum")
    runs = [iterates(p, SCHEDULES["static"]) for p in (total, weighted(total, 60.0, consensus.L2(0.6)))]
    assert_same_run(*runs, 1)


def in_lengths(name, length):
    """Return costs by functions of w / length, and a start: phase retrieval, robust location, and quadratics from zero."""
    rng = np.random.default_rng(2)
    Z, c = rng.standard_normal((AGENTS, 12, 5)), rng.standard_normal((AGENTS, 5))
    h, squares, start = np.logspace(0, 2, 5), np.square(Z @ rng.standard_normal(5)), rng.standard_normal(5)

    def quartic(w, rows):
        u = np.einsum("anp,ap->an", Z[rows], w)
        error = np.square(u) - squares[rows]
        return np.square(error).sum(axis=1), 4 * np.einsum("an,anp->ap", u * error, Z[rows])

    def cauchy(w, rows):
        return np.log1p(np.square(w - c[rows])).sum(axis=1), 2 * (w - c[rows]) / (1 + np.square(w - c[rows]))

    def quadratic(w, rows):
        return (h * np.square(w - c[rows])).sum(axis=1), 2 * h * (w - c[rows])

    f = {"quartic": quartic, "Cauchy": cauchy, "quadratic": quadratic}[name]
    p = consensus.Problem.from_functions(
        lambda w, rows: f(w / length, rows)[0], lambda w, rows: f(w / length, rows)[1] / length, agents=AGENTS, parameters=5
    )
    return p, np.tile(length * start * (name != "quadratic"), (AGENTS, 1))


@pytest.mark.parametrize("schedule", ["static", "random", "directed"])
@pytest.mark.parametrize("name", ["quartic", "Cauchy", "quadratic"])
def test_parameters_rescaled_with_the_start(name, schedule):
    expected, taus = iterates(*in_lengths(name, 1.0)[:1], SCHEDULES[schedule], in_lengths(name, 1.0)[1])
    for length in (1e-6, 1e6):
        p, start = in_lengths(name, length)
        found, other = iterates(p, SCHEDULES[schedule], start)
        np.testing.assert_allclose(found / length, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
        np.testing.assert_allclose(other[:5] * length**2, taus[:5], rtol=1e-6, atol=0)


@pytest.mark.parametrize("schedule", ["static", "random"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_features_rescaled_with_the_start(start, loss, schedule):
    p, w = (
        problem(loss, consensus.L2(0.0), consensus.Linear(4, bias=False)),
        start * np.random.default_rng(0).standard_normal(4),
    )
    expected, _ = iterates(p, SCHEDULES[schedule], np.tile(w, (AGENTS, 1)))
    for factor in (1e-6, 1e6):
        q = consensus.Problem(p.model, p.loss, replace(p.shards, features=factor * p.shards.features), p.regularizer)
        found, _ = iterates(q, SCHEDULES[schedule], np.tile(w / factor, (AGENTS, 1)))
        np.testing.assert_allclose(factor * found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("graph", [topologies.ring(6), topologies.complete(6)], ids=["ring", "complete"])
def test_averages_of_numbers_of_any_size(graph, size):
    c = size * np.random.default_rng(0).standard_normal((6, 2))
    p = consensus.Problem.from_functions(
        lambda w, rows: np.square(w - c[rows]).sum(axis=1) / 12, lambda w, rows: (w - c[rows]) / 6, agents=6, parameters=2
    )
    result = consensus.solve(p, graph, AdaptiveNEXT(), rounds=60, start=np.zeros(2))
    np.testing.assert_allclose(result.w, np.tile(c.mean(axis=0), (6, 1)), rtol=0, atol=1e-11 * size)
    assert result.history["exchanges"][-1] < 1000


ORDER = np.array([3, 0, 5, 1, 4, 2])  # the new agent k is the old agent ORDER[k]
NUMBERED = {
    "static": lambda change: topologies.Static(change(GRAPH)),
    "changing": lambda change: topologies.Periodic([*map(change, (topologies.ring(AGENTS), topologies.star(AGENTS), GRAPH))]),
    "directed": lambda change: topologies.Static(change(CIRCLE), weights=topologies.push),
}


@pytest.mark.parametrize("schedule", NUMBERED)
@pytest.mark.parametrize(("regularizer", "model"), in_turn([consensus.L2(0.01), consensus.L1(0.015)], [MLP, None]), ids=str)
def test_agents_renumbered(model, regularizer, schedule):
    # Zeros of L1 can make exact ties of rounding, which the order of sums breaks: L1(0.01) has one in round ten, this none.
    p = problem("squared", regularizer, model, scheme="sizes")
    q = consensus.Problem(p.model, p.loss, replace(p.shards.restrict(ORDER), rows=np.arange(AGENTS)), regularizer)
    w = 0.5 * np.random.default_rng(0).standard_normal((AGENTS, p.parameters))
    new = {int(old): k for k, old in enumerate(ORDER)}
    expected, taus = iterates(p, NUMBERED[schedule](lambda graph: graph), w)
    found, other_taus = iterates(q, NUMBERED[schedule](lambda graph: nx.relabel_nodes(graph, new)), w[ORDER])
    assert np.abs(p.gradient(w) - p.gradient(w)[ORDER]).max() > 1e-2  # agents differ
    np.testing.assert_allclose(found, expected[:, :, ORDER], rtol=0, atol=1e-8)
    np.testing.assert_allclose(other_taus[:4], taus[:4, ORDER], rtol=1e-5, atol=0)
