"""NEXT, gradient descent and push-pull: one round by hand, optima known from elsewhere, networks that fail."""

from types import MappingProxyType

import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import approx_fprime

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import DATOS, DGD, NEXT, OPAPC, SONATA, Gossip, GradientTracking, PushDIGing, PushPull
from consensus.step_sizes import Constant, InverseSqrt
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import DIRECTED, PUSH, data, problem, smooth_optimum
from tests.helpers.quadratics import NETWORKS, dense, hessians, optimum, quadratic
from tests.helpers.steps_by_hand import AGENTS, GRAPH, MLP, SCHEDULES, states
from tests.helpers.turns import in_turn

L2 = consensus.L2(0.1)
ALONE = topologies.Static(topologies.complete(1))
FULL, PARTIAL = FullLinearization(4.0), PartialLinearization(1.0)


def one_agent(regularizer, model):
    return consensus.Problem(model, consensus.SquaredLoss(), consensus.partition(*data(), 1, "sorted"), regularizer)


def reaches_the_optimum(p, schedule, solver, rounds=12_000):
    result = consensus.solve(p, schedule, solver, rounds=rounds, record_every=200, tolerance=1e-10)
    np.testing.assert_allclose(result.w, np.tile(smooth_optimum(p), (p.agents, 1)), rtol=0, atol=1e-8)


# One round, by hand -------------------------------------------------------------------------------------------------


