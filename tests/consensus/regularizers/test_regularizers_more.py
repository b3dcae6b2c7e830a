"""Regularizers: groups, constraints and nonconvex penalties; and what second-order solvers ask of all of them."""

import pickle
from decimal import Decimal, localcontext
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from every_regularizer import ALL, CONVEX, GROUPS, NONCONVEX, P
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from consensus import MLP, Linear
from consensus.regularizers import L1, L2, SCAD, Box, ElasticNet, GroupL1, L2Ball, LogSum, NonNegative
from consensus.regularizers.base import Regularizer

SETS = {name: r for name, r in CONVEX.items() if isinstance(r, Box | NonNegative | L2Ball)}
GROUPED = {name: r for name, r in CONVEX.items() if isinstance(r, GroupL1)}


def over(cases):
    return pytest.mark.parametrize("r", cases.values(), ids=cases.keys())


def stack(seed=0, agents=5):
    return 1.5 * np.random.default_rng(seed).standard_normal((agents, P))


def jacobian(r, v, step):
    """Every agent's M (agents, P, P), from all unit directions at once."""
    return r.prox_jvp(v, step, np.broadcast_to(np.eye(P, dtype=v.dtype), (len(v), P, P)))


# The prox.


def test_prox_sets_whole_groups_exactly_to_zero():
    r, width = GroupL1(0.5, GROUPS), 0.5 * np.sqrt(3)
    for dtype, below in ((np.float64, 1 - 1e-14), (np.float32, 1 - 1e-6)):
        v = np.zeros((3, P), dtype)
        v[:, [0, 2, 3]] = np.array([-2, 1, -2]) / 3 * width  # a group of norm width
        v *= np.array([[below], [2 - below], [2]], dtype)
        p = r.prox(v, 1.0)
        assert ((p == 0).all(axis=1) == [True, False, False]).all()
        assert not np.signbit(p[0]).any()
        np.testing.assert_allclose(p[2], v[2] / 2, rtol=1e-6 if dtype == np.float32 else 1e-14)


def test_values_of_sets_at_their_border():
    up, down = 1 + 1e-14, np.nextafter(1, 0)
    w = np.array([[1.0, -1.0], [up, 0.0], [down, 0.0], [0.0, -up], [np.nan, 0.0]])
    assert Box(-1, 1).value(w).tolist() == [0, np.inf, 0, np.inf, np.inf]
    assert Box(-1, [1, 1]).value(w).tolist() == [0, np.inf, 0, np.inf, np.inf]
    assert NonNegative().value(-w).tolist() == [np.inf, np.inf, np.inf, 0, np.inf]
    assert NonNegative().value(np.array([0.0, -0.0])) == 0
    assert L2Ball(1).value(w).tolist() == [np.inf, 0, 0, 0, np.inf]
    assert L2Ball(1).value(np.array([1 + 2e-12, 0.0])) == np.inf


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_projections_on_a_ball_are_inside_it(dtype):
    v = np.random.default_rng(0).standard_normal((200, 3000)).astype(dtype)
    r = L2Ball(0.7)
    assert (r.value(r.prox(v, 1.0)) == 0).all()


def test_a_box_of_float32_points_is_not_left_by_rounding():
    r = Box(0.1, np.linspace(0.2, 0.3, P))
    p = r.prox(stack().astype(np.float32), 1.0)
    assert (r.value(p) == 0).all()


# Nonconvex penalties.


def slope(r, t):
    """r'(t) of one coordinate t > 0: for SCAD eq. (2.7) of Fan and Li."""
    if isinstance(r, LogSum):
        return r.weight / (r.epsilon + t)
    return np.where(t <= r.weight, r.weight, np.maximum(r.a * r.weight - t, 0) / (r.a - 1))


