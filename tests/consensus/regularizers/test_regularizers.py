"""Convex regularizers: what they do beside the contract of consensus.testing, which tests/consensus/testing runs for each."""

from decimal import Decimal, localcontext
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from scipy.integrate import quad

from consensus import MLP, Linear
from consensus.regularizers import L1, L2, SCAD, Box, ElasticNet, GroupL1, L2Ball, LogSum, NonNegative, WeightedElasticNet
from tests.helpers.every_regularizer import ALL, CONVEX, GROUPS, NONCONVEX, P

L1S, L2S = np.array([0.6, 0.0, 0.0, 2.0]), np.array([0.0, 0.0, 1.3, 0.2])
WEIGHTED = WeightedElasticNet(L1S, L2S)


def stack(seed=0, agents=5, parameters=P):
    return 1.5 * np.random.default_rng(seed).standard_normal((agents, parameters))


def jacobian(r, v, step):
    """M (P, P) of every agent, by :meth:`prox_jvp` of all unit directions."""
    return r.prox_jvp(v, step, np.broadcast_to(np.eye(P, dtype=v.dtype), (len(v), P, P)))


@pytest.mark.parametrize("regularizer", [L1(0.5), ElasticNet(0.5, 2.0)])
def test_prox_sets_small_coordinates_exactly_to_zero(regularizer):
    width = 0.25  # step times the weight of the absolute values
    v = np.array([0.0, -0.0, 1e-300, -0.1, width, -width, np.nextafter(width, 1), -np.nextafter(width, 1), 3.0])
    for dtype, zeros in ((np.float64, 6), (np.float32, 8)):  # in float32 the neighbours of width round to it
        p = regularizer.prox(v.astype(dtype), 0.5)
        assert (p == 0).tolist() == [True] * zeros + [False] * (9 - zeros)
        assert not np.signbit(p[:6]).any()


def test_prox_sets_whole_groups_exactly_to_zero():
    r, width = GroupL1(0.5, GROUPS), 0.5 * np.sqrt(3)
    for dtype, below, rounding in ((np.float64, 1 - 1e-14, 1e-14), (np.float32, 1 - 1e-6, 1e-6)):
        v = np.zeros((3, P), dtype)
        v[:, [0, 2, 3]] = np.array([-2, 1, -2]) / 3 * width  # a group of norm width
        v *= np.array([[below], [2 - below], [2]], dtype)
        p = r.prox(v, 1.0)
        assert (p == 0).all(axis=1).tolist() == [True, False, False]
        assert not np.signbit(p[0]).any()
        np.testing.assert_allclose(p[2], v[2] / 2, rtol=rounding)


@pytest.mark.parametrize("r", [L1(0), ElasticNet(0, 0), L2(0), GroupL1(0, GROUPS), LogSum(0, 1), SCAD(0)], ids=repr)
def test_without_weight_the_prox_is_the_identity_also_at_zero(r):
    v = np.concatenate([np.zeros((1, P)), stack()])
    np.testing.assert_array_equal(r.prox(v, 0.9), v)
    np.testing.assert_array_equal(jacobian(r, v, 0.9), np.broadcast_to(np.eye(P), (6, P, P)))
    assert r.active(v, 0.9).all()


@pytest.mark.parametrize("r", [L1(0.7), L1(0), L2(0.4), L2(0), ElasticNet(0.6, 1.3), ElasticNet(0, 1.3)], ids=repr)
def test_strong_convexity_is_the_largest_that_holds(r):
    # r(a)/2 + r(b)/2 - r((a + b)/2) = m/8 |a - b|^2 within an orthant
    a, b = np.abs(stack()), np.abs(stack()[::-1])
    middle = (r.value(a) + r.value(b)) / 2 - r.value((a + b) / 2)
    np.testing.assert_allclose(middle, r.strong_convexity / 8 * np.square(a - b).sum(axis=-1), atol=1e-13)


