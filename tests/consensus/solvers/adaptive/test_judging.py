"""How steps are judged: against the statements of the docstring, agent by agent, and by hand on one parameter."""

import numpy as np
import pytest
from problems import AGENTS, problem

import consensus
from consensus.solvers.adaptive import judging
from consensus.solvers.adaptive.curvature import Curvature
from consensus.solvers.adaptive.judging import Step, judge, limited

P = 5


def by_statement(r, last, w, slope, M, weight, settled, agent):
    """Whether an agent's step is refused, its factor, and whether what it says of the curvature counts."""
    old, new, x, M = last.w[agent], w[agent], last.trial[agent], M[agent]
    s, c = new - old, new - x
    rise = 0.0 if r.quadratic else float(r.value(new) - r.value(old))
    actual = s @ (last.slope[agent] + slope[agent]) / 2 + rise
    promised = s @ last.slope[agent] + s @ (M + weight * np.eye(P)) @ s / 2 + rise
    agreed = c @ (M + last.tau[agent] * np.eye(P)) @ c <= last.fall[agent]
    ratio = actual / promised if promised < 0 else -1.0
    factor = 0.5 if ratio > 0.75 else 1.0
    if (agreed or settled[agent]) and ratio < 0.25:
        factor = 4.0 if ratio < 0 else 2.0
    refused = promised < 0 and actual > 0 and last.refused[agent] < 4
    change = slope[agent] - last.slope[agent] - weight * s
    counts = not refused and s @ change > max(0, 0.2 * s @ M @ s) and change @ change < np.trace(M) * (s @ change)
    return refused, factor, counts


@pytest.mark.parametrize("regularizer", [consensus.L2(0.3), consensus.L1(0.3), None], ids=["L2", "L1", "none"])
def test_verdicts_are_those_of_the_docstring(regularizer):
    """Of many draws, steps short and long, agents near and far from each other."""
    p, rng, seen = problem("logistic", regularizer), np.random.default_rng(0), []
    weight = 0.3 if isinstance(regularizer, consensus.L2) else 0.0
    for _ in range(200):
        V = rng.standard_normal((AGENTS, P, 4)) / 2
        M = V @ V.swapaxes(1, 2)
        w, s, old = rng.standard_normal((3, AGENTS, P))
        s = rng.choice([0.1, 0.5], (AGENTS, 1)) * (s - old)
        near = w + s + rng.choice([0.01, 2.0], (AGENTS, 1)) * rng.standard_normal((AGENTS, P))
        tau, fall = rng.uniform(0.1, 1, AGENTS), rng.uniform(0.1, 1, AGENTS)
        last = Step(w, old, near, fall, tau, rng.integers(0, 6, AGENTS).astype(float), np.ones(AGENTS))
        settled = rng.random(AGENTS) < 0.5
        slope = old + rng.uniform(-1, 3, (AGENTS, 1)) * np.einsum("apq,aq->ap", M, s) + 0.1 * rng.standard_normal((AGENTS, P))
        found = judge(
            p,
            last,
            w + s,
            slope,
            Curvature(V, np.trace(M, axis1=1, axis2=2), np.zeros(AGENTS)),
            np.trace(M, axis1=1, axis2=2),
            weight,
            settled,
        )
        for agent in range(AGENTS):
            expected = by_statement(p.regularizer, last, w + s, slope, M, weight, settled, agent)
            assert (found.refused[agent], found.factor[agent], found.told[agent]) == expected
            seen.append(expected)
        norm = np.linalg.norm(s, axis=1)[:, None]
        np.testing.assert_allclose(found.step[:, :, 0], s / norm, rtol=1e-12)
        np.testing.assert_allclose(found.change[:, :, 0], (slope - old - weight * s) / norm, rtol=1e-12, atol=1e-12)
    refused, factor, counts = map(np.array, zip(*seen, strict=True))
    assert 30 < refused.sum() < len(seen) - 30
    assert 30 < counts.sum() < len(seen) - 30
    assert set(factor.tolist()) == {0.5, 1.0, 2.0, 4.0}


