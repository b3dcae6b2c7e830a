"""Solvers: their laws round by round, one agent by hand, and optima known from elsewhere."""

import inspect
from types import MappingProxyType

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
from problems import PUSH, data, problem, smooth_optimum
from scipy.optimize import approx_fprime
from steps_by_hand import AGENTS, GRAPH, MLP, SCHEDULES, states
from threads import Threads

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.local import Exact
from consensus.solvers import DGD, NEXT, Gossip, GradientTracking, PushPull
from consensus.step_sizes import Constant, Diminishing, InverseSqrt
from consensus.surrogates import FullLinearization, PartialLinearization


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "solver",
    [
        NEXT(PartialLinearization(0.5), Diminishing(0.5, 0.01)),
        NEXT(PartialLinearization(0.5, curvature="local"), 0.1),
        NEXT(FullLinearization(3.0), 0.5),
    ],
)
def test_next_tracks_the_average_gradient_at_every_round(solver, schedule):
    p = problem("squared", consensus.L2(0.01), MLP, scheme="sizes")
    for state in states(solver, p, SCHEDULES[schedule], 30):
        gradient = p.gradient(state.w)
        np.testing.assert_array_equal(state.gradient, gradient)
        np.testing.assert_allclose(state.y.mean(axis=0), gradient.mean(axis=0), rtol=0, atol=1e-14)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("order", ["atc", "cta"])
def test_gradient_tracking_tracks_the_average_gradient_at_every_round(order, schedule):
    p = problem("squared", consensus.L2(0.01), MLP, scheme="sizes")
    for state in states(GradientTracking(0.1, order=order), p, SCHEDULES[schedule], 30):
        gradient = p.average_gradient(state.w)
        np.testing.assert_allclose(state.y.mean(axis=0), gradient.mean(axis=0), rtol=0, atol=1e-13)


def test_mixing_preserves_the_mean_at_every_round():
    network = StackedNetwork(SCHEDULES["random"], np.float64)
    block = np.random.default_rng(0).standard_normal((AGENTS, 7))
    for round in range(20):
        (mixed,) = network.mix(round, block)
        np.testing.assert_allclose(mixed.mean(axis=0), block.mean(axis=0), rtol=0, atol=1e-15)


# One round, by hand -----------------------------------------------------------------------------------------------


def one_agent(regularizer, model):
    X, y = data()
    return consensus.Problem(model, consensus.SquaredLoss(), consensus.partition(X, y, 1, "sorted"), regularizer)