def test_a_weighted_elastic_net_is_smooth_without_absolute_values():
    smooth, v = WeightedElasticNet(np.zeros(4), L2S), stack(parameters=4)
    assert (WEIGHTED.smooth, WEIGHTED.curvature_bound, smooth.smooth, smooth.curvature_bound) == (False, None, True, 1.3)
    np.testing.assert_array_equal(smooth.gradient(v), L2S * v)
    with pytest.raises(TypeError, match="not smooth"):
        WEIGHTED.gradient(v)
    assert WeightedElasticNet(np.ones(2), [3.0, 2.0]).strong_convexity == 2.0
    np.testing.assert_array_equal(WEIGHTED.prox(v, 0.5)[:, :1], L1(0.6).prox(v[:, :1], 0.5))


def test_values_of_sets_at_their_border():
    up, down = 1 + 1e-14, np.nextafter(1, 0)
    w = np.array([[1.0, -1.0], [up, 0.0], [down, 0.0], [0.0, -up], [np.nan, 0.0]])
    for box in (Box(-1, 1), Box(-1, [1, 1])):
        assert box.value(w).tolist() == [0, np.inf, 0, np.inf, np.inf]
    assert NonNegative().value(-w).tolist() == [np.inf, np.inf, np.inf, 0, np.inf]
    assert NonNegative().value(np.array([0.0, -0.0])) == 0
    assert L2Ball(1).value(w).tolist() == [np.inf, 0, 0, 0, np.inf]
    assert L2Ball(1).value(np.array([1 + 2e-12, 0.0])) == np.inf
    assert Box(-np.inf, np.inf).constraints(np.zeros(P)) == []


@pytest.mark.parametrize(
    ("r", "dtype"),
    [(L2Ball(0.7), np.float64), (L2Ball(0.7), np.float32), (Box(0.1, np.linspace(0.2, 0.3, 3000)), np.float32)],
    ids=str,
)
def test_projections_are_inside_despite_rounding(r, dtype):
    v = np.random.default_rng(0).standard_normal((200, 3000)).astype(dtype)
    assert (r.value(r.prox(v, 1.0)) == 0).all()


@pytest.mark.parametrize("r", ALL.values(), ids=ALL)
def test_active_coordinates_are_those_with_a_row_in_the_jacobian(r):
    v = np.concatenate([stack(agents=30), np.zeros((1, P)), 3 * np.eye(P), 1e-9 * stack(1)])
    m, active = jacobian(r, v, 0.9), r.active(v, 0.9)
    for axis in (1, 2):
        np.testing.assert_array_equal(active, (m != 0).any(axis=axis))


def test_coordinates_on_their_bounds_are_not_active():
    v = np.array([[-1.0, 1.0, 0.0, 0.5]])
    assert Box(-1, [1, 1, 1, 0.5]).active(v, 1.0).tolist() == [[False, False, True, False]]
    assert Box([-1, 0, 0, 0.5], [1, 2, 0, 0.5]).active(v, 1.0).tolist() == [[False, True, False, False]]
    assert NonNegative().active(v, 1.0).tolist() == [[False, True, False, True]]


SLICES = [slice(0, 4), slice(4, 7), slice(7, 8)]
SEPARATE = [GroupL1(0.5, [[2, 0], [5, 4], [1, 3]]), GroupL1(0.5, [[3], [6]], parameters=P), GroupL1(0.5, [])]


@pytest.mark.parametrize("r", [*SEPARATE, ALL["Box with one bound"], ALL["WeightedElasticNet"]], ids=repr)
def test_a_split_sums_to_the_whole(r):
    parts, w = r.split(SLICES), np.concatenate([stack(), 0.1 * stack(1), r.prox(stack(2), 0.5)])
    assert len(parts) == len(SLICES)
    np.testing.assert_allclose(sum(part.value(w[:, s]) for part, s in zip(parts, SLICES)), r.value(w), rtol=1e-14)
    pieces = [part.prox(w[:, s], 0.7) for part, s in zip(parts, SLICES)]
    np.testing.assert_array_equal(np.concatenate(pieces, axis=1), r.prox(w, 0.7))


