"""Linear systems of local problems, of low rank and of blocks of coordinates; independence of the batch."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_limits

import consensus
from consensus.local import Exact
from consensus.local.exact import low_rank
from consensus.regularizers import L1, L2, Box, ElasticNet, GroupL1, L2Ball, NonNegative, WeightedElasticNet
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from tests.helpers.linear_systems import WAYS, explicit, solved
from tests.helpers.local_problems import TAU, TIGHT, centre, local_problem, minimisers, objective
from tests.helpers.turns import in_turn


@pytest.mark.parametrize(("regularizer", "curvature"), in_turn([None, L2(0.2)], ["local", "network"]), ids=str)
@pytest.mark.parametrize("sizes", [[1, 12, 5], [7], [3, 40, 9, 2]], ids=str)
@pytest.mark.parametrize("model", [
    consensus.Linear(3),
    consensus.Linear(30),
    consensus.Linear(5, outputs=3, bias=False),
    consensus.MLP([3, 4, 1]),
    consensus.MLP([3, 20, 2]),
    consensus.MLP([3, 6, 5, 2], activation="softplus"),
], ids=str)  # fmt: skip
def test_the_three_ways_solve_the_explicit_system(model, sizes, regularizer, curvature):
    p, surrogate = local_problem("squared", regularizer, model, sizes), PartialLinearization(TAU, curvature)
    for linear in WAYS:
        for agent, v in enumerate(solved(p, surrogate, linear)):
            expected = scipy.linalg.solve(*explicit(p, surrogate, agent), assume_a="pos")
            assert np.linalg.norm(v - expected) <= 1e-11 * np.linalg.norm(expected)


@pytest.mark.parametrize("linear", WAYS)
@pytest.mark.parametrize("tau", [1e-8, 0.1])
@pytest.mark.parametrize("model", [consensus.Linear(7), consensus.Linear(40), consensus.MLP([7, 4, 2])], ids=str)
def test_ill_conditioned_systems_are_solved_to_rounding(model, tau, linear):
    """Features over six orders of magnitude: what rounding leaves is a residual, and an error of condition times rounding."""
    p = local_problem("squared", None, model, [1, 20, 5], scale=np.logspace(-3, 3, model.features))
    surrogate = PartialLinearization(tau)
    for agent, v in enumerate(solved(p, surrogate, linear)):
        H, u = explicit(p, surrogate, agent)
        scale = np.linalg.norm(H, 2) * np.linalg.norm(v) + np.linalg.norm(u)
        assert np.linalg.norm(H @ v - u) <= 1e-14 * scale
        if tau == 0.1:
            expected = scipy.linalg.solve(H, u, assume_a="pos")
            assert np.linalg.norm(v - expected) <= 1e-13 * np.linalg.cond(H) * np.linalg.norm(expected)
            assert np.linalg.norm(H @ v - u) <= 1e-12 * np.linalg.norm(u)


@pytest.mark.parametrize("factor", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("linear", WAYS)
def test_the_tolerance_is_kept_however_large_the_features(linear, factor):
    p, surrogate = local_problem("squared", None, consensus.Linear(30), scale=factor), PartialLinearization(0.01)
    points = minimisers(p, surrogate, Exact(linear, iterations=500), tolerance=1e-8).w
    for agent, v in enumerate(points - centre(p)[0]):
        H, u = explicit(p, surrogate, agent)
        assert np.linalg.norm(H @ v - u) <= 1.01e-8 * np.linalg.norm(u)


@pytest.mark.parametrize("linear", WAYS)
@pytest.mark.parametrize("model", [consensus.Linear(6), consensus.MLP([6, 5, 2])], ids=str)
def test_rank_deficient_jacobians(model, linear):
    """Every sample four times over, two features zero, two the same."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5, 6)) * np.array([1, 0, 1, 0, 1, 1])
    X[:, 5] = X[:, 4]
    shards = consensus.partition(
        np.repeat(X, 4, axis=0), rng.standard_normal((20, model.outputs)), 3, "sizes", sizes=[1, 14, 5]
    )
    p, surrogate = consensus.Problem(model, consensus.SquaredLoss(), shards), PartialLinearization(1e-3)
    for agent, v in enumerate(solved(p, surrogate, linear)):
        H, u = explicit(p, surrogate, agent)
        expected = scipy.linalg.solve(H, u, assume_a="pos")
        assert np.linalg.norm(v - expected) <= 1e-10 * np.linalg.norm(expected)


