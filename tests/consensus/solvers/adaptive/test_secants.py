"""Pairs of steps and changes, on quadratics whose Hessian they must show."""

import numpy as np

import consensus
from consensus.solvers.adaptive.blocks import Nothing
from consensus.solvers.adaptive.news import News
from consensus.solvers.adaptive.secants import Secants

AGENTS, P = 3, 30
RNG = np.random.default_rng(0)
ROOT = RNG.standard_normal((P, P)) / P**0.5
H = ROOT @ ROOT.T + np.eye(P)


def problem(regularizer=None):
    """All agents have the same quadratic."""
    value, gradient = (lambda w: np.einsum("ap,pq,aq->a", w, H, w) / 2), (lambda w: w @ H)
    return consensus.Problem.from_functions(value, gradient, agents=AGENTS, parameters=P, regularizer=regularizer)


def with_pair(pairs, round, step):
    """The V that a step shows, and all pairs."""
    (V, _), pairs = pairs.of_network(problem(), None, round, News(0, Nothing(), None, step, step @ H, None, None))
    return V, pairs


def after(rounds, pairs=None):
    """Pairs of so many rounds, and the last V."""
    pairs = pairs or Secants.at_start(problem(), np.zeros((AGENTS, P)))
    for round in range(rounds):
        step = RNG.standard_normal((AGENTS, P))
        V, pairs = with_pair(pairs, round, step)
    return V, pairs


def test_the_first_round_brings_none():
    V, pairs = after(1)
    assert not V.any()
    assert not any(block.any() for block in pairs)


def test_each_round_brings_one_of_unit_length_and_the_oldest_goes():
    for rounds, kept in ((2, 1), (10, 9), (30, 20)):
        _, (steps, changes) = after(rounds)
        assert steps.shape == changes.shape == (AGENTS, P, 20)
        length = np.linalg.norm(steps, axis=1)
        assert ((np.abs(length[:, -kept:] - 1)) < 1e-12).all()
        assert (length[:, : 20 - kept] == 0).all()
        np.testing.assert_allclose(changes, np.einsum("pq,aqk->apk", H, steps), rtol=0, atol=1e-12)


def test_v_has_the_hessian_along_the_steps():
    V, (steps, changes) = after(12)
    np.testing.assert_allclose(V @ (V.swapaxes(1, 2) @ steps), changes, rtol=0, atol=1e-4)
    assert np.linalg.eigvalsh(H - V[0] @ V[0].T).min() > -1e-8


def test_a_step_of_no_length_is_a_pair_of_zeros():
    pairs = after(5)[1]
    nothing = np.zeros((AGENTS, P))
    V, pairs = with_pair(pairs, 5, nothing)
    assert not any(block[:, :, -1].any() for block in pairs)
    assert np.isfinite(V).all()


def test_the_scale_is_the_curvature_along_the_own_gradient():
    for regularizer, weight in ((None, 0.0), (consensus.L2(0.6), 0.6)):
        p, w = problem(regularizer), RNG.standard_normal((AGENTS, P))
        gradient = w @ H + weight / AGENTS * w
        scale, share = Secants.at_start(p, w).scale(p, w, gradient)
        along = gradient / np.linalg.norm(gradient, axis=1, keepdims=True)
        expected = AGENTS * np.linalg.norm(along @ H + weight / AGENTS * along, axis=1)
        np.testing.assert_allclose(scale, expected, rtol=1e-6)
        assert share == 1


def test_at_a_stationary_point_any_direction_serves():
    p, w = problem(), np.zeros((AGENTS, P))
    scale, _ = Secants.at_start(p, w).scale(p, w, np.zeros_like(w))
    np.testing.assert_allclose(scale, AGENTS * np.linalg.norm(H @ np.full(P, P**-0.5)), rtol=1e-6)