def test_without_the_group_of_an_input_the_model_ignores_it():
    rng = np.random.default_rng(0)
    x, shift = rng.standard_normal((6, 3)), np.array([0.0, 2.0, 0.0])
    for model in (MLP([3, 4, 5, 2]), Linear(3, outputs=2), Linear(3, bias=False)):
        r, w = GroupL1.of_inputs(0.1, model), rng.standard_normal(model.parameters)
        assert ([len(group) for group in r.groups], r.parameters) == ([model.widths[1]] * 3, model.parameters)
        assert r.groups == GroupL1.of_units(0.1, model).groups[:3]
        assert not np.allclose(model.predict(w, x), model.predict(w, x + shift))
        w[list(r.groups[1])] = 0
        np.testing.assert_array_equal(model.predict(w, x), model.predict(w, x + shift))


def test_without_the_group_of_a_unit_the_model_ignores_it():
    model, rng = MLP([3, 4, 5, 2]), np.random.default_rng(0)
    r, x = GroupL1.of_units(0.1, model), rng.standard_normal((6, 3))
    assert [len(group) for group in r.groups] == [4] * 3 + [5] * 4 + [2] * 5
    biases = np.setdiff1d(np.arange(model.parameters), np.concatenate(r.groups))
    assert biases.tolist() == [*range(12, 16), *range(36, 41), 51, 52]
    for unit in range(9):  # hidden; its bias moves the outputs only through the weights that leave it
        w, shift = rng.standard_normal(model.parameters), np.zeros(model.parameters)
        shift[biases[unit]] = 1
        assert not np.allclose(model.predict(w, x), model.predict(w + shift, x))
        w[list(r.groups[3 + unit])] = 0
        np.testing.assert_array_equal(model.predict(w, x), model.predict(w + shift, x))


def test_equality_is_that_of_the_functions():
    assert GroupL1(1, [[2, 0], [1]]) == GroupL1(1.0, (np.array([0, 2]), range(1, 2)))
    assert GroupL1(1, [[2, 0], [1]]) != GroupL1(1, [[2, 1], [0]])
    assert Box(0, np.ones(3)) == Box(-0.0, [1, 1, 1])
    assert hash(Box(0, np.ones(3))) == hash(Box(-0.0, [1, 1, 1]))
    assert Box(0, np.ones(3)) != Box(0, 1)
    assert len({LogSum(1, 2), LogSum(1.0, 2.0), SCAD(1), SCAD(1, 3.7), NonNegative(), NonNegative()}) == 3


def test_descriptions_are_short_and_tell_weights_apart():
    assert len(repr(Box(np.arange(10000), np.inf))) < 100
    assert repr(GroupL1(0.5, np.arange(10000).reshape(100, 100))) == "GroupL1(weight=0.5, <100 groups>, parameters=None)"
    assert repr(Box(0, [1, 2])) == "Box(0., [1., 2.])"
    assert repr(WEIGHTED) == repr(WeightedElasticNet(L1S.tolist(), L2S.tolist()))
    assert repr(WEIGHTED) != repr(WeightedElasticNet(L1S, 2 * L2S))


# Nonconvex penalties: the difference of convex functions that they are, and the global minimiser that their prox is.

every = pytest.mark.parametrize("r", NONCONVEX.values(), ids=NONCONVEX)


def points(seed=0, agents=5):
    return 1.5 * np.random.default_rng(seed).standard_normal((agents, P))


def slope(r, t):
    """r'(t) of one coordinate t > 0: for SCAD eq. (2.7) of Fan and Li."""
    if isinstance(r, LogSum):
        return r.weight / (r.epsilon + t)
    return np.where(t <= r.weight, r.weight, np.maximum(r.a * r.weight - t, 0) / (r.a - 1))


@every
def test_value_is_the_integral_of_the_slope(r):
    points = [r.weight, r.a * r.weight] if isinstance(r, SCAD) else None
    for t in (0.0, 0.1, 0.5, 1.3, 4.0):
        integral, _ = quad(lambda s: float(slope(r, s)), 0, t, points=points, epsabs=1e-13, epsrel=1e-13) if t else (0, 0)
        for w, expected in (([t], integral), ([-t, t], 2 * integral)):
            assert r.value(np.array(w)) == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("step", [0.05, 0.4, 1.2])