@over(NONCONVEX)
def test_value_of_a_penalty_is_the_integral_of_its_slope(r):
    for t in [0.0, 0.1, 0.5, 1.3, 4.0]:
        points = [r.weight, r.a * r.weight] if isinstance(r, SCAD) else None
        integral, _ = quad(lambda s: float(slope(r, s)), 0, t, points=points, epsabs=1e-13, epsrel=1e-13) if t else (0, 0)
        assert r.value(np.array([t])) == pytest.approx(integral, rel=1e-12, abs=1e-14)
        assert r.value(np.array([-t, t])) == pytest.approx(2 * integral, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("step", [0.05, 0.4, 1.2])
@over(NONCONVEX)
def test_prox_of_a_penalty_is_the_global_minimiser(r, step):
    def objective(w, v):
        return r.value(np.asarray(w)[..., None]) + (w - v) ** 2 / (2 * step)

    v = np.concatenate([np.linspace(-4, 4, 57) + 0.013, [0.0, 1e-3, -1e-5]])
    prox = r.prox(v, step)
    for point, p in zip(v, prox):
        grid = np.linspace(-0.01, 1, 2001) * point
        best = objective(grid, point).argmin()
        near = np.sort(grid[[max(best - 1, 0), min(best + 1, 2000)]])
        refined = minimize_scalar(objective, bounds=near, args=(point,), method="bounded", options={"xatol": 1e-12})
        reference = min([0.0, refined.x], key=lambda w: objective(w, point))
        assert objective(p, point) <= objective(reference, point) + 1e-15
        assert p == pytest.approx(reference, abs=1e-6)


@pytest.mark.parametrize("step", [0.05, 0.4, 1.2])
@over(NONCONVEX)
def test_prox_of_a_penalty_meets_its_optimality_condition(r, step):
    v = 2 * stack(agents=60)
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
    r, step = LogSum(1.5, epsilon=0.2), 1.0
    low, high = Fraction(0), Fraction(4)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if r.prox(np.array([float(middle)]), step)[0] else (middle, high)
    v = float(high)
    p = r.prox(np.array([v]), step)[0]
    assert p > 1
    assert r.value(np.array([p])) + (p - v) ** 2 / 2 == pytest.approx(v**2 / 2, rel=1e-14)


def test_prox_of_scad_is_continuous_and_leaves_large_coordinates():
    r, step = SCAD(0.6, a=3.0), 1.5
    for bend in (0.6 * step, 0.6 * (1 + step), 3.0 * 0.6):
        around = r.prox(bend * np.array([1 - 1e-13, 1, 1 + 1e-13]), step)
        assert np.ptp(around) < 1e-11
    np.testing.assert_array_equal(r.prox(np.array([1.81, -7.3]), step), [1.81, -7.3])


@pytest.mark.parametrize("step", [2.0, 2.5, np.array([[0.1], [2.0]])], ids=str)
def test_scad_refuses_steps_whose_prox_is_not_one_point(step):
    for method in (SCAD(0.6, a=3.0).prox, SCAD(0.6, a=3.0).active):
        with pytest.raises(ValueError, match=r"step of SCAD\(weight=0.6, a=3.0\) must be < a - 1 = 2.0"):
            method(np.ones((2, P)), step)


@over(NONCONVEX)
def test_a_penalty_is_its_convex_part_less_its_smooth_part(r):
    w = np.concatenate([stack(), 0.1 * stack(1), 5 * stack(2)])
    assert isinstance(r.convex, L1)
    np.testing.assert_allclose(r.convex.value(w) - r.smooth_value(w), r.value(w), rtol=1e-13, atol=1e-14)
    assert np.ndim(r.smooth_value(w[0])) == 0


@over(NONCONVEX)
def test_smooth_gradient_is_the_finite_difference_and_has_its_lipschitz_constant(r):
    w, h = stack(agents=40), 1e-5
    gradient = r.smooth_gradient(w)
    for column, unit in enumerate(np.eye(P) * h):
        slopes = (r.smooth_value(w + unit) - r.smooth_value(w - unit)) / (2 * h)
        np.testing.assert_allclose(gradient[:, column], slopes, rtol=0, atol=3e-6)
    # monotone (the smooth part is convex), and no steeper than the constant, which is reached
    t = np.linspace(-4, 4, 4001)
    rise = np.diff(r.smooth_gradient(t)) / np.diff(t)
    assert rise.min() >= -1e-12
    assert rise.max() <= -r.strong_convexity + 1e-12
    if r.weight:
        assert rise.max() == pytest.approx(-r.strong_convexity, rel=0.02)


@over(NONCONVEX)
def test_linearising_the_smooth_part_bounds_a_penalty_from_above(r):
    w, at = stack(3, agents=50), stack(4, agents=50)
    bound = r.convex.value(w) - r.smooth_value(at) - np.vecdot(r.smooth_gradient(at), w - at)
    assert (bound - r.value(w)).min() >= -1e-13


def test_only_the_nonconvex_ones_say_so_and_have_no_expression():
    assert all(r.is_convex for r in CONVEX.values())
    for r in NONCONVEX.values():
        assert not r.is_convex
        with pytest.raises(TypeError, match=rf"{type(r).__name__}\(.*is not convex .* \.convex = L1\("):
            r.expression(cp.Variable(P))


# The generalised Jacobian of the prox.


@over(ALL)
def test_active_coordinates_are_those_with_a_row_in_the_jacobian(r):
    v = np.concatenate([stack(agents=30), np.zeros((1, P)), 3 * np.eye(P), 1e-9 * stack(1)])
    m = jacobian(r, v, 0.9)
    active = r.active(v, 0.9)
    assert (active.dtype, active.shape) == (bool, v.shape)
    np.testing.assert_array_equal(active, (m != 0).any(axis=1))
    np.testing.assert_array_equal(active, (m != 0).any(axis=2))


def test_coordinates_on_their_bounds_are_not_active():
    v = np.array([[-1.0, 1.0, 0.0, 0.5]])
    assert Box(-1, [1, 1, 1, 0.5]).active(v, 1.0).tolist() == [[False, False, True, False]]
    assert Box([-1, 0, 0, 0.5], [1, 2, 0, 0.5]).active(v, 1.0).tolist() == [[False, True, False, False]]
    assert NonNegative().active(v, 1.0).tolist() == [[False, True, False, True]]


@pytest.mark.parametrize("r", [L1(0), ElasticNet(0, 0), L2(0), GroupL1(0, GROUPS), LogSum(0, 1), SCAD(0)], ids=repr)
def test_without_weight_the_prox_is_the_identity_also_at_zero(r):
    v = np.concatenate([np.zeros((1, P)), stack()])
    np.testing.assert_array_equal(r.prox(v, 0.9), v)
    np.testing.assert_array_equal(jacobian(r, v, 0.9), np.broadcast_to(np.eye(P), (6, P, P)))
    assert r.active(v, 0.9).all()


# Splitting.

SLICES = [slice(0, 4), slice(4, 7), slice(7, 8)]


@pytest.mark.parametrize(
    "r",
    [r for r in ALL.values() if not isinstance(r, L2Ball | GroupL1)]
    + [GroupL1(0.5, [[2, 0], [5, 4], [1, 3]]), GroupL1(0.5, [[3], [6]], parameters=P), GroupL1(0.5, [])],
    ids=repr,
)
def test_a_split_sums_to_the_whole(r):
    parts, w = r.split(SLICES), np.concatenate([stack(), 0.1 * stack(1), r.prox(stack(2), 0.5)])
    assert len(parts) == len(SLICES)
    np.testing.assert_allclose(sum(part.value(w[:, s]) for part, s in zip(parts, SLICES)), r.value(w), rtol=1e-14)
    pieces = [part.prox(w[:, s], 0.7) for part, s in zip(parts, SLICES)]
    np.testing.assert_array_equal(np.concatenate(pieces, axis=1), r.prox(w, 0.7))


def test_a_split_that_does_not_separate_is_refused():
    with pytest.raises(ValueError, match=r"L2Ball\(radius=1.0\) does not separate over \[slice\(0, 4, None\), "):
        L2Ball(1.0).split(SLICES)
    with pytest.raises(ValueError, match=r"GroupL1\(.*does not separate over .* coordinates 1 \.\. 6 .* slice\(4, 7, None\)"):
        GroupL1(1.0, GROUPS).split(SLICES)


BAD_SLICES = [
    [],
    [slice(0, 4), slice(5, 8)],
    [slice(0, 4), slice(3, 8)],
    [slice(1, 8)],
    [slice(0, 8, 2)],
    [slice(0, None)],
    [slice(0, 4), slice(4, 2)],
    [slice(0, 4), slice(4, 4), slice(4, 8)],
    [slice(4, 8), slice(0, 4)],
    [8],
]


@pytest.mark.parametrize("slices", BAD_SLICES, ids=str)
@pytest.mark.parametrize("r", [L1(1), L2Ball(1), GroupL1(1, [[0]]), Box(0, np.ones(P))], ids=repr)
def test_slices_that_do_not_cover_are_refused(r, slices):
    with pytest.raises(ValueError, match=r"slices must cover 0\.\.P in order, none empty, as .* does; got \["):
        r.split(slices)


@pytest.mark.parametrize("r", [GroupL1(1, [[0], [7]]), GroupL1(1, [[0]], parameters=P), Box(0, np.ones(P))], ids=repr)
def test_slices_of_another_length_are_refused(r):
    with pytest.raises(ValueError, match="slices must cover the 8 coordinates of "):
        r.split([slice(0, 4), slice(4, 7)])


# The groups of a model.


def test_without_the_group_of_an_input_the_model_ignores_it():
    rng = np.random.default_rng(0)
    x, shift = rng.standard_normal((6, 3)), np.array([0.0, 2.0, 0.0])
    for model in (MLP([3, 4, 5, 2]), Linear(3, outputs=2), Linear(3, bias=False)):
        r, w = GroupL1.of_inputs(0.1, model), rng.standard_normal(model.parameters)
        assert (len(r.groups), r.parameters) == (3, model.parameters)
        assert {len(group) for group in r.groups} == {model.widths[1]}
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


def test_groups_of_inputs_are_the_first_of_the_units():
    model = MLP([3, 4, 5, 2])
    assert GroupL1.of_inputs(0.1, model).groups == GroupL1.of_units(0.1, model).groups[:3]
    assert GroupL1.of_inputs(0.1, Linear(3)) == GroupL1.of_units(0.1, Linear(3))


def test_groups_of_something_else_are_refused():
    class Odd:
        widths, bias, parameters = (2, 1), True, 4

        def __repr__(self):
            return "Odd()"

    with pytest.raises(TypeError, match=r"a model with widths and bias, as consensus\.MLP.* has; got 'mlp'"):
        GroupL1.of_units(1.0, "mlp")
    with pytest.raises(ValueError, match=r"Odd\(\) must have the 3 parameters of its widths \(2, 1\); it has 4"):
        GroupL1.of_inputs(1.0, Odd())


# Dtypes, copies, identity.


@over(ALL)
def test_copies_by_pickle_are_equal_and_work(r):
    copy = pickle.loads(pickle.dumps(r))
    assert copy == r
    assert hash(copy) == hash(r)
    assert repr(copy) == repr(r)
    np.testing.assert_array_equal(copy.prox(stack(), 0.5), r.prox(stack(), 0.5))


def test_equality_is_that_of_the_functions():
    assert GroupL1(1, [[2, 0], [1]]) == GroupL1(1.0, (np.array([0, 2]), range(1, 2)))
    assert GroupL1(1, [[2, 0], [1]]) != GroupL1(1, [[2, 1], [0]])
    assert Box(0, np.ones(3)) == Box(-0.0, [1, 1, 1])
    assert hash(Box(0, np.ones(3))) == hash(Box(-0.0, [1, 1, 1]))
    assert Box(0, np.ones(3)) != Box(0, 1)
    assert len({LogSum(1, 2), LogSum(1.0, 2.0), SCAD(1), SCAD(1, 3.7), NonNegative(), NonNegative()}) == 3


def test_descriptions_are_short():
    assert len(repr(Box(np.arange(10000), np.inf))) < 100
    assert repr(GroupL1(0.5, np.arange(10000).reshape(100, 100))) == "GroupL1(weight=0.5, <100 groups>, parameters=None)"
    assert repr(Box(0, [1, 2])) == "Box(0., [1., 2.])"


def test_only_sets_have_constraints():
    w = cp.Variable(P)
    assert all(r.constraints(w) == [] for name, r in CONVEX.items() if name not in SETS)
    assert [len(r.constraints(w)) for r in SETS.values()] == [2, 2, 1, 1, 1, 1]
    assert Box(-np.inf, np.inf).constraints(w) == []


# One's own regularizers.


class Own(Regularizer):
    def value(self, w):
        return np.abs(w.sum(axis=-1))

    def prox(self, v, step):
        raise NotImplementedError

    def expression(self, w):
        return cp.abs(cp.sum(w))


def test_what_is_not_known_of_ones_own_is_safe():
    own, v = Own(), stack()
    assert own.active(v, 1.0).all()
    assert own.active(v, 1.0).shape == v.shape
    assert own.split([slice(0, P)]) == [own]
    assert own.is_convex
    with pytest.raises(ValueError, match="does not separate over"):
        own.split(SLICES)
    with pytest.raises(TypeError, match="has no prox_jvp"):
        own.prox_jvp(v, 1.0, v)


# Bad arguments.

NUMBERS = [-1e-3, np.nan, np.inf, "1", None, True]


@pytest.mark.parametrize("bad", NUMBERS, ids=repr)
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda bad: GroupL1(bad, [[0]]), "weight of GroupL1 must be a finite number >= 0"),
        (lambda bad: LogSum(bad, 1.0), "weight of LogSum must be a finite number >= 0"),
        (lambda bad: LogSum(1.0, bad), "epsilon of LogSum must be a finite number > 0"),
        (SCAD, "weight of SCAD must be a finite number >= 0"),
        (lambda bad: SCAD(1.0, bad), "a of SCAD must be a finite number > 2"),
        (L2Ball, "radius of L2Ball must be a finite number > 0"),
    ],
    ids=["GroupL1", "LogSum weight", "LogSum epsilon", "SCAD weight", "SCAD a", "L2Ball"],
)
def test_bad_numbers_are_named(make, message, bad):
    with pytest.raises(ValueError, match=message) as caught:
        make(bad)
    assert str(caught.value).endswith(f"got {bad!r}")


