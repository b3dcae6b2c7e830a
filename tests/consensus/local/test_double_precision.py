"""Badly scaled local problems: an exact solve never goes uphill, and ends at an independent optimum or says it does not."""

import itertools
import warnings

import numpy as np
import pytest

import consensus
import topologies
from consensus.errors import UnfinishedWarning
from consensus.local import CVXPYSolver, Exact
from consensus.solvers import NEXT
from consensus.surrogates import PartialLinearization

LOSSES = {
    "squared": (consensus.SquaredLoss(), 1, lambda rng, n: rng.standard_normal(n)),
    "huber": (consensus.Huber(1.0), 1, lambda rng, n: rng.standard_normal(n)),
    "logistic": (consensus.LogisticLoss(), 1, lambda rng, n: rng.random(n) < 0.5),
    "classes": (consensus.CrossEntropy(), 3, lambda rng, n: rng.integers(0, 3, n)),
}
REGULARIZERS = {
    "none": lambda P: None,
    "L2": lambda P: consensus.L2(0.1),
    "L1": lambda P: consensus.L1(0.1),
    "ElasticNet": lambda P: consensus.ElasticNet(0.1, 0.1),
    "GroupL1": lambda P: consensus.GroupL1(0.1, [list(range(k, min(k + 3, P))) for k in range(0, P, 3)]),
    "Box": lambda P: consensus.Box(-1, 1),
    "NonNegative": lambda P: consensus.NonNegative(),
    "L2Ball": lambda P: consensus.L2Ball(1.0),
    "SCAD": lambda P: consensus.SCAD(0.1),
}
SHAPES = [(10, 3), (5, 12)]  # samples, features


def made(loss, regularizer, scale, dtype, shape, seed=0):
    """A problem of one agent on standard normal features times ``scale``, and a start in its set."""
    rng = np.random.default_rng(seed)
    lossed, outputs, targets = LOSSES[loss]
    X = (rng.standard_normal(shape) * scale).astype(dtype)
    model = consensus.Linear(shape[1], outputs)
    shards = consensus.partition(X, targets(rng, shape[0]).astype(dtype), agents=1)
    p = consensus.Problem(model, lossed, shards, REGULARIZERS[regularizer](model.parameters), reduction="sum")
    w = (0.3 * rng.standard_normal((1, model.parameters))).astype(dtype)
    return p, p.regularizer.prox(w, 1e-30) if not p.regularizer.quadratic else w


def value(p, w, tau, point):
    """The local problem's objective in double precision, less the cost at w, by the definition; linear models only."""
    x, d, v = p.shards.features.astype(float), p.shards.targets.astype(float), point.astype(float) - w.astype(float)
    f, moved = (p.model.predict(u.astype(float), x) for u in (w, point))
    losses = (p.loss.value(moved, d) - p.loss.value(f, d)).sum()
    smooth = 0 if p.nonconvex is None else -np.vecdot(p.nonconvex.smooth_gradient(w).astype(float), v).sum()
    return losses + smooth + tau / 2 * np.square(v).sum() + p.regularizer.value(point).sum()


