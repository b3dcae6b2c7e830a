"""How trials are judged: by hand, on models of one parameter."""

import numpy as np
import pytest
from problems import problem

import consensus
from consensus.solvers.adaptive.damping import Damping, Sent
from consensus.solvers.adaptive.quadratic import LowRank, Quadratic

SCALE = np.full(1, 10.0)


def judge(actual, refused=0, marked=None, regularizer=None, dtype=float, static=True):
    """A step from 0 to -1 of which the model promises a decrease of one: the costs' slope changes so that U does by ``actual``.

    The new total shows the same, or else ``marked``.
    """
    p = problem("squared", regularizer)
    old = Quadratic(np.array([5.0]), np.array([[1.0]]), LowRank.of(np.zeros((1, 1, 1))))  # G = 1: 1 * (-1) = -1
    slope = -2 * actual - 1  # the trapezoid: -(1 + slope) / 2 = actual
    new = Quadratic(
        5.0 + np.array([actual if marked is None else marked]), np.array([[slope]]), LowRank.of(np.zeros((1, 1, 1)))
    )
    before = Damping(np.ones(1, dtype), SCALE.astype(dtype), np.full(1, refused, dtype), np.zeros(1, dtype))
    return before.judged(p, np.zeros((1, 1)), old, -np.ones((1, 1)), new, static)


@pytest.mark.parametrize(
    ("actual", "factor"), [(-1.0, 1 / 3), (-0.8, 1 / 3), (-0.5, 1.0), (-0.3, 1.0), (-0.2, 2.0), (0.0, 2.0)]
)
def test_tau_follows_how_well_the_model_predicted(actual, factor):
    after = judge(actual)
    assert after.tau == pytest.approx(factor)
    assert after.refused == 0


def test_a_rise_is_refused_four_times_in_a_row():
    for before, after in ((0, 1), (1, 2), (3, 4), (4, 0)):
        found = judge(0.5, refused=before)
        assert found.refused == after
        assert found.tau == 4
    assert judge(-1.0, refused=3).refused == 0  # a decrease ends the row


def test_a_marked_rise_of_the_costs_counts_more_than_the_trapezoid():
    assert judge(-0.9, marked=1.0).refused == 1
    assert judge(-0.9, marked=0.004).refused == 0  # less than a thousandth of the costs
    assert judge(-0.9, marked=0.006).refused == 1
    assert judge(-0.9, marked=0.5, static=False).refused == 0  # less than a tenth
    assert judge(-0.9, marked=0.6, static=False).refused == 1


def test_a_regularizer_outside_of_the_costs_joins_them():
    """From 0 to -1 |w| rises by one as well, so that no decrease was promised: tau grows and nothing is refused."""
    after = judge(-1.0, regularizer=consensus.L1(1.0))
    assert (after.tau, after.refused) == (4, 0)
    assert judge(-1.0, regularizer=consensus.L1(0.5)).tau == pytest.approx(1 / 3)
    assert judge(-0.6, regularizer=consensus.L1(0.5)).tau == 2  # a tenth of a half


def test_single_precision_stays_single():
    assert {field.dtype for field in judge(0.5, dtype=np.float32)} == {np.dtype(np.float32)}


def test_the_mean_of_fourth_powers_is_near_the_largest():
    damping = Damping.at_start(np.array([10.0, 10.0, 10.0]), 0.5)._replace(tau=np.array([1.0, 1.0, 6.0]))
    sent = damping.sent()
    np.testing.assert_allclose(sent.power, [0.1**4, 0.1**4, 0.6**4])
    found = damping.agreed(Sent(*(np.full(3, block.mean()) for block in sent)))
    np.testing.assert_allclose(found.tau, ((1 + 1 + 6**4) / 3) ** 0.25, rtol=1e-12)
    assert 4.5 < found.tau[0] < 6


def test_estimates_that_are_not_positive_do_no_harm():
    damping = Damping.at_start(np.array([10.0]), 0.5)
    found = damping.agreed(Sent(np.array([-1.0]), np.array([-3.0])))
    assert found.scale == pytest.approx(1e-2)  # a thousandth of its own
    assert found.tau == pytest.approx(1e-7 * found.scale)


def test_tau_is_between_its_limits():
    damping = Damping.at_start(SCALE, 1.0)
    assert damping._replace(tau=np.array([11.0])).limited().tau == 10
    assert damping._replace(tau=np.array([1e-9])).limited().tau == pytest.approx(1e-6)
    assert damping._replace(tau=np.array([2.0])).limited().tau == 2


def test_at_the_start_no_scale_is_zero():
    damping = Damping.at_start(np.zeros(2), 3e-3)
    assert (damping.scale > 0).all()
    assert (damping.tau > 0).all()
    assert np.isfinite(damping.sent().power).all()