@every
def test_prox_meets_its_optimality_condition(r, step):
    v = 2 * points(agents=60)
    p = r.prox(v, step)
    gradient, moved = (v - p) / step, p != 0
    np.testing.assert_allclose(gradient[moved], (np.sign(p) * slope(r, np.abs(p)))[moved], rtol=0, atol=1e-12)
    assert (np.abs(gradient[~moved]) <= r.convex.weight).all()
    assert not np.signbit(p[~moved]).any()
    assert (~moved).any() == (r.weight > 0)


def test_prox_of_log_sum_is_accurate_at_all_scales():
    for a, epsilon, c in [(1e-8, 1.0, 1e-9), (1e-12, 1.0, 1e-13), (1.0, 1e-9, 1e-12), (1e6, 1.0, 3.0), (5.0, 2.0, 4.0)]:
        with localcontext(prec=60):
            b, q = Decimal(a) - Decimal(epsilon), Decimal(a) + Decimal(epsilon)
            root = float((b + (q * q - 4 * Decimal(c)).sqrt()) / 2)
        assert LogSum(c, epsilon).prox(np.array([a, -a]), 1.0) == pytest.approx([root, -root], rel=1e-14, abs=0)


def test_prox_of_log_sum_jumps_where_zero_and_the_root_are_equally_good():
    r, low, high = LogSum(1.5, epsilon=0.2), Fraction(0), Fraction(4)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if r.prox(np.array([float(middle)]), 1.0)[0] else (middle, high)
    v = float(high)
    p = r.prox(np.array([v]), 1.0)[0]
    assert p > 1
    assert r.value(np.array([p])) + (p - v) ** 2 / 2 == pytest.approx(v**2 / 2, rel=1e-14)


def test_prox_of_scad_is_continuous_and_leaves_large_coordinates():
    r, step = SCAD(0.6, a=3.0), 1.5
    for bend in (0.6 * step, 0.6 * (1 + step), 3.0 * 0.6):
        assert np.ptp(r.prox(bend * np.array([1 - 1e-13, 1, 1 + 1e-13]), step)) < 1e-11
    np.testing.assert_array_equal(r.prox(np.array([1.81, -7.3]), step), [1.81, -7.3])


@pytest.mark.parametrize("step", [2.0, 2.5, np.array([[0.1], [2.0]])], ids=str)
def test_scad_rejects_steps_whose_prox_is_not_one_point(step):
    for method in (SCAD(0.6, a=3.0).prox, SCAD(0.6, a=3.0).active):
        with pytest.raises(ValueError, match=r"step of SCAD\(weight=0.6, a=3.0\) must be < a - 1 = 2.0"):
            method(np.ones((2, P)), step)


@every
def test_a_penalty_is_its_convex_part_less_a_smooth_convex_one(r):
    w, h = np.concatenate([points(agents=40), 0.1 * points(1), 5 * points(2)]), 1e-5
    assert isinstance(r.convex, L1)
    np.testing.assert_allclose(r.convex.value(w) - r.smooth_value(w), r.value(w), rtol=1e-13, atol=1e-14)
    assert np.ndim(r.smooth_value(w[0])) == 0
    slopes = [(r.smooth_value(w + unit) - r.smooth_value(w - unit)) / (2 * h) for unit in np.eye(P) * h]
    np.testing.assert_allclose(r.smooth_gradient(w), np.transpose(slopes), rtol=0, atol=3e-6)
    # The gradient is monotone, and no steeper than its Lipschitz constant, which is reached.
    t = np.linspace(-4, 4, 4001)
    rise = np.diff(r.smooth_gradient(t)) / np.diff(t)
    assert rise.min() >= -1e-12
    assert rise.max() <= -r.strong_convexity + 1e-12
    assert not r.weight or rise.max() == pytest.approx(-r.strong_convexity, rel=0.02)


