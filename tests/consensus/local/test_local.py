"""Exact's local solutions against the surrogates' definition, stated anew in CVXPY."""

import functools

import cvxpy as cp
import numpy as np
import pytest

from consensus.local import CVXPYSolver, Exact
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.local_problems import (
    LOSSES,
    MODELS,
    REGULARIZERS,
    TAU,
    TIGHT,
    centre,
    local_problem,
    minimisers,
    objective,
    own,
)
from tests.helpers.turns import in_turn

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # CVXPY's, of the last digits asked for


@functools.cache
def reference(loss, regularizer, model, surrogate, scale=1.0, seed=0):
    """What CVXPY finds for every agent, moved to the nearest point of the regularizer's set: a point (agents, P)."""
    p = local_problem(loss, regularizer, model, scale=scale, seed=seed)
    w, _, pi = centre(p)
    case, points = REGULARIZERS[regularizer], []
    for agent in range(p.agents):
        J, f, d, c = own(p, w, agent)
        point = cp.Variable(p.parameters)
        v = point - w[agent]
        slope = c * p.loss.gradient(f, d).ravel() @ J
        cost = surrogate.tau / 2 * cp.sum_squares(v) + pi[agent] @ v + case.expression(point)
        if isinstance(surrogate, FullLinearization):
            cost += slope @ v
        else:
            s = p.agents if surrogate.curvature == "network" else 1
            moved = cp.reshape(f.ravel() + J @ v, f.shape, order="C")
            cost += s * c * LOSSES[loss].stated(moved, d) - (s - 1) * (slope @ v)
        cp.Problem(cp.Minimize(cost), case.constraints(point)).solve(solver="CLARABEL", **TIGHT)
        points.append(case.nearest(point.value))
    return np.array(points)


def assert_optimal(problem, surrogate, points, reference):
    """No worse than the reference by 1e-9, nor the reference by 1e-7; every point in the regularizer's set."""
    assert np.isfinite(problem.regularizer.value(points)).all()
    for agent, (point, other) in enumerate(zip(points, reference, strict=True)):
        mine, theirs = objective(problem, surrogate, agent, np.array([point, other]))
        assert mine <= theirs + 1e-9
        assert theirs <= mine + 1e-7


@pytest.mark.parametrize(("regularizer", "curvature"), in_turn(REGULARIZERS, ["network", "local"]))
@pytest.mark.parametrize(("loss", "model"), in_turn(LOSSES, MODELS))
def test_exact_minimises_the_partial_linearization(loss, regularizer, model, curvature):
    p, surrogate = local_problem(loss, regularizer, model), PartialLinearization(TAU, curvature)
    expected = reference(loss, regularizer, model, surrogate)
    for linear in ("auto", "primal", "dual", "iterative"):
        solution = minimisers(p, surrogate, Exact(linear))
        assert_optimal(p, surrogate, solution.w, expected)
        if not p.regularizer.quadratic:
            break  # the ways are those of linear systems


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_exact_minimises_the_full_linearization_in_closed_form(regularizer, model):
    p, surrogate = local_problem("huber", regularizer, model), FullLinearization(TAU)
    solution = minimisers(p, surrogate)
    assert_optimal(p, surrogate, solution.w, reference("huber", regularizer, model, surrogate))
    assert not solution.iterations.any()


