"""AdaptiveNEXT on problems given by functions: curvature from the pairs of steps and changes of the network's gradient."""

import networkx as nx
import numpy as np
import pytest
from problems import data
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits
from turns import in_turn, with_slow

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import AdaptiveNEXT

AGENTS, P = 6, 8
GRAPH = topologies.erdos_renyi(AGENTS, 0.5, seed=3)
CIRCLE = nx.DiGraph([(k, (k + 1) % AGENTS) for k in range(AGENTS)] + [(0, 3), (5, 2)])
NETWORKS = {
    "static": topologies.Static(GRAPH),
    "random": topologies.RandomEdges(GRAPH, 0.5, seed=1),
    "directed": topologies.Static(CIRCLE, weights=topologies.push),
}


@pytest.fixture(autouse=True)
def one_thread():
    """As engines do: threads cost more than they bring in small systems."""
    with threadpool_limits(1):
        yield


def quadratics(regularizer=None, size=P, agents=AGENTS):
    """Costs ``(w - c_i)' H_i (w - c_i) / 2`` that differ in everything; the problem, sum H_i and sum H_i c_i."""
    rng = np.random.default_rng(1)
    root, centres = rng.standard_normal((agents, size, size)), rng.standard_normal((agents, size))
    hessians = root @ root.swapaxes(1, 2) / size
    problem = consensus.Problem.from_functions(
        lambda w: np.einsum("ap,apq,aq->a", w - centres, hessians, w - centres) / 2,
        lambda w: np.einsum("apq,aq->ap", hessians, w - centres),
        agents=agents,
        parameters=size,
        regularizer=regularizer,
    )
    return problem, hessians.sum(axis=0), np.einsum("apq,aq->p", hessians, centres)


@pytest.mark.parametrize(("weight", "network"), in_turn([0.0, 0.5], NETWORKS))
def test_quadratics_end_in_the_closed_form(weight, network):
    problem, hessian, right = quadratics(consensus.L2(weight))
    result = consensus.solve(problem, NETWORKS[network], rounds=180)
    expected = np.linalg.solve(hessian + weight * np.eye(P), right)
    np.testing.assert_allclose(result.w, np.tile(expected, (AGENTS, 1)), rtol=0, atol=1e-10)
    objective = result.history["objective"]
    assert objective.max() <= objective[0] * (1 + 1e-12)


@pytest.mark.parametrize(("weight", "network"), in_turn([0.5, 3.0], NETWORKS, every=3))
def test_quadratics_with_an_l1_meet_their_optimality_conditions(weight, network):
    problem, hessian, right = quadratics(consensus.L1(weight))
    result = consensus.solve(problem, NETWORKS[network], rounds=300)
    w = result.mean
    slope = hessian @ w - right
    zero = np.abs(w) < 1e-9
    assert (np.abs(slope[zero]) <= weight + 1e-9).all()
    np.testing.assert_allclose(slope[~zero], -weight * np.sign(w[~zero]), rtol=0, atol=1e-8)
    assert result.history["disagreement"][-1] < 1e-9
    assert zero.any() == (weight == 3.0)


@pytest.mark.parametrize("network", with_slow(NETWORKS, "random"))
def test_a_nonconvex_smooth_sum(network):
    """Cauchy's robust location: SciPy from where the run ends finds nothing better nearby."""
    centres = np.random.default_rng(2).standard_normal((AGENTS, P))
    problem = consensus.Problem.from_functions(
        lambda w: np.log1p(np.square(w - centres)).sum(axis=1),
        lambda w: 2 * (w - centres) / (1 + np.square(w - centres)),
        agents=AGENTS,
        parameters=P,
        regularizer=consensus.L2(0.05),
    )
    result = consensus.solve(problem, NETWORKS[network], rounds=260)
    objective = result.history["objective"]
    assert result.history["stationarity"][-1] < 1e-9
    assert objective.max() <= objective[0] * (1 + 1e-12)
    nearby = minimize(problem.objective, result.mean, method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(result.w, np.tile(nearby.x, (AGENTS, 1)), rtol=0, atol=1e-6)


def test_least_squares_by_functions_end_where_the_model_does():
    X, y = data()
    shards = consensus.partition(X, y, AGENTS, "sorted")
    model = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards, consensus.L2(0.05))
    functions = consensus.Problem.from_functions(
        model.value, model.gradient, agents=AGENTS, parameters=5, regularizer=consensus.L2(0.05)
    )
    known = consensus.solve(model, GRAPH, rounds=80)
    found = consensus.solve(functions, GRAPH, rounds=120, start=np.zeros(5))
    np.testing.assert_allclose(found.w, known.w, rtol=0, atol=1e-10)
    sent, messages = (np.diff(found.history[name])[-20:] for name in ("floats", "messages"))
    np.testing.assert_array_equal(sent, (2 * 5 + 5) * messages)  # no curvature is sent, and no probes any more


def test_the_last_change_of_the_gradient_is_what_the_curvature_has_along_the_step():
    problem, hessians, _ = quadratics(size=40)
    # Where averages are exact all agents are at one point, and changes are those of the average Hessian, up to rounding: of a
    # tenth or two, as units follow what a step promises.
    network, solver = StackedNetwork(topologies.Static(topologies.complete(AGENTS)), problem.dtype), AdaptiveNEXT()
    state = solver.init(problem, np.tile(np.random.default_rng(0).standard_normal(40), (AGENTS, 1)))
    seen = 0
    for _ in range(40):
        before, state = state, solver.step(problem, network, state)
        step = state.step.w - before.step.w
        if before.round and not state.step.refused.any():
            change = step @ hessians
            found = state.M.times(step)
            seen += int(np.abs(found - change).max() < 0.25 * np.abs(change).max())
    assert seen > 10


def test_a_start_that_is_stationary_for_one_agent():
    """Its own gradient is zero, so that nothing of its own says how curved its cost is."""
    centres = np.arange(AGENTS)[:, None] * np.ones((1, 3))
    problem = consensus.Problem.from_functions(
        lambda w: np.square(w - centres).sum(axis=1), lambda w: 2 * (w - centres), agents=AGENTS, parameters=3
    )
    result = consensus.solve(problem, GRAPH, rounds=60, start=np.zeros(3))
    np.testing.assert_allclose(result.w, np.full((AGENTS, 3), 2.5), rtol=0, atol=1e-12)


def test_costs_without_slope_or_curvature():
    flat = consensus.Problem.from_functions(
        lambda w: np.zeros(len(w)), np.zeros_like, agents=AGENTS, parameters=2, regularizer=consensus.L2(0.0)
    )
    start = np.arange(12.0).reshape(6, 2)
    for graph in (topologies.ring(6), topologies.star(6), GRAPH):
        result = consensus.solve(flat, graph, rounds=60, start=start)
        np.testing.assert_allclose(result.w, np.tile(result.w[0], (AGENTS, 1)), rtol=0, atol=1e-9)
        assert (start.min(axis=0) < result.w[0]).all()
        assert (result.w[0] < start.max(axis=0)).all()