# Blocks -----------------------------------------------------------------------------------------------------------


# The batch --------------------------------------------------------------------------------------------------------


class Shrinkage:
    """|w|_1 / 10 as a user may write it: nothing but its prox."""

    quadratic = False

    def value(self, w):
        return 0.1 * np.abs(w).sum(axis=-1)

    def prox(self, v, step):
        return np.sign(v) * np.maximum(np.abs(v) - 0.1 * step, 0)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("loss", "regularizer", "linear", "count"), [
    ("squared", L2(0.2), "primal", 1),
    ("squared", L2(0.2), "dual", 1),
    ("squared", L2(0.2), "iterative", 1),
    ("logistic", L2(0.2), "auto", 1),
    ("logistic", L2(0.2), "dual", 1),
    ("logistic", L2(0.2), "iterative", 1),
    ("classes", L1(0.01), "auto", 1),
    ("squared", L1(0.01), "auto", 1),
    ("huber", Box(-0.3, 0.4), "auto", 1),
    ("squared", L2Ball(3.0), "auto", 1),
    ("logistic", Shrinkage(), "auto", 1),
    ("squared", L2(0.2), "auto", 3),
    ("squared", L1(0.01), "auto", 3),
    ("classes", L2(0.2), "auto", 3),
])  # fmt: skip
def test_an_agent_gets_the_same_bits_alone_and_on_any_number_of_threads(loss, regularizer, linear, count, large):
    outputs = 3 if loss == "classes" else 1
    model, sizes = (consensus.MLP([20, 30, outputs]), [1, 120, 33]) if large else (consensus.MLP([3, 4, outputs]), [1, 12, 5])
    p = local_problem(loss, regularizer, model, sizes)
    inner = PartialLinearization(TAU)
    surrogate, local = inner if count == 1 else Blocks(inner, count), Exact(linear)
    w, gradient, pi = centre(p)
    start = 0.9 * w
    batch = local.solve(surrogate.at(p, w, gradient), pi, p.regularizer, start)
    for agent in range(p.agents):
        row = slice(agent, agent + 1)
        alone = p.restrict(row)
        model = surrogate.at(alone, w[row], gradient[row])
        solution = local.solve(model, pi[row], alone.regularizer, start[row])
        assert solution.w.tobytes() == batch.w[row].tobytes()
        np.testing.assert_array_equal(solution.iterations, batch.iterations[row])
    with threadpool_limits(1):
        assert local.solve(surrogate.at(p, w, gradient), pi, p.regularizer, start).w.tobytes() == batch.w.tobytes()


@pytest.mark.parametrize(("loss", "linear"), [("squared", "dual"), ("squared", "primal"), ("logistic", "dual")])
def test_agents_whose_matrices_fill_a_cache_get_the_same_bits_several_at_a_time(loss, linear):
    p = local_problem(loss, L2(0.2), consensus.MLP([12, 10, 4, 1]), [150, 40, *[150] * 7])
    surrogate, local = PartialLinearization(TAU), Exact(linear)
    w, gradient, pi = centre(p)
    with threadpool_limits(1):  # then three at a time
        together = local.solve(surrogate.at(p, w, gradient), pi, p.regularizer)
    for agent in range(p.agents):
        row = slice(agent, agent + 1)
        alone = p.restrict(row)
        solution = local.solve(surrogate.at(alone, w[row], gradient[row]), pi[row], alone.regularizer)
        assert solution.w.tobytes() == together.w[row].tobytes()
        np.testing.assert_array_equal(solution.iterations, together.iterations[row])


def test_agents_whose_whole_steps_are_good_are_not_part_of_others_searches():
    p = local_problem("logistic", L2(0.01), "Linear", [8, 12, 5, 9], scale=5)
    w, gradient, pi = centre(p)
    surrogate = PartialLinearization(0.01)
    together = Exact().solve(surrogate.at(p, w, gradient), pi, p.regularizer).w
    for agent in range(p.agents):
        row = slice(agent, agent + 1)
        alone = Exact().solve(surrogate.at(p.restrict(row), w[row], gradient[row]), pi[row], p.regularizer).w
        assert alone.tobytes() == together[row].tobytes()


