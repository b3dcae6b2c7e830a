"""Local solvers inside NEXT: warm starts, inexact solves, constraints, nonconvex regularizers."""

import cvxpy as cp
import numpy as np
import pytest

import consensus
import topologies
from consensus.local import CVXPYSolver, Exact
from consensus.local.systems import Factors
from consensus.regularizers import L1, L2, SCAD, Box, GroupL1, L2Ball, LogSum
from consensus.solvers import NEXT
from consensus.step_sizes import Diminishing
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from tests.helpers.local_problems import LOSSES, TAU, TIGHT, centre, local_problem, minimisers, own
from tests.helpers.problems import AGENTS, data, nonsmooth_optimum, problem
from tests.helpers.steps_by_hand import SCHEDULES, states
from tests.helpers.turns import in_turn

COMPLETE, SPARSE = topologies.Static(topologies.complete(AGENTS)), SCHEDULES["static"]


# Warm starts and what is kept --------------------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", [PartialLinearization(TAU), Blocks(PartialLinearization(TAU), 3)], ids=str)
@pytest.mark.parametrize("regularizer", [L2(0.2), L1(0.05), Box(-0.3, 0.4)], ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_start_at_the_answer_takes_no_iterations(loss, regularizer, surrogate):
    p = local_problem(loss, regularizer)
    local = Exact("iterative" if loss == "squared" else "auto")  # a direct system is no iteration to be saved
    cold = minimisers(p, surrogate, local, tolerance=1e-9)
    warm = minimisers(p, surrogate, local, start=cold.w, tolerance=1e-9)
    assert cold.iterations.min() > 0
    assert not warm.iterations.any()
    np.testing.assert_array_equal(warm.w, cold.w)


def test_a_start_that_is_worse_than_the_centre_is_not_taken():
    p, surrogate = local_problem("logistic", L1(0.05)), PartialLinearization(TAU)
    cold, warm = minimisers(p, surrogate), minimisers(p, surrogate, start=1e3 + centre(p)[0])
    assert warm.w.tobytes() == cold.w.tobytes()
    np.testing.assert_array_equal(warm.iterations, cold.iterations)


class OwnL1:
    """|w|_1 / 20 by its prox alone: the way of accelerated proximal gradient."""

    quadratic = False
    value, prox = staticmethod(L1(0.05).value), staticmethod(L1(0.05).prox)


@pytest.mark.slow
@pytest.mark.parametrize(("regularizer", "tau"), [(L1(0.05), 1e-3), (L1(0.05), 1e-6), (Box(-0.3, 0.4), 1e-3), (OwnL1(), 0.1)])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_near_its_optimum_a_solve_stops_at_rounding(loss, regularizer, tau):
    """Where the centre is the answer already, the tolerance asks for less than rounding leaves."""
    p, surrogate = local_problem(loss, regularizer, "Linear", sizes=[6, 6, 6]), PartialLinearization(tau)
    w = np.zeros((p.agents, p.parameters))
    for _ in range(300 if tau == 0.1 else 60):
        solution = Exact().solve(surrogate.at(p, w, p.gradient(w)), np.zeros_like(w), p.regularizer)
        w = solution.w
    assert solution.iterations.max() <= 50


@pytest.mark.parametrize("linear", ["primal", "dual"])
@pytest.mark.parametrize(
    ("model", "loss", "each_round"),
    [(None, "squared", False), (consensus.MLP([4, 5, 1]), "squared", True), (None, "logistic", True)],
)
def test_the_systems_of_a_linear_least_squares_problem_are_factored_once(model, loss, each_round, linear, monkeypatch):
    factored, of = [], Factors.of
    monkeypatch.setattr(Factors, "of", lambda matrices, *rest: factored.append(len(matrices)) or of(matrices, *rest))
    history = consensus.solve(
        problem(loss, L2(0.1), model), SPARSE, NEXT(PartialLinearization(0.5), 0.2, Exact(linear)), rounds=15
    ).history
    assert history["stationarity"][-1] < history["stationarity"][0]
    assert sum(factored) >= AGENTS * 15 if each_round else sum(factored) == AGENTS


def test_what_is_kept_for_one_setting_is_not_used_for_another():
    p = local_problem("squared", L2(0.2), "Linear")
    for tau in (0.1, 0.5):
        for curvature in ("local", "network"):
            surrogate = PartialLinearization(tau, curvature)
            for linear in ("primal", "dual"):
                fresh = minimisers(local_problem("squared", L2(0.2), "Linear"), surrogate, Exact(linear)).w
                assert minimisers(p, surrogate, Exact(linear)).w.tobytes() == fresh.tobytes()


# Inexact solves ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "regularizer", [None, L2(0.2), L1(0.05), GroupL1(0.1, [[0, 1, 2], [5, 9]]), Box(-0.3, 0.4), L2Ball(0.7)]
)
@pytest.mark.parametrize(("loss", "linear"), in_turn(LOSSES, ["primal", "dual", "iterative"], every=3))
def test_the_residual_is_what_the_tolerance_allows(loss, regularizer, linear):
    """``|x - prox_{r/k}(x - grad/k)|`` by its definition, at the answer and at w_i."""
    p, surrogate = local_problem(loss, regularizer), PartialLinearization(TAU)
    r, (w, _, pi) = p.regularizer, centre(p)
    k = TAU + getattr(regularizer, "weight", 0) * r.quadratic

    def residual(agent, x):
        J, f, d, c = own(p, w, agent)
        v = x - w[agent]
        at_w, here = (p.loss.gradient(f + image.reshape(f.shape), d).ravel() @ J * c for image in (0 * f.ravel(), J @ v))
        gradient = p.agents * (here - at_w) + at_w + pi[agent] + TAU * v
        if r.quadratic:
            return np.linalg.norm(gradient + r.gradient(x)) / k
        return np.linalg.norm(x - r.prox(x - gradient / k, 1 / k))

    before = np.array([residual(agent, w[agent]) for agent in range(p.agents)])
    work = []
    for tolerance in (0.5, 0.1, 1e-2, 1e-4, 1e-8, 1e-12):
        points, iterations = minimisers(p, surrogate, Exact(linear), tolerance=tolerance)
        after = np.array([residual(agent, x) for agent, x in enumerate(points)])
        assert (after <= 1.001 * tolerance * before + 1e-14).all()
        work.append(iterations.sum())
    assert work == sorted(work)