def test_a_of_scad_and_radius_and_epsilon_exclude_their_bounds():
    for make in (lambda: SCAD(1.0, 2.0), lambda: L2Ball(0), lambda: LogSum(1.0, 0)):
        with pytest.raises(ValueError, match="must be a finite number > "):
            make()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[0], []], r"groups\[1\] of GroupL1 must be a non-empty list of whole numbers >= 0; got \[\]"),
        ([[0, -1]], r"groups\[0\] .* got \[0, -1\]"),
        ([[0.0, 1.0]], r"groups\[0\] .* got \[0.0, 1.0\]"),
        ([[True, False]], r"groups\[0\] .* got \[True, False\]"),
        ([0, 1], r"groups\[0\] .* got 0"),
        ([[[0, 1]]], r"groups\[0\] .* got \[\[0, 1\]\]"),
        ([[0, 2, 5], [1, 5]], r"disjoint; coordinate 5 is in groups\[0\] and in groups\[1\]"),
        ([[3], [2, 2]], r"disjoint; coordinate 2 is in groups\[1\] and in groups\[1\]"),
    ],
)
def test_bad_groups_are_named(groups, message):
    with pytest.raises(ValueError, match=message):
        GroupL1(1.0, groups)


def test_groups_beyond_the_parameters_are_refused():
    with pytest.raises(ValueError, match=r"groups\[1\] of GroupL1 must be .* >= 0 and <= 4; got \[3, 5\]"):
        GroupL1(1.0, [[0], [3, 5]], parameters=5)
    with pytest.raises(ValueError, match="parameters of GroupL1 must be a whole number >= 1; got 0"):
        GroupL1(1.0, [], parameters=0)


