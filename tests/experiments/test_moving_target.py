"""The moving target: minimisers and the best fixed point are those of the costs, regrets those by hand; a tiny study."""

import numpy as np
import pytest
from scipy.optimize import minimize

import consensus
from consensus.solvers import DGD
from experiments import moving_target


def test_its_minimisers_are_those_of_its_costs_and_the_fixed_point_is_the_best_in_hindsight():
    problem, _, _ = moving_target.case(0, 0.1)
    for round in (0, 7):
        moment = problem.at(round)
        gradient = moment.gradient(np.tile(moment.minimiser(), (problem.agents, 1))).sum(axis=0)
        np.testing.assert_allclose(gradient, 0, atol=1e-14)
    moments = [problem.at(round) for round in range(moving_target.ROUNDS + 1)]
    found = minimize(lambda w: sum(moment.objective(w) for moment in moments), np.zeros(problem.parameters), tol=1e-12)
    np.testing.assert_allclose(problem.comparator, found.x, atol=1e-6)


def test_regrets_a_round_are_those_by_hand():
    problem, network, options = moving_target.case(1, 0.1)
    visited = []
    result = consensus.solve(
        problem, network, DGD(0.4), rounds=5, callbacks=[lambda row: visited.append(row.w.mean(axis=0))], **options
    )
    moments = [problem.at(round) for round in range(6)]
    paid = [moment.objective(w) for moment, w in zip(moments, visited, strict=True)]
    own = np.mean([cost - moment.objective(moment.minimiser()) for cost, moment in zip(paid, moments, strict=True)])
    fixed = np.mean([cost - moment.objective(problem.comparator) for cost, moment in zip(paid, moments, strict=True)])
    np.testing.assert_allclose(moving_target.dynamic_regret_a_round(result), own, rtol=1e-12)
    np.testing.assert_allclose(moving_target.regret_a_round(result), fixed, rtol=1e-12)


@pytest.mark.slow
def test_a_tiny_version_has_a_row_for_every_method_and_a_figure(tmp_path):
    found = moving_target.study(tmp_path, rounds=4, seeds=2, tuning_seeds=1).run()
    shown = found.table().to_markdown()
    assert all(name in shown for name in moving_target.solvers())
    assert len(moving_target.figure(found).axes) == len(moving_target.SPEEDS)
