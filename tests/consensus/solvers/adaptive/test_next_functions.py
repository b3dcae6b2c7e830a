"""AdaptiveNEXT on problems given by functions: curvature from the pairs of steps and changes of the network's gradient."""

import numpy as np
import pytest
from scipy.optimize import minimize

import consensus
import topologies
from consensus.solvers import AdaptiveNEXT
from tests.helpers.problems import AGENTS, GRAPH, SCHEDULES, problem
from tests.helpers.turns import in_turn, with_slow

P = 8
NETWORKS = {name: SCHEDULES[name] for name in ("static", "random", "directed")}


def given(value, gradient, regularizer=None, size=P):
    return consensus.Problem.from_functions(value, gradient, agents=AGENTS, parameters=size, regularizer=regularizer)


def quadratics(regularizer=None, size=P):
    """Return costs ``(w - c_i)' H_i (w - c_i) / 2`` that differ in everything, with sum H_i and sum H_i c_i."""
    rng = np.random.default_rng(1)
    root, c = rng.standard_normal((AGENTS, size, size)), rng.standard_normal((AGENTS, size))
    H = root @ root.swapaxes(1, 2) / size
    problem = given(
        lambda w: np.einsum("ap,apq,aq->a", w - c, H, w - c) / 2,
        lambda w: np.einsum("apq,aq->ap", H, w - c),
        regularizer,
        size,
    )
    return problem, H.sum(axis=0), np.einsum("apq,aq->p", H, c)


@pytest.mark.parametrize(("weight", "network"), in_turn([0.0, 0.5], NETWORKS, every=4))
def test_quadratics_end_in_the_closed_form(weight, network):
    problem, hessian, right = quadratics(consensus.L2(weight))
    result = consensus.solve(problem, NETWORKS[network], AdaptiveNEXT(), rounds=180, record_every=1)
    expected = np.linalg.solve(hessian + weight * np.eye(P), right)
    np.testing.assert_allclose(result.w, np.tile(expected, (AGENTS, 1)), rtol=0, atol=1e-10)
    objective = result.history["objective"]
    assert objective.max() <= objective[0] * (1 + 1e-12)


def at_own_minimisers():
    """Quadratics, the agents' own minimisers, and the Hessians."""
    rng = np.random.default_rng(3)
    roots, c = rng.standard_normal((AGENTS, P, P)), rng.standard_normal((AGENTS, P))
    H = roots @ roots.swapaxes(1, 2) / P

    def value(w):
        return np.einsum("ap,apq,aq->a", w - c, H, w - c) / 2

    def gradient(w):
        return np.einsum("apq,aq->ap", H, w - c)

    return given(value, gradient), c, H


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_starts_where_no_own_cost_has_a_slope(network):
    """Curvature and damping are then unknown until the agents' points have mixed."""
    p, c, H = at_own_minimisers()
    result = consensus.solve(p, NETWORKS[network], AdaptiveNEXT(), start=c, rounds=180)
    expected = np.linalg.solve(H.sum(axis=0), np.einsum("apq,aq->p", H, c))
    np.testing.assert_allclose(result.w, np.tile(expected, (AGENTS, 1)), rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("weight", "network"), in_turn([0.5, 3.0], NETWORKS, every=3))
def test_quadratics_with_an_l1_meet_their_optimality_conditions(weight, network):
    problem, hessian, right = quadratics(consensus.L1(weight))
    result = consensus.solve(problem, NETWORKS[network], AdaptiveNEXT(), rounds=300)
    w = result.mean
    slope, zero = hessian @ w - right, np.abs(w) < 1e-9
    assert (np.abs(slope[zero]) <= weight + 1e-9).all()
    np.testing.assert_allclose(slope[~zero], -weight * np.sign(w[~zero]), rtol=0, atol=1e-8)
    assert result.history["disagreement"][-1] < 1e-9
    assert zero.any() == (weight == 3.0)