def single(actual, refused=0.0, apart=0.0, settled=False, regularizer=None, dtype=float, curved=0.0):
    """The verdict of a step from 0 to -1 of which the model promises a decrease of one, and the slope shows ``actual``."""
    slope = -2 * actual - 1  # the trapezoid: -(1 + slope) / 2 = actual
    one = np.ones(1)
    last = Step(*(np.array([[x]], dtype) for x in (0.0, 1.0 + curved / 2, -1 - apart)), one, one, refused * one, one)
    M = Curvature(np.sqrt(curved) * np.ones((1, 1, 1)), 10 * one, one)
    return judge(
        problem("squared", regularizer),
        last,
        np.array([[-1.0]], dtype),
        np.array([[slope - curved / 2]], dtype),
        M,
        10 * one,
        0.0,
        np.array([settled]),
    )


@pytest.mark.parametrize(
    ("actual", "factor"),
    [(-2.0, 0.5), (-0.76, 0.5), (-0.74, 1.0), (-0.26, 1.0), (-0.24, 2.0), (-0.01, 2.0), (0.01, 4.0), (1.0, 4.0)],
)
def test_tau_follows_how_well_the_model_predicted(actual, factor):
    found = single(actual)
    assert found.factor == factor
    assert found.refused == (actual > 0)


@pytest.mark.parametrize("actual", [-0.1, 0.5])
def test_where_agents_disagree_by_more_than_the_step_tau_stays_until_they_settled(actual):
    """p^2 is the square of the distance between the agent's trial point and the mean: the fall and tau are one."""
    assert single(actual, apart=0.99).factor == (2 if actual < 0 else 4)
    assert single(actual, apart=1.01).factor == 1
    assert single(actual, apart=1.01, settled=True).factor == (2 if actual < 0 else 4)
    assert single(actual, apart=1.01).refused == (actual > 0)
    assert single(-1.0, apart=9.0).factor == 0.5  # a good step is one nevertheless


def test_four_steps_in_a_row_are_refused_at_most():
    assert [bool(single(0.5, refused=before).refused[0]) for before in range(7)] == [True] * 4 + [False] * 3
    assert single(0.5, refused=4).factor == 4


def test_without_a_promise_nothing_is_refused():
    """From 0 to -1 |w| rises by one, and more than the slope falls."""
    found = single(-0.5, regularizer=consensus.L1(1.5))
    assert (found.refused, found.factor) == (False, 4)
    assert single(-1.0, regularizer=consensus.L1(0.5)).factor == 0.5
    assert single(-0.55, regularizer=consensus.L1(0.5)).factor == 2  # a tenth of a half


def test_curvature_counts_from_a_fifth_of_what_is_known_and_up_to_the_scale():
    # Along the step the slope changes by -2 actual - 2; the model says ``curved``.
    assert single(-0.45, curved=1.0).told.tolist() == [(2 - 0.9 + 1.0) / 1 < 10]
    for curved, change, told in (
        (1.0, 0.21, True),
        (1.0, 0.19, False),
        (1.0, -1.0, False),
        (0.0, 9.9, True),
        (0.0, 10.1, False),
    ):
        one = np.ones(1)
        last = Step(np.zeros((1, 1)), -np.ones((1, 1)) - curved / 2, np.ones((1, 1)), one, one, 4 * one, one)
        slope = last.slope + change
        found = judge(
            problem("squared"),
            last,
            np.ones((1, 1)),
            slope,
            Curvature(np.sqrt(curved) * np.ones((1, 1, 1)), 10 * one, one),
            10 * one,
            0.0,
            one > 0,
        )
        assert found.told.tolist() == [told]
        assert found.change[0, 0, 0] == pytest.approx(change, rel=1e-12)


def test_no_step_says_nothing():
    one, w = np.ones(1), np.ones((1, 1))
    last = Step(w, w, w, one, one, 0 * one, one)
    found = judge(problem("squared"), last, w, w, Curvature(np.ones((1, 1, 1)), one, one), one, 0.0, one > 0)
    assert (found.refused, found.told) == (False, False)
    assert np.isfinite(found.step).all()
    assert np.isfinite(found.change).all()


def test_tau_has_limits_in_units_of_the_curvature():
    scale = np.array([10.0, 10.0, 10.0, 1e-3])
    found = limited(np.array([11.0, 1e-9, 2.0, 1.0]), scale)
    np.testing.assert_allclose(found, [10.0, 1e-6, 2.0, 1e-3], rtol=1e-12)
    assert judging.FIRST <= judging._MOST
