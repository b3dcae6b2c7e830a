"""Exact's local solutions against the surrogates' definition, stated anew in CVXPY."""

import functools
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest

import consensus
from consensus.local import CVXPYSolver, Exact
from consensus.regularizers import L1, L2, Box, ElasticNet, GroupL1, L2Ball, NonNegative
from consensus.surrogates import FullLinearization, PartialLinearization

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # CVXPY's, of the last digits asked for

SIZES = [1, 12, 5]  # one sample, more numbers than parameters, fewer; the rest of each shard is padding
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
TAU = 0.1
MODELS = {"MLP": lambda outputs: consensus.MLP([3, 4, outputs]), "Linear": lambda outputs: consensus.Linear(3, outputs)}


class LossCase(NamedTuple):
    """A loss, the model's outputs, targets made of noisy outputs z, and the sum over samples in CVXPY."""

    loss: object
    outputs: int
    targets: object
    stated: object


class Case(NamedTuple):
    """A regularizer for P parameters; in CVXPY its expression and constraints; the nearest point of its set."""

    make: object
    expression: object
    constraints: object = lambda w: []
    nearest: object = lambda point: point


LOSSES = {
    "squared": LossCase(consensus.SquaredLoss(), 1, lambda z: z, lambda f, d: cp.sum_squares(f - d) / 2),
    "huber": LossCase(consensus.Huber(0.5), 1, lambda z: z, lambda f, d: cp.sum(cp.huber(f - d, 0.5)) / 2),
    "logistic": LossCase(consensus.LogisticLoss(), 1, lambda z: z > 0, lambda f, d: cp.sum(cp.logistic(f) - cp.multiply(d, f))),
    "classes": LossCase(
        consensus.CrossEntropy(),
        3,
        lambda z: z.argmax(axis=1),
        lambda f, d: cp.sum(cp.log_sum_exp(f, axis=1)) - cp.sum(cp.multiply(np.eye(3)[d[:, 0].astype(int)], f)),
    ),
}


def groups(parameters):
    """Threes of neighbouring coordinates; what is left is in no group."""
    return [[first, first + 1, first + 2] for first in range(0, parameters - 3, 3)]


def norms(w):
    return sum(cp.norm2(w[group]) for group in groups(w.size))


REGULARIZERS = {
    "none": Case(lambda P: None, lambda w: 0),
    "L2": Case(lambda P: L2(0.2), lambda w: 0.1 * cp.sum_squares(w)),
    "L1": Case(lambda P: L1(0.1), lambda w: 0.1 * cp.norm1(w)),
    "strong L1": Case(lambda P: L1(0.35), lambda w: 0.35 * cp.norm1(w)),  # stronger than any linear term
    "ElasticNet": Case(lambda P: ElasticNet(0.08, 0.1), lambda w: 0.08 * cp.norm1(w) + 0.05 * cp.sum_squares(w)),
    "GroupL1": Case(lambda P: GroupL1(0.12, groups(P), P), lambda w: 0.12 * np.sqrt(3) * norms(w)),
    "Box": Case(
        lambda P: Box(-0.3, np.linspace(0.1, 0.5, P)),
        lambda w: 0,
        lambda w: [w >= -0.3, w <= np.linspace(0.1, 0.5, w.size)],
        lambda point: np.clip(point, -0.3, np.linspace(0.1, 0.5, point.size)),
    ),
    "NonNegative": Case(lambda P: NonNegative(), lambda w: 0, lambda w: [w >= 0], lambda point: np.maximum(point, 0)),
    "L2Ball": Case(
        lambda P: L2Ball(0.7),
        lambda w: 0,
        lambda w: [cp.norm2(w) <= 0.7],
        lambda point: point * min(1, 0.7 / np.linalg.norm(point)),
    ),
}


def local_problem(loss, regularizer, model="MLP", sizes=SIZES, scale=1.0, seed=0, dtype=float):
    """A problem of that loss; ``regularizer`` and ``model`` by name or themselves; features times ``scale``."""
    case = LOSSES[loss]
    model = MODELS[model](case.outputs) if isinstance(model, str) else model
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((sum(sizes), model.features))
    targets = case.targets(X @ rng.standard_normal((model.features, model.outputs)) + 0.5 * rng.standard_normal((len(X), 1)))
    if isinstance(regularizer, str):
        regularizer = REGULARIZERS[regularizer].make(model.parameters)
    shards = consensus.partition((X * scale).astype(dtype), targets, len(sizes), "sizes", sizes=sizes)
    return consensus.Problem(model, case.loss, shards, regularizer)


def centre(problem, seed=1):
    """w_i, grad g_i(w_i) and the linear terms pi_i; all (agents, P). The w_i lie in no set of a constraint."""
    rng = np.random.default_rng(seed)
    w = 0.7 * rng.standard_normal((problem.agents, problem.parameters))
    return w, problem.gradient(w), 0.1 * rng.standard_normal(w.shape)


def minimisers(problem, surrogate, local=None, **options):
    """The local solution at :func:`centre`."""
    w, gradient, pi = centre(problem)
    local = local or Exact()
    local.check(surrogate, problem)
    return local.solve(surrogate.at(problem, w, gradient), pi, problem.regularizer, **options)


def own(problem, w, agent):
    """J, f, d of the agent's own samples, without padding, and c."""
    size = problem.shards.sizes[agent]
    x, d = problem.shards.features[agent, :size], problem.shards.targets[agent, :size]
    return problem.model.jacobian(w[agent][None], x[None])[0], problem.model.predict(w[agent], x), d, 1 / problem.shards.samples


def objective(problem, surrogate, agent, points):
    """``g~_i(w; w_i) + pi_i . (w - w_i) + r(w)`` at each of ``points`` (many, P), from the docstrings of the surrogates."""
    w, _, pi = centre(problem)
    J, f, d, c = own(problem, w, agent)
    v = points - w[agent]
    slope = c * problem.loss.gradient(f, d).ravel() @ J
    if isinstance(surrogate, FullLinearization):
        smooth = v @ slope
    else:
        s = problem.agents if surrogate.curvature == "network" else 1
        moved = f + (v @ J.T).reshape(-1, *f.shape)
        smooth = s * c * problem.loss.value(moved, np.broadcast_to(d, (len(v), *d.shape))).sum(axis=1) - (s - 1) * (v @ slope)
    return smooth + surrogate.tau / 2 * np.square(v).sum(axis=1) + v @ pi[agent] + problem.regularizer.value(points)


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


@pytest.mark.parametrize("curvature", ["local", "network"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("loss", LOSSES)
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


@pytest.mark.parametrize("regularizer", ["L1", "Box", "GroupL1", "L2Ball"])
@pytest.mark.parametrize("loss", LOSSES)
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


@pytest.mark.parametrize("seed", range(3))
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