def test_one_agent_with_full_linearization_takes_a_proximal_gradient_step():
    p = one_agent(consensus.L1(0.05), MLP)
    first, second = states(NEXT(FullLinearization(2.0), 0.7), p, ALONE, 1)
    step = first.w - p.gradient(first.w) / 2.0
    shrunk = np.sign(step) * np.maximum(np.abs(step) - 0.05 / 2.0, 0)
    np.testing.assert_allclose(second.w, first.w + 0.7 * (shrunk - first.w), rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("model", [MLP, consensus.MLP([4, 30, 2, 1]), consensus.Linear(4)])  # P above and below n
def test_one_agent_with_partial_linearization_takes_a_damped_gauss_newton_step(model):
    p = one_agent(consensus.L2(0.03), model)
    first, second = states(NEXT(PartialLinearization(0.2), 0.7), p, ALONE, 1)
    (w,), (jacobian,) = first.w, model.jacobian(first.w, p.shards.features)
    residual = (model.predict(first.w, p.shards.features) - p.shards.targets).ravel()
    hessian = jacobian.T @ jacobian / 60 + (0.2 + 0.03) * np.eye(model.parameters)
    direction = -scipy.linalg.solve(hessian, jacobian.T @ residual / 60 + 0.03 * w, assume_a="pos")
    np.testing.assert_allclose(second.w[0], w + 0.7 * direction, rtol=1e-10, atol=1e-12)


def test_push_pull_is_its_recursion():
    p, C = problem("squared", L2), PUSH.weights(0).toarray()
    R = (C > 0) / (C > 0).sum(axis=1, keepdims=True)
    first, *found = states(PushPull(0.02), p, PUSH, 25)
    x, y = first.w, p.average_gradient(first.w)
    for state in found:
        new = R @ (x - 0.02 * y)
        y, x = C @ y + p.average_gradient(new) - p.average_gradient(x), new
        np.testing.assert_allclose(state.w, x, rtol=1e-12, atol=1e-13)


# Optima -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("schedule", ["static", "random"])
@pytest.mark.parametrize(("solver", "rounds"), [
    (NEXT(PartialLinearization(0.5), 0.1), 1500),
    (NEXT(FULL, 0.2), 3000),
    (GradientTracking(Constant(0.05)), 2500),
    (GradientTracking(Constant(0.03), order="cta"), 4000),
], ids=str)  # fmt: skip
def test_convex_problems_reach_the_optimum(solver, rounds, schedule, loss):
    p = problem(loss, L2)
    result = consensus.solve(p, SCHEDULES[schedule], solver, rounds=rounds, record_every=rounds)
    best = smooth_optimum(p)
    np.testing.assert_allclose(result.w, np.tile(best, (AGENTS, 1)), rtol=0, atol=1e-8)
    assert result.history["objective"][-1] - p.objective(best) < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("name", DIRECTED)
@pytest.mark.parametrize("solver", [SONATA(PARTIAL, 0.15), SONATA(FULL, 0.15), PushDIGing(0.05)], ids=str)
def test_directed_networks_reach_the_optimum(solver, name, loss):
    reaches_the_optimum(problem(loss, L2, scheme="iid"), DIRECTED[name], solver)


@pytest.mark.parametrize("name", ["ring", "digraph"])
def test_push_pull_reaches_the_optimum_over_static_digraphs(name):
    reaches_the_optimum(problem("logistic", L2), DIRECTED[name], PushPull(0.03))


FAILING = topologies.Static(topologies.erdos_renyi(AGENTS, 0.6, seed=3))
STEPS = np.repeat(np.arange(12), 3)[:, None]
SPREAD = np.tile(np.arange(3), 12)[:, None]
TROUBLES = {
    "30% loss": topologies.LinkFailure(FAILING, 0.3, seed=4),
    "agents leave and return": topologies.AgentFailure(FAILING, [(0, 5, 40), (3, 20, 60), (0, 100, 130)]),
    "mobile": topologies.Mobile(AGENTS, radius=0.5, speed=0.05, seed=1),
    "matchings": topologies.Matchings(AGENTS, seed=2),
    "one peer": topologies.OnePeerExponential(AGENTS),
    "contacts": topologies.Temporal(
        (20 * STEPS + SPREAD)[:, 0], np.hstack([STEPS + SPREAD, STEPS + 2 * SPREAD + 1]) % AGENTS, window=20
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "solver"), in_turn(TROUBLES, [SONATA(PARTIAL, 0.15), NEXT(FULL, 0.15), GradientTracking(0.05)], every=3), ids=str
)
def test_failing_networks_reach_the_optimum(solver, name):
    reaches_the_optimum(problem("squared", L2, scheme="iid"), TROUBLES[name], solver)


@pytest.mark.slow
def test_dgd_ends_in_its_known_neighbourhood_and_no_nearer():
    """With a constant step DGD's limit solves (I - W) X + alpha G(X) = 0, a linear system for the squared loss."""
    p, schedule = quadratic(8), NETWORKS["ring of 8"]
    (H, b), apart = hessians(p), np.eye(8) - dense(schedule)
    distances = []
    for alpha in (0.02, 0.01):
        system = np.kron(apart, np.eye(p.parameters)) + alpha * scipy.linalg.block_diag(*H)
        limit = np.linalg.solve(system, -alpha * b.ravel()).reshape(b.shape)
        result = consensus.solve(p, schedule, DGD(alpha), rounds=9000, record_every=9000)
        np.testing.assert_allclose(result.w, limit, rtol=0, atol=1e-12)
        distances.append(np.linalg.norm(result.w - optimum(p), axis=1).max())
    assert 1e-3 < distances[0] < 1
    assert 0.4 < distances[1] / distances[0] < 0.7  # of order alpha


def test_dgd_with_a_diminishing_step_approaches_the_optimum():
    p, best = problem("squared", L2), smooth_optimum(problem("squared", L2))
    *found, _ = states(DGD(InverseSqrt(0.1)), p, SCHEDULES["static"], 10_001)
    errors = [np.linalg.norm(found[n].w.mean(axis=0) - best) for n in (100, 1000, 10_000)]
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 0.5 * errors[1]


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_next_finds_a_stationary_point_of_a_neural_network(schedule):
    p = problem("squared", consensus.L2(0.05), MLP, scheme="iid")
    solver = NEXT(PartialLinearization(0.2), Constant(0.1))
    result = consensus.solve(p, SCHEDULES[schedule], solver, rounds=4000, tolerance=1e-10, record_every=100)
    assert result.reason.startswith("stationarity and disagreement at most 1e-10")
    assert np.abs(approx_fprime(result.mean, p.objective, 1e-7)).max() < 1e-6


# Several exchanges in place of one: polynomials of the mixing matrices, and what the solver inside adds.


@pytest.mark.parametrize("exchanges", [1, 2, 5, 9])
def test_accelerated_gossip_is_the_chebyshev_polynomial_of_the_matrix(exchanges):
    schedule = topologies.Static(topologies.ring(9))
    matrix = schedule.weights(0).toarray()
    gap = topologies.spectral_gap(matrix)
    values, vectors = np.linalg.eigh(matrix)
    polynomial = np.polynomial.chebyshev.Chebyshev.basis(exchanges)
    expected = (vectors * (polynomial(values / (1 - gap)) / polynomial(1 / (1 - gap)))) @ vectors.T
    w, network = np.random.default_rng(0).standard_normal((9, 4)), StackedNetwork(schedule, np.float64)
    (after,) = Gossip(DGD(0.1), exchanges, gap=gap).around(network).mix(0, w)
    np.testing.assert_allclose(after, expected @ w, rtol=0, atol=1e-13)
    assert network.exchanges == exchanges


@pytest.mark.parametrize("gap", [None, 0.4])
def test_several_exchanges_mix_with_the_matrices_of_their_rounds_and_carry_what_is_beside(gap):
    network = SCHEDULES["random"] if gap is None else SCHEDULES["static"]
    solver, x = Gossip(DGD(0.1), 3, gap), np.random.default_rng(0).standard_normal((AGENTS, 5))
    for round in (0, 2):
        matrices = [network.weights(network.key(3 * round + k)) for k in range(3)]
        plain = StackedNetwork(network, np.float64)
        (mixed,) = solver.around(plain).mix(round, x, beside=7)
        assert plain.floats == (5 + 7) * plain.messages
        product = solver.matrices(network)
        np.testing.assert_allclose(product.weights(product.key(round)) @ x, mixed, atol=1e-13)
        if gap is None:
            np.testing.assert_allclose(mixed, matrices[2] @ (matrices[1] @ (matrices[0] @ x)), atol=1e-13)


def test_averages_are_repeated_too():
    """Push-pull both mixes and averages, in each of the exchanges."""
    network, x = StackedNetwork(SCHEDULES["random"], np.float64), np.random.default_rng(0).standard_normal((AGENTS, 5))
    several = Gossip(PushPull(0.1), 2).around(network)
    mixed, averaged = several.mix_and_average(1, x, x)
    for found, one in ((mixed, network.mix), (averaged, network.average), (several.average(1, x)[0], network.average)):
        np.testing.assert_array_equal(found, one(3, *one(2, x))[0])


def test_chebyshev_exchanges_speed_opapc_up():
    p, network = quadratic(8), NETWORKS["ring of 8"]
    plain, sped = (
        consensus.solve(p, network, solver, rounds=2000, tolerance=1e-9).rounds
        for solver in (OPAPC(), Gossip(OPAPC(), 3, topologies.spectral_gap(dense(network))))
    )
    assert sped < plain


class Reporting(DGD):
    """A solver with a column of its own, and wide messages."""

    history_columns = MappingProxyType({"largest": np.max})

    def report(self, state):
        return np.abs(state.w).max(axis=1, keepdims=True)

    def width(self, problem):
        return 17 * problem.parameters


def test_gossip_keeps_what_its_solver_adds():
    p = problem("squared", L2)
    wrapped = Gossip(Reporting(0.05), 3)
    result = consensus.solve(p, GRAPH, wrapped, rounds=5)
    assert wrapped.width(p) == 17 * p.parameters
    assert result.history["largest"][-1] == np.abs(result.w).max()
    assert result.history["exchanges"][-1] == 3 * 5
    assert result.history["floats"][-1] == p.parameters * result.history["messages"][-1]
    local = consensus.local.CVXPYSolver(lambda w: [w >= 0.5])
    prox = Gossip(NEXT(FullLinearization(1.0), 0.3, local=local), 2).prox(p)
    np.testing.assert_allclose(prox(np.zeros(p.parameters), 1.0), 0.5, atol=1e-6)


def test_what_cannot_be_repeated_is_refused():
    with pytest.raises(TypeError, match="DATOS finds its exchanges by itself"):
        Gossip(DATOS(), 2)
    with pytest.raises(TypeError, match="solver must be a Solver"):
        Gossip(None, 2)