@pytest.mark.parametrize("network", with_slow(NETWORKS, "random", "directed"))
def test_a_nonconvex_smooth_sum(network):
    """In Cauchy's robust location SciPy finds nothing better near the end of the run."""
    c = np.random.default_rng(2).standard_normal((AGENTS, P))
    p = given(
        lambda w: np.log1p(np.square(w - c)).sum(axis=1), lambda w: 2 * (w - c) / (1 + np.square(w - c)), consensus.L2(0.05)
    )
    result = consensus.solve(p, NETWORKS[network], AdaptiveNEXT(), rounds=260, record_every=1)
    objective = result.history["objective"]
    assert result.history["stationarity"][-1] < 1e-9
    assert objective.max() <= objective[0] * (1 + 1e-12)
    nearby = minimize(p.objective, result.mean, method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(result.w, np.tile(nearby.x, (AGENTS, 1)), rtol=0, atol=1e-6)


def test_least_squares_by_functions_end_where_the_model_does():
    model = problem("squared", consensus.L2(0.05))
    known = consensus.solve(model, GRAPH, AdaptiveNEXT(), rounds=80)
    functions = given(model.value, model.gradient, consensus.L2(0.05), 5)
    found = consensus.solve(functions, GRAPH, AdaptiveNEXT(), rounds=120, record_every=1, start=np.zeros(5))
    np.testing.assert_allclose(found.w, known.w, rtol=0, atol=1e-10)
    # Neither curvature nor probes once both are known, until gradients differ by rounding alone.
    sent, messages = (np.diff(found.history[name])[10:60] for name in ("floats", "messages"))
    np.testing.assert_array_equal(sent, (2 * 5 + 5) * messages)


def test_a_start_that_is_stationary_for_one_agent():
    """Its gradient is zero and says nothing of the curvature of its cost."""
    c = np.arange(AGENTS)[:, None] * np.ones((1, 3))
    p = given(lambda w: np.square(w - c).sum(axis=1), lambda w: 2 * (w - c), size=3)
    result = consensus.solve(p, GRAPH, AdaptiveNEXT(), rounds=60, start=np.zeros(3))
    np.testing.assert_allclose(result.w, np.full((AGENTS, 3), 2.5), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "graph", with_slow([topologies.star(6), topologies.ring(6), GRAPH], GRAPH), ids=["star", "ring", "random"]
)
def test_costs_without_slope_or_curvature(graph):
    flat = given(lambda w: np.zeros(len(w)), np.zeros_like, consensus.L2(0.0), 2)
    start = np.arange(12.0).reshape(6, 2)
    w = consensus.solve(flat, graph, AdaptiveNEXT(), rounds=60, start=start).w
    np.testing.assert_allclose(w, np.tile(w[0], (AGENTS, 1)), rtol=0, atol=1e-9)
    assert ((start.min(axis=0) < w[0]) & (w[0] < start.max(axis=0))).all()


def test_phase_retrieval_from_a_saddle_does_not_rise_above_its_start():
    """The own costs tell where they are no parabolas: without asking them this start, of 60 the worst, rises to 7.6 times U."""
    r = np.random.default_rng(2)
    Z, x = r.standard_normal((10, 12, 10)), r.standard_normal(10)
    squares, start = np.square(Z @ x), 1e-4 * r.standard_normal(10)

    def error(w):
        u = np.einsum("anp,ap->an", Z, w)
        return u, np.square(u) - squares

    p = consensus.Problem.from_functions(
        lambda w: np.square(error(w)[1]).sum(axis=1) / 480,
        lambda w: np.einsum("an,anp->ap", error(w)[0] * error(w)[1], Z) / 120,
        agents=10,
        parameters=10,
    )
    graph = topologies.erdos_renyi(10, 0.5, seed=0)
    objective = consensus.solve(p, graph, AdaptiveNEXT(), rounds=48, record_every=1, start=start).history["objective"]
    assert objective.max() <= objective[0] * (1 + 1e-12)
    assert objective[-1] < 0.1 * objective[0]


def test_a_rise_above_the_start_is_warned_of_and_its_remedy_works():
    """Agents that start at their own minimisers see no slope before their points have mixed, here to worse ones."""
    p, c, _ = at_own_minimisers()
    with pytest.warns(UserWarning, match="rose above its start: the objective was") as caught:
        result = consensus.solve(p, NETWORKS["directed"], AdaptiveNEXT(), rounds=60, record_every=1, start=c, keep="objective")
    objective = result.history["objective"]
    worst = int(objective.argmax())
    assert f"reached {objective[worst]:.6g} in round {worst}, and is {objective[-1]:.6g} now" in str(caught[0].message)
    assert objective[worst] > 1.01 * objective[0] > objective[-1]
    assert p.objective(result.best.mean) == objective.min()
