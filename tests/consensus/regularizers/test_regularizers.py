"""Convex regularizers: what they do beside the contract of consensus.testing, which tests/consensus/testing runs for each."""

import numpy as np
import pytest

from consensus import MLP, Linear
from consensus.regularizers import L1, L2, SCAD, Box, ElasticNet, GroupL1, L2Ball, LogSum, NonNegative, WeightedElasticNet
from tests.helpers.every_regularizer import ALL, GROUPS, P

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
