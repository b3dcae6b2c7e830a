"""Robots: the study's problem has the minimiser that CVXPY finds; a tiny study."""

import cvxpy as cp
import numpy as np
import pytest

import consensus
from consensus.solvers import AggregativeGT
from experiments import robots


def test_robots_come_to_the_minimiser_of_all():
    problem, network, options = robots.case(0, "complete")
    intruders = -problem.gradients(np.zeros((robots.ROBOTS, 2)), np.zeros((robots.ROBOTS, 2)))[0]
    x = cp.Variable(intruders.shape)
    barycentre = cp.sum(x, axis=0) / robots.ROBOTS
    cost = (cp.sum_squares(x - intruders) + 4 * robots.ROBOTS * cp.sum_squares(barycentre)) / 2
    central = cp.Problem(cp.Minimize(cost), [cp.abs(x) <= 4])
    central.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    result = consensus.solve(problem, network, AggregativeGT(0.15), rounds=200, **{**options, "record_every": 200})
    np.testing.assert_allclose(result.w, x.value, atol=1e-5)
    assert result.history["objective"][-1] == pytest.approx(central.value, rel=1e-9)
    assert np.abs(x.value).max() > 3.99  # some of them reach the edge


@pytest.mark.slow
def test_a_tiny_version_has_a_row_for_every_method(tmp_path):
    for measure in robots.MEASURES:
        found = robots.study(tmp_path, measure, rounds=30, seeds=2, tuning_seeds=1, graphs=["complete"]).run()
        assert all(name in found.table().to_markdown() for name in robots.solvers())
    assert len(robots.figure(found).axes) == 1