@pytest.mark.parametrize(
    ("r", "wanted"),
    [(GroupL1(1, [[0, 9]]), "at least 10"), (GroupL1(1, [[0]], parameters=9), "9"), (Box(np.zeros(9), 1), "9")],
    ids=repr,
)
def test_points_of_another_length_are_refused(r, wanted):
    calls = [r.value, lambda v: r.prox(v, 1.0), lambda v: r.prox_jvp(v, 1.0, v), lambda v: r.active(v, 1.0)]
    for call in calls:
        with pytest.raises(ValueError, match=rf"points of .* must have {wanted} coordinates; got shape \(5, 8\)"):
            call(stack())


@pytest.mark.parametrize("bad", [np.nan, "1", None, True, 1j, [], [[1.0]], [0.0, np.nan], [True], np.ones((2, 2))], ids=repr)
def test_bad_bounds_are_named(bad):
    for name, arguments in (("lower", (bad, 1.0)), ("upper", (0.0, bad))):
        with pytest.raises(ValueError, match=rf"{name} of Box must be a number or an array \(P,\) of numbers") as caught:
            Box(*arguments)
        assert f"got {bad!r}" in str(caught.value)


def test_bounds_that_leave_nothing_are_named():
    with pytest.raises(ValueError, match=r"lower of Box must be <= upper, .* got 2.0 and 1.5 at coordinate 1"):
        Box([0.0, 2.0], 1.5)
    with pytest.raises(ValueError, match="got inf and inf at coordinate 0"):
        Box(np.inf, np.inf)
    with pytest.raises(ValueError, match="lower and upper of Box must have the same length; got 2 and 3"):
        Box(np.zeros(2), np.ones(3))
