"""Regularizers that are sums over coordinates: what they do beside the contract of consensus.testing."""

import numpy as np
import pytest

from consensus.regularizers import L1, L2, ElasticNet, WeightedElasticNet

L1S, L2S = np.array([0.6, 0.0, 0.0, 2.0]), np.array([0.0, 0.0, 1.3, 0.2])
R = WeightedElasticNet(L1S, L2S)
V = 1.5 * np.random.default_rng(0).standard_normal((6, 4))


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


@pytest.mark.parametrize("r", [L1(0.7), L1(0), L2(0.4), L2(0), ElasticNet(0.6, 1.3), ElasticNet(0, 1.3)], ids=repr)
def test_strong_convexity_is_the_largest_that_holds(r):
    # r(a)/2 + r(b)/2 - r((a + b)/2) = m/8 |a - b|^2 within an orthant
    a, b = np.abs(V), np.abs(V[::-1])
    middle = (r.value(a) + r.value(b)) / 2 - r.value((a + b) / 2)
    np.testing.assert_allclose(middle, r.strong_convexity / 8 * np.square(a - b).sum(axis=-1), atol=1e-13)


def test_it_is_smooth_without_absolute_values():
    smooth = WeightedElasticNet(np.zeros(4), L2S)
    assert (R.smooth, R.curvature_bound, smooth.smooth, smooth.curvature_bound) == (False, None, True, 1.3)
    np.testing.assert_array_equal(smooth.gradient(V), L2S * V)
    with pytest.raises(TypeError, match="not smooth"):
        R.gradient(V)
    assert WeightedElasticNet(np.ones(2), [3.0, 2.0]).strong_convexity == 2.0


def test_its_name_tells_weights_apart_and_bad_ones_are_refused():
    assert repr(R) != repr(WeightedElasticNet(L1S, 2 * L2S))
    assert repr(R) == repr(WeightedElasticNet(L1S.tolist(), L2S.tolist()))
    for bad in ([-1.0, 0], [np.inf, 0], [[1.0]], []):
        with pytest.raises(ValueError, match="l2 of WeightedElasticNet must be finite weights >= 0"):
            WeightedElasticNet([1.0, 1.0], bad)
    with pytest.raises(ValueError, match="must be of one length; got 4 and 2"):
        WeightedElasticNet(L1S, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"v must have the 4 coordinates of WeightedElasticNet.*got shape \(6, 3\)"):
        R.prox(V[:, :3], 1.0)
    with pytest.raises(ValueError, match="slices must cover the 4 coordinates"):
        R.split([slice(0, 3)])
    assert L1(0.6).prox(V[:, :1], 0.5).tolist() == R.prox(V, 0.5)[:, :1].tolist()


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