def test_one_agent_with_full_linearization_takes_a_proximal_gradient_step():
    p = one_agent(consensus.L1(0.05), MLP)
    first, second = states(NEXT(FullLinearization(2.0), 0.7), p, topologies.Static(topologies.complete(1)), 1)
    step = first.w - p.gradient(first.w) / 2.0
    shrunk = np.sign(step) * np.maximum(np.abs(step) - 0.05 / 2.0, 0)
    np.testing.assert_allclose(second.w, first.w + 0.7 * (shrunk - first.w), rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("model", [MLP, consensus.MLP([4, 30, 2, 1]), consensus.Linear(4)])  # P above and below n
def test_one_agent_with_partial_linearization_takes_a_damped_gauss_newton_step(model):
    p = one_agent(consensus.L2(0.03), model)
    first, second = states(NEXT(PartialLinearization(0.2), 0.7), p, topologies.Static(topologies.complete(1)), 1)
    (w,), (jacobian,) = first.w, model.jacobian(first.w, p.shards.features)
    residual = (model.predict(first.w, p.shards.features) - p.shards.targets).ravel()
    hessian = jacobian.T @ jacobian / 60 + (0.2 + 0.03) * np.eye(model.parameters)
    direction = -scipy.linalg.solve(hessian, jacobian.T @ residual / 60 + 0.03 * w, assume_a="pos")
    np.testing.assert_allclose(second.w[0], w + 0.7 * direction, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("curvature", ["local", "network"])
def test_the_local_problem_of_next_is_solved_exactly(curvature):
    """Every agent's local problem of the third round, stated in CVXPY from the definition of the surrogate."""
    p = problem("squared", consensus.L2(0.1), MLP, scheme="sizes")
    surrogate = PartialLinearization(0.4, curvature)
    *_, state = states(NEXT(surrogate, 0.5), p, SCHEDULES["static"], 2)
    model = surrogate.at(p, state.w, state.gradient)
    minimisers = Exact().solve(model, AGENTS * state.y - state.gradient, p.regularizer).w
    s = AGENTS if curvature == "network" else 1
    jacobians = MLP.jacobian(state.w, p.shards.features)
    outputs = MLP.predict(state.w, p.shards.features)
    for agent in range(AGENTS):
        v = cp.Variable(p.parameters)
        data_term = p.loss.expression(
            cp.reshape(outputs[agent, :, 0] + jacobians[agent] @ v, (16, 1), order="C"),
            p.shards.targets[agent],
            p.weights[agent],
        )
        linear = (AGENTS * state.y - state.gradient)[agent] - (s - 1) * state.gradient[agent]
        cost = s * data_term + linear @ v + 0.2 * cp.sum_squares(v) + p.regularizer.expression(state.w[agent] + v)
        cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")
        np.testing.assert_allclose(minimisers[agent], state.w[agent] + v.value, rtol=0, atol=1e-6)


# Optima -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("schedule", ["static", "random"])
@pytest.mark.parametrize("method", ["partial", "full", "atc", "cta"])
def test_convex_problems_reach_the_optimum(method, schedule, loss):
    p = problem(loss, consensus.L2(0.1))
    solver, rounds = {
        "partial": (NEXT(PartialLinearization(0.5), 0.1), 1500),
        "full": (NEXT(FullLinearization(4.0), 0.2), 3000),
        "atc": (GradientTracking(Constant(0.05)), 2500),
        "cta": (GradientTracking(Constant(0.03), order="cta"), 4000),
    }[method]
    result = consensus.solve(p, SCHEDULES[schedule], solver, rounds=rounds, record_every=rounds)
    optimum = smooth_optimum(p)
    np.testing.assert_allclose(result.w, np.broadcast_to(optimum, result.w.shape), rtol=0, atol=1e-8)
    assert result.history["objective"][-1] - p.objective(optimum) < 1e-13


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("regularizer", [consensus.L1(0.1), consensus.ElasticNet(0.05, 0.1)])
def test_next_reaches_the_optimum_of_nonsmooth_problems(regularizer, loss):
    p = problem(loss, regularizer)
    result = consensus.solve(
        p, SCHEDULES["static"], NEXT(FullLinearization(4.0), 0.2), rounds=4000, record_every=4000, tolerance=1e-13
    )
    X, y = data()
    w = cp.Variable(5)
    outputs = cp.reshape(X @ w[:4] + w[4], (60, 1), order="C")
    targets = y[:, None] if loss == "squared" else (y > 0.2).astype(float)[:, None]
    cost = p.loss.expression(outputs, targets, np.full(60, 1 / 60)) + regularizer.expression(w)
    tight = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}
    optimum = cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL", **tight)
    assert abs(result.history["objective"][-1] - optimum) < 1e-8
    assert result.history["stationarity"][-1] < 1e-8
    assert result.history["disagreement"][-1] < 1e-8
    np.testing.assert_allclose(result.mean, w.value, rtol=0, atol=1e-5)


def test_dgd_ends_in_its_known_neighbourhood_and_no_nearer():
    """With a constant step DGD's limit solves (I - W) X + alpha G(X) = 0, a linear system for the squared loss."""
    p, alpha = problem("squared", consensus.L2(0.1)), 0.02
    X, W = p.shards.features, SCHEDULES["static"].weights(0).toarray()
    design = np.concatenate([X, np.ones((*X.shape[:2], 1))], axis=2)
    hessians = AGENTS * np.einsum("amj,am,amk->ajk", design, p.weights, design) + 0.1 * np.eye(5)
    right = AGENTS * np.einsum("amj,am,am->aj", design, p.weights, p.shards.targets[:, :, 0])
    system = np.kron(np.eye(AGENTS) - W, np.eye(5)) + alpha * scipy.linalg.block_diag(*hessians)
    limit = np.linalg.solve(system, alpha * right.ravel()).reshape(AGENTS, 5)

    result = consensus.solve(p, SCHEDULES["static"], DGD(alpha), rounds=3000, record_every=3000)
    np.testing.assert_allclose(result.w, limit, rtol=0, atol=1e-12)
    distance = np.linalg.norm(result.w - smooth_optimum(p), axis=1).max()
    assert 1e-3 < distance < 1

    halved = consensus.solve(p, SCHEDULES["static"], DGD(alpha / 2), rounds=6000, record_every=6000)
    smaller = np.linalg.norm(halved.w - smooth_optimum(p), axis=1).max()
    assert 0.4 < smaller / distance < 0.7  # of order alpha


def test_dgd_with_a_diminishing_step_approaches_the_optimum():
    p = problem("squared", consensus.L2(0.1))
    errors = [
        np.linalg.norm(
            consensus.solve(p, SCHEDULES["static"], DGD(InverseSqrt(0.1)), rounds=n, record_every=n).mean - smooth_optimum(p)
        )
        for n in (100, 1000, 10000)
    ]
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 0.5 * errors[1]


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_next_finds_a_stationary_point_of_a_neural_network(schedule):
    p = problem("squared", consensus.L2(0.05), MLP, scheme="iid")
    solver = NEXT(PartialLinearization(0.2), Constant(0.1))
    result = consensus.solve(p, SCHEDULES[schedule], solver, rounds=4000, tolerance=1e-10, record_every=100)
    assert result.reason.startswith("stationarity and disagreement at most 1e-10")
    numeric = approx_fprime(result.mean, p.objective, 1e-7)
    assert np.abs(numeric).max() < 1e-6


# Bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: NEXT(FullLinearization(1.0), 1.5), ValueError, r"step_size must be .* <= 1; got 1\.5"),
        (lambda: NEXT(FullLinearization(1.0), 0.0), ValueError, "> 0"),
        (lambda: NEXT(FullLinearization(1.0), "big"), TypeError, "step_size must be a number or a rule.*'big'"),
        (lambda: NEXT(1.0, 0.5), TypeError, "surrogate must be one"),
        (lambda: FullLinearization(-1.0), ValueError, "tau must be a finite number > 0; got -1.0"),
        (lambda: PartialLinearization(-0.1), ValueError, "tau must be a finite number >= 0; got -0.1"),
        (lambda: PartialLinearization(0.1, "global"), ValueError, "'local', 'network'; got 'global'"),
        (lambda: GradientTracking(0.1, order="both"), ValueError, "'atc', 'cta'; got 'both'"),
        (lambda: DGD(-0.1), ValueError, "> 0; got -0.1"),
    ],
)
def test_bad_settings(make, error, match):
    with pytest.raises(error, match=match):
        make()