@pytest.mark.parametrize(("regularizer", "loss"), in_turn(["L1", "Box", "GroupL1", "L2Ball"], LOSSES, every=4))
def test_the_cvxpy_solver_finds_the_same_points(loss, regularizer):
    p = local_problem(loss, regularizer)
    for surrogate in (PartialLinearization(TAU, "network"), PartialLinearization(TAU, "local"), FullLinearization(TAU)):
        exact = minimisers(p, surrogate, tolerance=1e-12).w  # one problem for all three: it must not mix up what it keeps
        stated = minimisers(p, surrogate, CVXPYSolver(options=TIGHT)).w
        np.testing.assert_allclose(stated, exact, rtol=0, atol=2e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regularizer", ["L1", "ElasticNet", "GroupL1"])
def test_what_is_nearly_zero_in_cvxpy_is_exactly_zero(regularizer, loss):
    surrogate = PartialLinearization(TAU)
    points = minimisers(local_problem(loss, regularizer), surrogate).w
    expected = reference(loss, regularizer, "MLP", surrogate)
    np.testing.assert_array_equal(points == 0, np.abs(expected) < 1e-6)
    assert 0.1 < np.mean(points == 0) < 1


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regularizer", ["Box", "NonNegative"])
def test_what_is_nearly_on_a_bound_in_cvxpy_is_exactly_there(regularizer, loss):
    surrogate = PartialLinearization(TAU)
    p = local_problem(loss, regularizer)
    points, expected = minimisers(p, surrogate).w, reference(loss, regularizer, "MLP", surrogate)
    upper = np.linspace(0.1, 0.5, p.parameters) if regularizer == "Box" else np.inf
    lower = -0.3 if regularizer == "Box" else 0
    for bound in (lower, upper):
        np.testing.assert_array_equal(points == bound, np.abs(expected - bound) < 1e-6)
    assert 0.2 < np.mean((points == lower) | (points == upper)) < 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("tau", [1e-3, 0.5])
@pytest.mark.parametrize("regularizer", ["L1", "GroupL1", "Box", "NonNegative", "L2Ball"])
@pytest.mark.parametrize("loss", LOSSES)
def test_exact_minimises_stiff_problems(loss, regularizer, tau, seed):
    """Features as large as fifty: the curvature is many thousands of tau, and losses are on their lines or saturated."""
    p, surrogate = local_problem(loss, regularizer, "Linear", scale=50.0, seed=seed), PartialLinearization(tau)
    solution = minimisers(p, surrogate)
    assert_optimal(p, surrogate, solution.w, reference(loss, regularizer, "Linear", surrogate, 50.0, seed))
    assert solution.iterations.max() < 1000


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_tiny_tau_is_enough(loss, model):
    """Residuals are in steps of 1/tau, so that the same accuracy of w needs a smaller tolerance."""
    p, surrogate = local_problem(loss, "strong L1", model), PartialLinearization(1e-8)
    points = minimisers(p, surrogate, tolerance=1e-12).w
    assert_optimal(p, surrogate, points, reference(loss, "strong L1", model, surrogate))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("loss", LOSSES)
def test_no_tau_is_needed_with_a_quadratic_regularizer(loss, model):
    p, surrogate = local_problem(loss, "L2", model), PartialLinearization(0.0)
    for linear in ("primal", "dual", "iterative"):
        points = minimisers(p, surrogate, Exact(linear)).w
        assert_optimal(p, surrogate, points, reference(loss, "L2", model, surrogate))


@pytest.mark.parametrize(
    ("regularizer", "tau", "scale", "seed"), [("NonNegative", 0.51, 46.1, 129578), ("Box", 4e-4, 32.2, 523631)]
)
def test_a_rough_inner_solve_is_still_a_descent(regularizer, tau, scale, seed):
    """Stiff problems on which a step with a small residual can point uphill."""
    p, surrogate = local_problem("huber", regularizer, "Linear", scale=scale, seed=seed), PartialLinearization(tau)
    points = minimisers(p, surrogate).w
    assert_optimal(p, surrogate, points, reference("huber", regularizer, "Linear", surrogate, scale, seed))


@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_single_precision_stays_and_ends_near_the_same_points(loss, regularizer):
    double, surrogate = local_problem(loss, regularizer), PartialLinearization(TAU)
    single = local_problem(loss, regularizer, dtype=np.float32)
    w, gradient, pi = (array.astype(np.float32) for array in centre(double))
    points = Exact().solve(surrogate.at(single, w, gradient), pi, single.regularizer).w
    assert points.dtype == single.dtype == np.float32
    np.testing.assert_allclose(points, minimisers(double, surrogate).w, rtol=0, atol=1e-4)