@pytest.mark.slow
def test_solves_that_sharpen_with_the_step_reach_the_optimum_with_less_work():
    p, step = problem("logistic", L1(0.05)), Diminishing(0.5, 0.005)
    inexact, sharp = (
        consensus.solve(p, SPARSE, NEXT(PartialLinearization(0.2), step, tolerance=tolerance), rounds=400, record_every=50)
        for tolerance in (lambda alpha: 0.1 * alpha, 1e-10)
    )
    for result in (inexact, sharp):
        assert (np.diff(result.history["iterations"]) > 0).all()
        assert abs(result.history["objective"][-1] - nonsmooth_optimum("logistic", L1(0.05))[1]) < 1e-8
        assert result.history["stationarity"][-1] < 1e-7
    assert inexact.history["iterations"][-1] < 0.8 * sharp.history["iterations"][-1]


# Constraints -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("surrogate", "rounds"), [(PartialLinearization(0.5), 120), (FullLinearization(3.0), 200)], ids=str)
def test_a_constrained_ridge_problem_reaches_its_optimum(surrogate, rounds, monkeypatch):
    X, y = data()
    w = cp.Variable(5)
    cost = cp.sum_squares(X @ w[:4] + w[4] - y) / 120 + 0.05 * cp.sum_squares(w)
    cp.Problem(cp.Minimize(cost), [cp.sum(w) == 1]).solve(solver="CLARABEL", **TIGHT)

    stated, real = [], cp.Problem
    monkeypatch.setattr(cp, "Problem", lambda *arguments: stated.append(1) or real(*arguments))
    p = problem("squared", L2(0.1), scheme="iid")
    solver = NEXT(surrogate, 0.5, CVXPYSolver(lambda w: [cp.sum(w) == 1], options=TIGHT))
    solver.check(p)
    _, *run = states(solver, p, COMPLETE, rounds)
    assert len(stated) == AGENTS  # once, not every round
    for state in run:
        np.testing.assert_allclose(state.best.sum(axis=1), 1, rtol=0, atol=1e-8)
    np.testing.assert_allclose(run[-1].w, np.broadcast_to(w.value, (AGENTS, 5)), rtol=0, atol=1e-6)


def test_constraints_that_hold_anyway_change_nothing():
    p, surrogate = local_problem("logistic", L1(0.05)), PartialLinearization(TAU)
    free = minimisers(p, surrogate, CVXPYSolver(options=TIGHT)).w
    loose = minimisers(p, surrogate, CVXPYSolver(lambda w: [cp.norm2(w) <= 100, w >= -50], options=TIGHT)).w
    np.testing.assert_allclose(loose, free, rtol=0, atol=1e-6)


def test_infeasible_constraints_end_the_run_with_its_history():
    solver = NEXT(PartialLinearization(0.5), 0.5, CVXPYSolver(lambda w: [cp.sum(w) == 1, w <= 0]))
    infeasible = "round 1, agent 0: its local problem is infeasible by CLARABEL"
    with pytest.raises(consensus.LocalSolveError, match=infeasible) as error:
        consensus.solve(problem("squared", L2(0.1)), SPARSE, solver, rounds=5)
    assert error.value.history["round"].tolist() == [0]
    assert np.isfinite(error.value.history["objective"]).all()