def functions():
    return consensus.Problem.from_functions(lambda w: w.sum(axis=1), np.ones_like, agents=AGENTS, parameters=2)


@pytest.mark.parametrize(
    ("solver", "make", "error", "match"),
    [
        (GradientTracking(0.1), lambda: problem("squared", consensus.L1(0.1)), ValueError, r"L1\(weight=0.1\).*NEXT"),
        (DGD(0.1), lambda: problem("squared", consensus.ElasticNet(0.1, 0.1)), ValueError, "DGD needs a smooth.*NEXT"),
        (NEXT(PartialLinearization(0.0), 0.1), problem, ValueError, "tau must be > 0 with L2"),
        (NEXT(PartialLinearization(0.1), 0.1), functions, TypeError, "needs a model.*FullLinearization"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_work(solver, make, error, match):
    with pytest.raises(error, match=match):
        consensus.solve(make(), SCHEDULES["static"], solver, rounds=1)


def test_push_pull_sends_what_it_knows_already_in_one_exchange():
    """X - alpha Y and Y are both known before: as many exchanges as rounds, and the recursion stated anew."""
    p = problem("squared", consensus.L2(0.1))
    history = consensus.solve(p, PUSH, PushPull(0.02), rounds=25).history
    np.testing.assert_array_equal(history["exchanges"], history["round"])
    edges = PUSH.weights(0).nnz - AGENTS
    np.testing.assert_array_equal(history["messages"], edges * history["round"])
    np.testing.assert_array_equal(history["floats"], 2 * p.parameters * history["messages"])

    C = PUSH.weights(0).toarray()
    R = (C > 0) / (C > 0).sum(axis=1, keepdims=True)
    x = np.broadcast_to(p.model.init(np.random.default_rng(0)), (AGENTS, p.parameters))
    y = p.average_gradient(x)
    for _ in range(25):
        new = R @ (x - 0.02 * y)
        y, x = C @ y + p.average_gradient(new) - p.average_gradient(x), new
    found = consensus.solve(p, PUSH, PushPull(0.02), rounds=25, seed=0).w
    np.testing.assert_allclose(found, x, rtol=1e-12, atol=1e-13)


class Reporting(DGD):
    """A solver with a column of its own, and wide messages."""

    history_columns = MappingProxyType({"largest": np.max})

    def report(self, state):
        return np.abs(state.w).max(axis=1, keepdims=True)

    def width(self, problem):
        return 17 * problem.parameters


def test_gossip_keeps_what_its_solver_adds():
    p = problem("squared", consensus.L2(0.1))
    wrapped = Gossip(Reporting(0.05), 3)
    history = consensus.solve(p, GRAPH, wrapped, rounds=5).history
    assert wrapped.width(p) == 17 * p.parameters
    w = consensus.solve(p, GRAPH, wrapped, rounds=5).w
    assert history["largest"][-1] == np.abs(w).max()
    with pytest.raises(ValueError, match=r"exchanges.*100000"):
        Gossip(DGD(0.05), 10**30)
    with pytest.raises(TypeError, match="solver must be a Solver"):
        Gossip(None, 2)


def default(kind):
    """Whether a solver needs no arguments."""
    if not (isinstance(kind, type) and issubclass(kind, consensus.solvers.Solver)) or inspect.isabstract(kind):
        return False
    return all(one.default is not one.empty for one in inspect.signature(kind).parameters.values())


BLOCKS = {
    "squared": [kind() for name, kind in vars(consensus.solvers).items() if name[0].isupper() and default(kind)],
    "logistic": [consensus.solvers.DADMM(), NEXT(PartialLinearization(1.0), 0.3), NEXT(FullLinearization(1.0), 0.3, batch=3)],
}


@pytest.mark.parametrize(("loss", "solver"), [(loss, solver) for loss, those in BLOCKS.items() for solver in those], ids=repr)
@pytest.mark.filterwarnings("ignore:.*theory needs")
def test_a_step_does_not_depend_on_who_else_is_held(loss, solver):
    """Two blocks of agents, on threads of this process, take the whole network's steps to the bit, and count as much."""
    p = problem(loss, consensus.L2(0.1))
    network = topologies.Static(GRAPH, weights=topologies.lazy(topologies.metropolis))
    one, two = (consensus.solve(p, network, solver, rounds=3, engine=engine) for engine in ("stacked", Threads(2)))
    np.testing.assert_array_equal(one.w, two.w)
    for name in ("bytes", "messages", "samples", "gradients", "iterations"):
        np.testing.assert_array_equal(one.history[name], two.history[name])


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


def test_a_wrapper_measures_stationarity_by_its_solvers_prox():
    local = consensus.local.CVXPYSolver(lambda w: [w >= 0.5])
    p = problem("squared", consensus.L2(0.1))
    prox = Gossip(NEXT(FullLinearization(1.0), 0.3, local=local), 2).prox(p)
    np.testing.assert_allclose(prox(np.zeros(p.parameters), 1.0), 0.5, atol=1e-6)
