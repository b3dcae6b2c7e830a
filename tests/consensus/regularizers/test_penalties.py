"""Nonconvex penalties: the difference of convex functions that they are, and the global minimiser that their prox is."""

from decimal import Decimal, localcontext
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from scipy.integrate import quad

from consensus.regularizers import L1, SCAD, LogSum
from tests.helpers.every_regularizer import CONVEX, NONCONVEX, P

every = pytest.mark.parametrize("r", NONCONVEX.values(), ids=NONCONVEX)


def stack(seed=0, agents=5):
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
    w, h = np.concatenate([stack(agents=40), 0.1 * stack(1), 5 * stack(2)]), 1e-5
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