# Nonconvex and group regularizers ----------------------------------------------------------------------------------


def sparse_problem(regularizer, model=None):
    """Twelve inputs, of which three matter."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((120, 12))
    noise = 0.3 * rng.standard_normal((120, 2))
    y = (X[:, :3] @ [[2.0, 0.5], [-1.5, 1.0], [0.3, -0.2]] + noise)[:, : 1 if model is None else model.outputs]
    shards = consensus.partition(X, y, AGENTS, "sizes", sizes=[10, 30, 15, 25, 22, 18], seed=0)
    return consensus.Problem(model or consensus.Linear(12), consensus.SquaredLoss(), shards, regularizer)


def everything(p):
    """All samples, with a column of ones, and their targets."""
    X = p.shards.features[p.shards.indices >= 0]
    return np.column_stack([X, np.ones(len(X))]), p.shards.targets[p.shards.indices >= 0]


def slopes(regularizer, size):
    """The derivative of the nonconvex penalty of |w|, from its definition."""
    if isinstance(regularizer, LogSum):
        return regularizer.weight / (regularizer.epsilon + size)
    weight, a = regularizer.weight, regularizer.a
    return np.where(size <= weight, weight, np.maximum(a * weight - size, 0) / (a - 1))


@pytest.mark.slow
@pytest.mark.parametrize("surrogate", [PartialLinearization(0.5), FullLinearization(6.0)], ids=str)
@pytest.mark.parametrize("regularizer", [LogSum(0.05, 0.2), SCAD(0.25)], ids=str)
def test_nonconvex_penalties_end_at_a_first_order_point_with_exact_zeros(regularizer, surrogate):
    p = sparse_problem(regularizer)
    run, (X, d) = list(states(NEXT(surrogate, 0.3), p, SPARSE, 800)), everything(p)

    def objective(point):
        return np.square(X @ point - d[:, 0]).sum() / (2 * len(d)) + regularizer.value(point)

    end, mean, zero = run[-1].w, run[-1].w.mean(axis=0), run[-1].best[0] == 0
    objectives = [objective(state.w.mean(axis=0)) for state in run[::50]]
    assert objectives[-1] < 0.2 * objectives[0]
    assert np.diff(objectives).max() < 1e-10
    assert p.objective(mean) == pytest.approx(objectives[-1], rel=1e-12)
    np.testing.assert_allclose(end, np.broadcast_to(mean, end.shape), rtol=0, atol=1e-7)
    np.testing.assert_array_equal(run[-1].best == 0, np.tile(np.abs(mean) < 1e-8, (AGENTS, 1)))
    assert 0 < zero.sum() < 12
    gradient, expected = (X @ mean - d[:, 0]) @ X / len(d), -np.sign(mean) * slopes(regularizer, np.abs(mean))
    np.testing.assert_allclose(gradient[~zero], expected[~zero], atol=1e-6)
    assert (np.abs(gradient[zero]) <= slopes(regularizer, 0.0) + 1e-6).all()


@pytest.mark.slow
def test_group_l1_prunes_the_inputs_of_a_linear_model():
    model = consensus.Linear(12, outputs=2)
    p = sparse_problem(GroupL1.of_inputs(0.1, model), model)
    *_, state = states(NEXT(PartialLinearization(0.5), 0.3), p, SPARSE, 400)
    (X, d), w = everything(p), cp.Variable((13, 2))
    cost = cp.sum_squares(X @ w - d) / (2 * len(d)) + 0.1 * np.sqrt(2) * cp.sum(cp.norm2(w[:12], axis=1))
    cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL", **TIGHT)
    np.testing.assert_allclose(state.w, np.tile(w.value.ravel(), (AGENTS, 1)), rtol=0, atol=1e-6)
    useless = np.linalg.norm(w.value[:12], axis=1) < 1e-6
    assert useless[3:].all()
    for best in state.best:
        np.testing.assert_array_equal((best[:24].reshape(12, 2) == 0).all(axis=1), useless)


@pytest.mark.slow
def test_group_l1_prunes_the_inputs_of_a_network():
    """Hidden units are in groups too: were they free, they would grow without end and the inputs' weights shrink."""
    model = consensus.MLP([12, 4, 1])
    p = sparse_problem(GroupL1.of_units(0.1, model), model)
    *_, state = states(NEXT(PartialLinearization(0.3), 0.2), p, SPARSE, 600)
    norms = np.linalg.norm(state.best[:, : 12 * 4].reshape(AGENTS, 12, 4), axis=2)
    assert (norms[:, :2] > 0.1).all()
    assert (norms[:, 3:] == 0).all()
    assert p.stationarity(state.w.mean(axis=0)) < 1e-6