def test_penalties_are_not_convex_and_have_no_expression():
    assert all(r.is_convex for r in CONVEX.values())
    for r in NONCONVEX.values():
        assert not r.is_convex
        with pytest.raises(TypeError, match=rf"{type(r).__name__}\(.*is not convex .* \.convex = L1\("):
            r.expression(cp.Variable(P))


# Arguments out of range: the message names the argument, its value and what is allowed.


def raises(match, error=ValueError):
    return pytest.raises(error, match=match)


NUMBERS = {
    "weight of L1 >= 0": L1,
    "weight of L2 >= 0": L2,
    "l1 of ElasticNet >= 0": lambda bad: ElasticNet(bad, 1.0),
    "l2 of ElasticNet >= 0": lambda bad: ElasticNet(1.0, bad),
    "weight of GroupL1 >= 0": lambda bad: GroupL1(bad, [[0]]),
    "weight of LogSum >= 0": lambda bad: LogSum(bad, 1.0),
    "epsilon of LogSum > 0": lambda bad: LogSum(1.0, bad),
    "weight of SCAD >= 0": SCAD,
    "a of SCAD > 2": lambda bad: SCAD(1.0, bad),
    "radius of L2Ball > 0": L2Ball,
}


@pytest.mark.parametrize("bad", [-1e-3, 0, 2, np.nan, np.inf, "1", None, True, 1j, np.ones(2)], ids=repr)
@pytest.mark.parametrize("argument", NUMBERS)
def test_bad_numbers(argument, bad):
    name, sign, bound = argument.rsplit(maxsplit=2)
    if argument == "weight of L2 >= 0" and isinstance(bad, np.ndarray):
        L2(bad)  # a weight for each parameter
        return
    if type(bad) is int and (bad > int(bound) or (sign == ">=" and bad == int(bound))):
        NUMBERS[argument](bad)
        return
    with raises(rf"^{name} must be a finite number {sign} {bound}; got ") as caught:
        NUMBERS[argument](bad)
    assert f"got {bad!r}" in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, "1", None, True, 1j, [], [[1.0]], [0.0, np.nan], [True], np.ones((2, 2))], ids=repr)
def test_bad_bounds(bad):
    for name, arguments in (("lower", (bad, 1.0)), ("upper", (0.0, bad))):
        with raises(rf"{name} of Box must be a number or an array \(P,\) of numbers") as caught:
            Box(*arguments)
        assert f"got {bad!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Box([0.0, 2.0], 1.5), r"lower of Box must be <= upper, .* got 2.0 and 1.5 at coordinate 1"),
        (lambda: Box(np.inf, np.inf), "got inf and inf at coordinate 0"),
        (lambda: Box(np.zeros(2), np.ones(3)), "lower and upper of Box must have the same length; got 2 and 3"),
        *((lambda bad=bad: L2(bad), "weight of L2 must be finite weights >= 0")
          for bad in ([-1.0, 0], [np.inf, 0], [[1.0]], [])),
        (lambda: L2([1.0, 2.0]).gradient(np.ones(3)), "w must have the 2 coordinates of L2"),
        (lambda: L2([1.0, 2.0]).prox(np.ones((4, 3)), 1.0), "v must have the 2 coordinates of L2"),
        (lambda: L2([1.0, 2.0]).split([slice(0, 3)]), "slices must cover the 2 coordinates of L2"),
        *((lambda bad=bad: WeightedElasticNet([1.0, 1.0], bad), "l2 of WeightedElasticNet must be finite weights >= 0")
          for bad in ([-1.0, 0], [np.inf, 0], [[1.0]], [])),
        (lambda: WeightedElasticNet(np.ones(4), [1.0, 2.0]), "must be of one length; got 4 and 2"),
        (lambda: GroupL1(1.0, [[0], [3, 5]], 5), r"groups\[1\] of GroupL1 must be .* >= 0 and <= 4; got \[3, 5\]"),
        (lambda: GroupL1(1.0, [], parameters=0), "parameters of GroupL1 must be a whole number >= 1; got 0"),
        (lambda: GroupL1(1.0, [[0], []]), r"groups\[1\] of GroupL1 must be a non-empty list of whole numbers >= 0; got \[\]"),
        (lambda: GroupL1(1.0, [[0, -1]]), r"groups\[0\] .* got \[0, -1\]"),
        (lambda: GroupL1(1.0, [[0.0, 1.0]]), r"groups\[0\] .* got \[0.0, 1.0\]"),
        (lambda: GroupL1(1.0, [[True, False]]), r"groups\[0\] .* got \[True, False\]"),
        (lambda: GroupL1(1.0, [0, 1]), r"groups\[0\] .* got 0"),
        (lambda: GroupL1(1.0, [[[0, 1]]]), r"groups\[0\] .* got \[\[0, 1\]\]"),
        (lambda: GroupL1(1.0, [[0, 2, 5], [1, 5]]), r"disjoint; coordinate 5 is in groups\[0\] and in groups\[1\]"),
        (lambda: GroupL1(1.0, [[3], [2, 2]]), r"disjoint; coordinate 2 is in groups\[1\] and in groups\[1\]"),
    ],
)  # fmt: skip
def test_bad_settings(make, match):
    with raises(match):
        make()


