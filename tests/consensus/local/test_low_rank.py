"""Local problems of low rank: against explicit systems, CVXPY, and their own optimality conditions."""

import cvxpy as cp
import numpy as np
import pytest

from consensus.local.exact import low_rank
from consensus.regularizers import L1, L2, Box, ElasticNet, GroupL1, L2Ball, NonNegative, WeightedElasticNet

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
