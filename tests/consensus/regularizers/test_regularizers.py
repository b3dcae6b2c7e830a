"""Regularizers: every prox against CVXPY and its exact optimality condition, values against expressions."""

import cvxpy as cp
import numpy as np
import pytest

from consensus.regularizers import L1, L2, ElasticNet

# Each with its weights of the absolute values and of the squares: r(w) = l1 |w|_1 + l2/2 |w|^2.
CASES = {
    "L1": (L1(0.7), 0.7, 0.0),
    "L1 of no weight": (L1(0), 0.0, 0.0),
    "L2": (L2(0.4), 0.0, 0.4),
    "L2 of no weight": (L2(0), 0.0, 0.0),
    "ElasticNet": (ElasticNet(l1=0.6, l2=1.3), 0.6, 1.3),
    "ElasticNet without squares": (ElasticNet(l1=0.6, l2=0), 0.6, 0.0),
    "ElasticNet without absolute values": (ElasticNet(l1=0, l2=1.3), 0.0, 1.3),
}
STEPS = [0.01, 1.0, 7.5]


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def stack(seed=0, agents=5, parameters=8):
    return np.random.default_rng(seed).standard_normal((agents, parameters))


@pytest.mark.parametrize("step", STEPS)
def test_prox_is_the_minimiser_that_cvxpy_finds(case, step):
    regularizer, _, _ = case
    v = stack()[0]
    w = cp.Variable(8)
    objective = regularizer.expression(w) + cp.sum_squares(w - v) / (2 * step)
    cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
    np.testing.assert_allclose(regularizer.prox(v, step), w.value, rtol=0, atol=1e-6)


@pytest.mark.parametrize("step", STEPS)
def test_prox_meets_its_optimality_condition(case, step):
    # (v - p)/step - l2 p is a subgradient of l1 |.|_1 at p: l1 sign(p) where p is not zero, within +-l1 where it is.
    regularizer, l1, l2 = case
    v = 3 * stack(agents=50)
    p = regularizer.prox(v, step)
    subgradient = (v - p) / step - l2 * p
    rounding = 1e-15 * np.abs(v).max() / step + 1e-13
    moved = p != 0
    assert np.abs(subgradient - l1 * np.sign(p))[moved].max(initial=0) <= rounding
    assert np.abs(subgradient)[~moved].max(initial=0) <= l1 * (1 + 1e-12)


def test_prox_is_firmly_nonexpansive(case):
    # (p - q).(v - u) >= (1 + step m) |p - q|^2, with m the strong convexity
    regularizer, _, _ = case
    v, u = 2 * stack(1, agents=100), 2 * stack(2, agents=100)
    moved = regularizer.prox(v, 0.8) - regularizer.prox(u, 0.8)
    inner = np.vecdot(moved, v - u)
    assert (inner >= (1 + 0.8 * regularizer.strong_convexity) * np.vecdot(moved, moved) - 1e-13).all()


@pytest.mark.parametrize("regularizer", [L1(0.5), ElasticNet(0.5, 2.0)])
def test_prox_sets_small_coordinates_exactly_to_zero(regularizer):
    width = 0.25  # step times the weight of the absolute values
    v = np.array([0.0, -0.0, 1e-300, -0.1, width, -width, np.nextafter(width, 1), -np.nextafter(width, 1), 3.0])
    zero = [True, True, True, True, True, True, False, False, False]
    for dtype in (np.float64, np.float32):
        p = regularizer.prox(v.astype(dtype), 0.5)
        expected = zero if dtype == np.float64 else [*zero[:6], True, True, False]  # the neighbours of width round to it
        assert (p == 0).tolist() == expected
        assert not np.signbit(p[:6]).any()


def test_value_is_that_of_the_expression(case):
    regularizer, l1, l2 = case
    w = stack()
    values = regularizer.value(w)
    variable = cp.Variable(8)
    expression = regularizer.expression(variable)
    assert expression.is_convex()
    assert values.shape == (5,)
    for point, value in zip(w, values):
        variable.value = point
        assert value == pytest.approx(float(expression.value), rel=1e-14)
        assert value == pytest.approx(l1 * np.linalg.norm(point, 1) + l2 / 2 * np.linalg.norm(point) ** 2, rel=1e-14)