def test_groups_of_something_else():
    class Odd:
        widths, bias, parameters = (2, 1), True, 4

        def __repr__(self):
            return "Odd()"

    with raises(r"a model with widths and bias, as consensus\.MLP.* has; got 'mlp'", TypeError):
        GroupL1.of_units(1.0, "mlp")
    with raises(r"Odd\(\) must have the 3 parameters of its widths \(2, 1\); it has 4"):
        GroupL1.of_inputs(1.0, Odd())


@pytest.mark.parametrize(("r", "match"), [
    (GroupL1(1, [[0, 9]]), "points of .* must have at least 10 coordinates"),
    (GroupL1(1, [[0]], parameters=9), "points of .* must have 9 coordinates"),
    (Box(np.zeros(9), 1), "points of .* must have 9 coordinates"),
    (WeightedElasticNet(np.ones(9), np.ones(9)), "must have the 9 coordinates of WeightedElasticNet"),
], ids=repr)  # fmt: skip
def test_points_of_another_length(r, match):
    v, calls = np.ones((5, P)), [r.value, lambda v: r.prox(v, 1.0)]
    calls += [] if "the" in match else [lambda v: r.prox_jvp(v, 1.0, v), lambda v: r.active(v, 1.0)]
    for call in calls:
        with raises(rf"{match}.*; got shape \(5, 8\)"):
            call(v)


GAPS = [[(0, 4), (5, 8)], [(0, 4), (3, 8)], [(1, 8)], [(0, 8, 2)], [(0, None)], [(4, 8), (0, 4)]]
EMPTY = [[(0, 4), (4, 2)], [(0, 4), (4, 4), (4, 8)], []]


@pytest.mark.parametrize("slices", [[8], *([slice(*ends) for ends in part] for part in GAPS + EMPTY)], ids=str)
def test_slices_that_do_not_cover(slices):
    with raises(r"slices must cover 0\.\.P in order, none empty, as .* does; got \["):
        L1(1).split(slices)


OF_ONES = WeightedElasticNet(np.ones(P), np.ones(P))


@pytest.mark.parametrize("r", [GroupL1(1, [[7]]), GroupL1(1, [[0]], parameters=P), Box(0, np.ones(P)), OF_ONES], ids=repr)
def test_slices_of_another_length(r):
    with raises("slices must cover the 8 coordinates of "):
        r.split([slice(0, 4), slice(4, 7)])


def test_slices_over_which_r_does_not_separate():
    slices = [slice(0, 4), slice(4, 7), slice(7, 8)]
    for r, match in (
        (L2Ball(1.0), r"L2Ball\(radius=1.0\) does not separate over \[slice\(0, 4, None\), "),
        (GroupL1(1.0, GROUPS), r"GroupL1\(.*does not separate over .* coordinates 1 \.\. 6 .* slice\(4, 7, None\)"),
    ):
        with raises(match):
            r.split(slices)