def test_systems_that_are_kept_are_those_of_the_same_tau():
    p, again = (local_problem("squared", L2(0.2), "Linear") for _ in range(2))
    w, gradient, pi = centre(p)
    for tau in (0.1, 3.0, 0.1):
        kept = Exact().solve(PartialLinearization(tau).at(p, w, gradient), pi, p.regularizer).w
        fresh = Exact().solve(PartialLinearization(tau).at(again.restrict(slice(0, 3)), w, gradient), pi, p.regularizer).w
        np.testing.assert_array_equal(kept, fresh)


# Local problems split into blocks of coordinates.


@pytest.mark.parametrize("count", [1, 2, 7, 21])
@pytest.mark.parametrize(
    "regularizer",
    [None, L2(0.2), L1(0.1), ElasticNet(0.1, 0.2), NonNegative(), Box(-0.3, np.linspace(0.1, 0.5, 21))],
    ids=lambda r: type(r).__name__,
)
def test_a_split_full_linearization_gives_the_unsplit_answer_bit_by_bit(regularizer, count):
    p, surrogate = local_problem("huber", regularizer), FullLinearization(TAU)
    assert minimisers(p, Blocks(surrogate, count)).w.tobytes() == minimisers(p, surrogate).w.tobytes()


def test_a_split_of_whole_groups_keeps_them():
    r = GroupL1(0.1, [range(0, 3), range(4, 7), range(7, 11), range(12, 20)], 21)
    p, surrogate = local_problem("huber", r), FullLinearization(TAU)
    assert minimisers(p, Blocks(surrogate, 2)).w.tobytes() == minimisers(p, surrogate).w.tobytes()


@pytest.mark.parametrize("sizes", [[1, 12, 5], [12]], ids=str)  # the second: fewer agents than cores
@pytest.mark.parametrize("count", [1, 2, 7, 21])
@pytest.mark.parametrize("linear", ["auto", *WAYS])
def test_each_block_solves_its_own_system(linear, count, sizes):
    p, inner = local_problem("squared", L2(0.2), sizes=sizes), PartialLinearization(TAU)
    surrogate = Blocks(inner, count)
    v = solved(p, surrogate, linear)
    slices = surrogate.slices(p.parameters)
    assert len(slices) == count
    for agent in range(p.agents):
        for block in slices:
            expected = scipy.linalg.solve(*explicit(p, inner, agent, block), assume_a="pos")
            assert np.linalg.norm(v[agent, block] - expected) <= 1e-11 * np.linalg.norm(expected)


@pytest.mark.parametrize("count", [2, 7])
def test_each_block_minimises_over_its_own_coordinates(count):
    p, inner = local_problem("squared", L1(0.1)), PartialLinearization(TAU)
    w = centre(p)[0]
    surrogate = Blocks(inner, count)
    points = minimisers(p, surrogate).w
    for agent in range(p.agents):
        for block in surrogate.slices(p.parameters):
            H, u = explicit(p, PartialLinearization(TAU), agent, block)
            u += 0.1 * w[agent, block]  # explicit() takes the L1's weight for an L2's
            H -= 0.1 * np.eye(len(u))
            x = cp.Variable(len(u))
            v = x - w[agent, block]
            cost = cp.quad_form(v, cp.psd_wrap(H)) / 2 - u @ v + 0.1 * cp.norm1(x)
            cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL", **TIGHT)
            mine, theirs = w[agent].copy(), w[agent].copy()
            mine[block], theirs[block] = points[agent, block], x.value
            mine, theirs = objective(p, inner, agent, np.array([mine, theirs]))
            assert abs(mine - theirs) <= 1e-9
            np.testing.assert_array_equal(points[agent, block] == 0, np.abs(x.value) < 1e-6)