def solved(p, w, tau, local=None):
    surrogate = PartialLinearization(tau, curvature="local")
    model = surrogate.at(p, w, p.gradient(w))
    return (local or Exact()).solve(model, np.zeros_like(w), p.regularizer).w


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_no_scale_no_tau_and_no_precision_makes_a_solve_go_uphill(loss, regularizer, dtype):
    for scale, tau, shape in [(1.0, 1e-6, SHAPES[0]), (1e3, 1.0, SHAPES[1]), (1e3, 1e-6, SHAPES[0])]:
        p, w = made(loss, regularizer, scale, dtype, shape)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            end = value(p, w, tau, solved(p, w, tau))
        start = value(p, w, tau, w)
        assert end <= start + 1e-13 * abs(start), (scale, tau, shape)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("regularizer", ["L1", "GroupL1", "Box", "NonNegative", "L2Ball"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_optimum_is_cvxpys_or_better(loss, regularizer, scale):
    cases = [(SHAPES[0], 1e-6, np.float64), (SHAPES[1], 1.0, np.float64), (SHAPES[1], 1.0, np.float32)]
    # With fewer samples than numbers and next to no tau, the rounding of a float32 gradient is a problem of its own.
    for shape, tau, dtype in [*cases, (SHAPES[0], 1e-6, np.float32)]:
        p, w = made(loss, regularizer, scale, dtype, shape, seed=3)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = value(p, w, tau, solved(p, w, tau, Exact(iterations=30)))  # what takes more is not finished
        double, _ = made(loss, regularizer, scale, np.float64, shape, seed=3)
        double.shards.features[...], double.shards.targets[...] = p.shards.features, p.shards.targets
        tight = CVXPYSolver(options={"tol_gap_rel": 1e-13, "tol_gap_abs": 1e-13, "tol_feas": 1e-13})
        try:
            point = solved(double, w.astype(float), tau, tight)
        except consensus.LocalSolveError:
            continue  # it is too hard for that solver
        best = value(p, w, tau, p.regularizer.prox(point.astype(dtype), 1e-30) if dtype == np.float32 else point)
        finished = not any(issubclass(each.category, UnfinishedWarning) for each in said)
        allowed = 1e-6 if dtype == np.float64 else 1e-4  # of the decrease; what single precision cannot hold of a point
        if finished:
            assert found <= best + allowed * abs(value(p, w, tau, w) - best), (tau, shape, dtype)


@pytest.mark.parametrize(("dtype", "scale", "tau", "regularizer"), [
    (np.float32, 1.0, 1e-6, consensus.Box(-1, 1)),
    (np.float32, 1e3, 1.0, consensus.Box(-1, 1)),
    (np.float64, 1e4, 1e-6, consensus.L2Ball(1.0)),
    *[(np.float64, 1e3, 1e-6, consensus.Box(-1, 1))] * 20,
    *[(np.float32, 1e3, 1e-6, r) for r in (consensus.L1(0.1), consensus.NonNegative(), consensus.SCAD(0.1))],
])  # fmt: skip
def test_a_run_over_one_agent_falls_to_the_least_squares(dtype, scale, tau, regularizer, request):
    """Ten samples of four numbers: the optimum is known to SciPy, and one undamped round finds it."""
    from scipy.optimize import lsq_linear

    seed = int(request.node.callspec.indices["dtype"])
    rng = np.random.default_rng(seed)
    X, y = (rng.standard_normal((10, 3)) * scale).astype(dtype), rng.standard_normal(10).astype(dtype)
    p = consensus.Problem(
        consensus.Linear(3), consensus.SquaredLoss(), consensus.partition(X, y, agents=1), regularizer, reduction="sum"
    )
    solver = NEXT(PartialLinearization(tau), 1.0)
    history = consensus.solve(p, topologies.complete(1), solver, rounds=1, start=np.full(4, 0.3)).history
    assert history["iterations"][-1] < 200
    bounds = (0, np.inf) if isinstance(regularizer, consensus.NonNegative) else (-1, 1)
    design = np.c_[X.astype(float), np.ones(10)]
    least = lsq_linear(design, y.astype(float), bounds, tol=1e-14).cost
    others = tau == 1.0 or isinstance(regularizer, consensus.L1 | consensus.SCAD | consensus.L2Ball)
    slack = 0.2 if others else 1e-5  # the part of r itself, and of a tau that is not small
    assert least * (1 - 1e-5) - 1e-9 <= history["objective"][-1] <= least + slack


def hopeless():
    """Cross-entropy on huge features with a tau beyond rounding: what cannot be solved, on agents 1 and 3 of four."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.integers(0, 3, 40)
    X[[10, 11, 12, 30, 31, 32]] *= 1e9
    shards = consensus.partition(X, y, agents=4, scheme="sizes", sizes=[10] * 4)
    order = np.argsort(np.abs(shards.features).max(axis=(1, 2)))
    return consensus.Problem(consensus.Linear(3, 3), consensus.CrossEntropy(), shards), order


@pytest.mark.parametrize("engine", ["stacked", "processes"])
def test_what_is_not_solved_is_counted_and_said_once(engine, forked):
    p, order = hopeless()
    engine = consensus.engines.Processes(workers=2) if engine == "processes" else engine
    solver = NEXT(PartialLinearization(1e-9), 0.5, local=Exact(iterations=3))
    with pytest.warns(UnfinishedWarning) as said:
        history = consensus.solve(p, topologies.ring(4), solver, rounds=3, engine=engine).history
    (once,) = [each for each in said if each.category is UnfinishedWarning]
    text = str(once.message)
    assert any(f"agent {agent} was not solved" in text for agent in order)
    for part in ("of its residual is left", "larger tau (now 1e-09)", "Exact(iterations=...)", "'unfinished'"):
        assert part in text
    assert history["unfinished"][0] == 0 < history["unfinished"][-1] <= 12
    assert (np.diff(history["unfinished"]) >= 0).all()
    solved = consensus.solve(p, topologies.ring(4), NEXT(PartialLinearization(1.0), 0.5), rounds=1).history
    assert solved["unfinished"].tolist() == [0, 0]


@pytest.mark.parametrize("samples", [9_999, 10_000, 17_000, 100_000])
@pytest.mark.parametrize("regularizer", ["L1", "L2Ball", "GroupL1"])
def test_many_samples_of_few_numbers_form_no_matrix_of_their_order(regularizer, samples):
    """One agent: memory stays near that of the data, and the answer is that of the small quadratic, by CVXPY."""
    import tracemalloc

    import cvxpy as cp

    rng = np.random.default_rng(0)
    X = rng.standard_normal((samples, 3))
    y = X @ [1.0, 0.0, -0.5] + rng.standard_normal(samples)
    r = REGULARIZERS[regularizer](4)
    p = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), consensus.partition(X, y, agents=1), r)
    w = np.zeros((1, 4))
    model = PartialLinearization(0.1).at(p, w, p.gradient(w))
    tracemalloc.start()
    found = Exact().solve(model, 0 * w, r, tolerance=1e-10).w[0]
    assert tracemalloc.get_traced_memory()[1] < 12 * X.nbytes
    tracemalloc.stop()
    design = np.c_[X, np.ones(samples)]
    v = cp.Variable(4)
    root = np.linalg.cholesky(design.T @ design / samples + 0.1 * np.eye(4))
    cost = cp.sum_squares(root.T @ v) / 2 - (design.T @ y / samples) @ v + r.expression(v)
    cp.Problem(cp.Minimize(cost), r.constraints(v)).solve(solver="CLARABEL", tol_gap_abs=1e-14, tol_gap_rel=1e-14)
    np.testing.assert_allclose(found, v.value, rtol=0, atol=2e-6)


@pytest.mark.parametrize("regularizer", ["L2", "L1"])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_point_of_single_precision_is_not_left_for_a_rounded_optimum(regularizer, seed):
    """Of the optimum's neighbours in single precision one is better than the optimum rounded: a solve from there stays."""
    p, w = made("huber", regularizer, 1e2, np.float32, (10, 3), seed)
    optimum = solved(p, w, 1e-3)[0]
    near = [(np.nextafter(u, np.float32(-9)), u, np.nextafter(u, np.float32(9))) for u in optimum]
    points = np.array(list(itertools.product(*near)), np.float32)
    values = [value(p, w, 1e-3, point[None]) for point in points]
    assert min(values) < value(p, w, 1e-3, optimum[None])
    start = points[np.argmin(values)][None]
    model = PartialLinearization(1e-3, curvature="local").at(p, w, p.gradient(w))
    again = Exact().solve(model, np.zeros_like(w), p.regularizer, start=start).w
    assert value(p, w, 1e-3, again) <= min(values)