def test_rows_of_a_stack_are_worked_alone(case):
    regularizer, _, _ = case
    w = stack()
    assert regularizer.value(w).tolist() == [regularizer.value(row) for row in w]
    assert np.ndim(regularizer.value(w[0])) == 0
    np.testing.assert_array_equal(regularizer.prox(w, 0.3), [regularizer.prox(row, 0.3) for row in w])


def test_a_step_a_row_is_that_rows_own(case):
    regularizer, _, _ = case
    v, steps = stack(), np.array([0.01, 0.3, 1.0, 4.0, 9.0])
    together = regularizer.prox(v, steps[:, None])
    np.testing.assert_array_equal(together, [regularizer.prox(row, step) for row, step in zip(v, steps)])


@pytest.mark.parametrize("weight", [0.0, 0.4, 3.0])
def test_gradient_of_a_smooth_one_is_the_finite_difference(weight):
    regularizer, w, h = L2(weight), stack(), 1e-3
    assert regularizer.smooth
    gradient = regularizer.gradient(w)
    for column, unit in enumerate(np.eye(8) * h):
        slopes = (regularizer.value(w + unit) - regularizer.value(w - unit)) / (2 * h)  # exact for a parabola
        np.testing.assert_allclose(gradient[:, column], slopes, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("regularizer", [L1(0.5), L1(0), ElasticNet(0.5, 1.0)])
def test_a_nonsmooth_one_refuses_a_gradient(regularizer):
    assert not regularizer.smooth
    with pytest.raises(TypeError, match=rf"{type(regularizer).__name__}\(.*is not smooth and has no gradient"):
        regularizer.gradient(np.ones(3))


def test_strong_convexity_is_the_largest_that_holds(case):
    # r(a)/2 + r(b)/2 - r((a + b)/2) >= m/8 |a - b|^2, with equality within an orthant
    regularizer, _, _ = case
    m = regularizer.strong_convexity
    a, b = stack(3, agents=200), stack(4, agents=200)

    def excess(a, b):
        middle = (regularizer.value(a) + regularizer.value(b)) / 2 - regularizer.value((a + b) / 2)
        return middle - m / 8 * np.square(a - b).sum(axis=-1)

    assert excess(a, b).min() >= -1e-14
    np.testing.assert_allclose(excess(np.abs(a), np.abs(b)), 0, atol=1e-13)


def test_elastic_net_contains_the_two_others():
    v = stack()
    for one, other in [(ElasticNet(0.7, 0), L1(0.7)), (ElasticNet(0, 0.4), L2(0.4))]:
        np.testing.assert_array_equal(one.prox(v, 0.9), other.prox(v, 0.9))
        np.testing.assert_array_equal(one.value(v), other.value(v))
        assert one.strong_convexity == other.strong_convexity


@pytest.mark.parametrize("step", [0.3, 1])
def test_float32_stays_float32(case, step):
    regularizer, _, _ = case
    v = stack().astype(np.float32)
    p = regularizer.prox(v, step)
    assert (p.dtype, regularizer.value(v).dtype) == (np.float32, np.float32)
    np.testing.assert_allclose(p, regularizer.prox(v.astype(float), step), rtol=1e-6, atol=1e-7)


def test_arguments_are_left_alone(case):
    regularizer, _, _ = case
    v = stack()
    p = regularizer.prox(v, 0.5)
    p += 1
    np.testing.assert_array_equal(v, stack())


@pytest.mark.parametrize("bad", [-1e-3, np.nan, np.inf, -np.inf, "1", None, True, 1j, np.ones(2)], ids=repr)
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (L1, "weight of L1"),
        (L2, "weight of L2"),
        (lambda bad: ElasticNet(bad, 1.0), "l1 of ElasticNet"),
        (lambda bad: ElasticNet(1.0, bad), "l2 of ElasticNet"),
    ],
    ids=["L1", "L2", "ElasticNet l1", "ElasticNet l2"],
)
def test_bad_weights_are_named(make, name, bad):
    with pytest.raises(ValueError, match=rf"{name} must be a finite number >= 0; got ") as caught:
        make(bad)
    assert f"got {bad!r}" in str(caught.value)