@pytest.mark.parametrize("regularizer", [L2Ball(0.7), GroupL1(0.1, [range(9, 12)], 21)], ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("inner", [FullLinearization(TAU), PartialLinearization(TAU)], ids=str)
def test_a_split_that_cuts_the_regularizer_is_refused(inner, regularizer):
    surrogate = Blocks(inner, 2)
    with pytest.raises(ValueError, match="does not separate") as error:
        Exact().check(surrogate, local_problem("squared", regularizer))
    assert str(regularizer) in str(error.value)
    assert str(surrogate) in str(error.value)
    assert f"use {inner} unsplit" in str(error.value)


# Local problems of low rank: against explicit systems, CVXPY, and their own optimality conditions.


SIZES = [(1, 1), (6, 2), (6, 6), (30, 5), (5, 12)]  # P and the columns of V
SHAPES = [L1(0.3), ElasticNet(0.2, 0.5), Box(-0.4, 0.6)]


def made(size, count, agents=4, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    V = np.sqrt(scale) * rng.standard_normal((agents, size, count))
    w = 0.3 * rng.standard_normal((agents, size))
    return V, w, scale * rng.standard_normal((agents, size))


def hessians(V, tau):
    return V @ V.swapaxes(1, 2) + tau[:, None, None] * np.eye(V.shape[1])


@pytest.mark.parametrize("tau", [1e-6, 1e-2, 1.0, 1e4])
@pytest.mark.parametrize(("size", "count"), SIZES)
def test_without_a_regularizer_it_is_the_explicit_system(size, count, tau):
    V, w, gradient = made(size, count)
    taus = tau * np.array([1.0, 0.5, 2.0, 1.0])
    d = low_rank(V, taus, w, gradient, None)
    H = hessians(V, taus)
    expected = np.linalg.solve(H, -gradient[:, :, None])[:, :, 0]
    for agent in range(4):
        # Where V spans everything H may be far better conditioned than this: Woodbury's identity divides by tau.
        rounding = 1e-15 * np.linalg.norm(H[agent], 2) / taus[agent] * np.linalg.norm(expected[agent])
        assert np.linalg.norm(d[agent] - expected[agent]) <= rounding * 10
        assert np.linalg.norm(H[agent] @ d[agent] + gradient[agent]) <= 10 * rounding * np.linalg.norm(H[agent], 2)


def test_columns_of_zeros_and_no_columns_leave_a_gradient_step():
    V, w, gradient = made(5, 3)
    for columns in (0 * V, V[:, :, :0]):
        d = low_rank(columns, np.full(4, 0.7), w, gradient, None)
        np.testing.assert_allclose(d, -gradient / 0.7, rtol=1e-15, atol=0)
        d = low_rank(columns, np.full(4, 0.7), w, gradient, L1(0.2))
        moved = w - gradient / 0.7
        shrunk = np.sign(moved) * np.maximum(np.abs(moved) - 0.2 / 0.7, 0)
        np.testing.assert_allclose(w + d, shrunk, rtol=0, atol=1e-14)


def conditions(regularizer, x, slope):
    """How far -slope is from r's subdifferential at x, coordinate by coordinate, by definition."""
    l1 = {L1: lambda r: r.weight, ElasticNet: lambda r: r.l1}.get(type(regularizer), lambda r: 0.0)(regularizer)
    slope = slope + (regularizer.l2 * x if isinstance(regularizer, ElasticNet) else 0)
    if isinstance(regularizer, Box):
        low, high = (np.broadcast_to(bound, x.shape) for bound in (regularizer.lower, regularizer.upper))
        assert ((low <= x) & (x <= high)).all()
        left = np.where(x == low, np.minimum(slope, 0), np.where(x == high, np.maximum(slope, 0), slope))
        return np.abs(left).max()
    return np.where(x == 0, np.maximum(np.abs(slope) - l1, 0), np.abs(slope + l1 * np.sign(x))).max()


@pytest.mark.parametrize("tau", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize(("size", "count"), SIZES)
@pytest.mark.parametrize("regularizer", SHAPES, ids=str)
def test_optimality_conditions_hold_to_rounding(regularizer, size, count, tau):
    V, w, gradient = made(size, count, seed=1)
    w = regularizer.prox(w, 1.0)
    taus = tau * np.array([1.0, 0.5, 2.0, 1.0])
    d = low_rank(V, taus, w, gradient, regularizer)
    for agent, H in enumerate(hessians(V, taus)):
        x = w[agent] + d[agent]  # zeros are exact; a bound may be missed in the last place
        if isinstance(regularizer, Box):
            for bound in (regularizer.lower, regularizer.upper):
                x = np.where(np.abs(x - bound) < 2e-16, bound, x)
        left = conditions(regularizer, x, gradient[agent] + H @ (x - w[agent]))
        assert left <= 1e-10 * np.abs(gradient[agent]).max()


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # as sharp as the solver gets
@pytest.mark.parametrize("regularizer", [*SHAPES, NonNegative(), L2Ball(0.5), GroupL1(0.3, [[0, 1, 2], [3, 4, 5]])], ids=str)
def test_against_cvxpy(regularizer):
    V, w, gradient = made(6, 3, seed=2)
    w = regularizer.prox(w, 1.0)
    taus = np.array([0.1, 0.4, 1.0, 2.0])
    d = low_rank(V, taus, w, gradient, regularizer)
    for agent in range(4):
        v = cp.Variable(6)
        cost = gradient[agent] @ v + cp.sum_squares(V[agent].T @ v) / 2 + taus[agent] / 2 * cp.sum_squares(v)
        problem = cp.Problem(cp.Minimize(cost + regularizer.expression(w[agent] + v)), regularizer.constraints(w[agent] + v))
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
        np.testing.assert_allclose(d[agent], v.value, rtol=0, atol=5e-6)  # |d - v|^2 is at most 2 / tau times its gap

        def value(v, agent=agent):
            square = np.square(V[agent].T @ v).sum() + taus[agent] * v @ v
            return gradient[agent] @ v + square / 2 + regularizer.value(regularizer.prox(w[agent] + v, 1e-12))

        assert value(d[agent]) <= value(v.value) + 1e-11


@pytest.mark.parametrize("regularizer", [L1(0.0), ElasticNet(0.0, 0.4)], ids=str)
def test_without_an_l1_part_both_ways_agree(regularizer):
    V, w, gradient = made(8, 3)
    taus, l2 = np.array([0.1, 0.4, 1.0, 2.0]), getattr(regularizer, "l2", 0.0)
    direct = low_rank(V, taus + l2, w, gradient + L2(l2).gradient(w), None)
    np.testing.assert_allclose(low_rank(V, taus, w, gradient, regularizer), direct, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("size", "count"), SIZES)
def test_weighted_squares_are_the_explicit_system(size, count):
    V, w, gradient = made(size, count)
    taus, weights = np.array([0.1, 0.05, 0.2, 1.0]), np.arange(size) % 3 / 2  # those of biases are zero
    d = low_rank(V, taus, w, gradient, WeightedElasticNet(np.zeros(size), weights))
    left = (hessians(V, taus) @ d[:, :, None])[:, :, 0] + gradient + weights * (w + d)
    assert np.abs(left).max() <= 1e-12 * np.abs(gradient).max()


@pytest.mark.parametrize("regularizer", [None, *SHAPES], ids=str)
def test_agents_do_not_depend_on_each_other(regularizer):
    V, w, gradient = made(7, 4)
    taus = np.array([0.1, 0.4, 1.0, 2.0])
    whole = low_rank(V, taus, w, gradient, regularizer)
    for rows in (slice(0, 1), slice(1, 4), slice(3, 4)):
        part = low_rank(V[rows], taus[rows], w[rows], gradient[rows], regularizer)
        np.testing.assert_array_equal(part, whole[rows])


@pytest.mark.parametrize("regularizer", [None, L1(0.3), ElasticNet(0.2, 0.5)], ids=str)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_costs_and_the_regularizer_rescaled_together_give_the_same_direction(regularizer, scale):
    V, w, gradient = made(9, 4)
    taus = np.array([0.1, 0.4, 1.0, 2.0])
    scaled = {L1: lambda: L1(0.3 * scale), ElasticNet: lambda: ElasticNet(0.2 * scale, 0.5 * scale)}
    other = scaled[type(regularizer)]() if regularizer else None
    expected = low_rank(V, taus, w, gradient, regularizer)
    found = low_rank(np.sqrt(scale) * V, scale * taus, w, scale * gradient, other)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_single_precision_stays_single():
    V, w, gradient = (x.astype(np.float32) for x in made(6, 3))
    for regularizer in (None, L1(0.3)):
        d = low_rank(V, np.full(4, 0.5, np.float32), w, gradient, regularizer)
        assert d.dtype == np.float32
        double = low_rank(*(x.astype(float) for x in (V, np.full(4, 0.5), w, gradient)), regularizer)
        np.testing.assert_allclose(d, double, rtol=0, atol=1e-5)
