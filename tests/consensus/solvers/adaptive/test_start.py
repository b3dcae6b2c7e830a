"""The first exchanges of a run, in which agents move by what they know of their own costs."""

import numpy as np
import pytest
from problems import AGENTS, SCHEDULES, problem

import consensus
from consensus.engines.stacked import StackedNetwork
from consensus.packing import Quantised
from consensus.solvers import AdaptiveNEXT
from consensus.solvers.adaptive import start
from consensus.solvers.adaptive.averaging import MISFIT
from consensus.solvers.adaptive.costs import costs
from consensus.solvers.adaptive.first_exchanges import find_pace
from consensus.solvers.adaptive.gauss_newton import products
from consensus.solvers.adaptive.start import ROUNDS, Origin

MLP = consensus.MLP([4, 3, 1])


def after(rounds, p, schedule="static"):
    """All states of a run."""
    network, solver = StackedNetwork(SCHEDULES[schedule], p.dtype), AdaptiveNEXT()
    states = [solver.init(p, np.tile(p.model.init(np.random.default_rng(0)), (AGENTS, 1)))]
    for _ in range(rounds):
        states.append(solver.step(p, network, states[-1]))
    return states, network


def test_a_round_is_one_exchange_and_half_a_step_of_ones_own():
    p = problem("logistic", consensus.L2(0.02), MLP)
    (start, state, *_), network = after(1, p)
    assert network.exchanges == 2  # in the first of which agents name their neighbours
    W, local = SCHEDULES["static"].weights(0).toarray(), costs(p, start.trial)
    sent = Quantised.nearest(local.gradient, 12).unpack()
    mixed = W @ sent + local.gradient - sent
    np.testing.assert_allclose(state.w, W @ start.trial, rtol=0, atol=1e-15)
    # As linear systems of order P: H_i = A J_i' S_i J_i, known exactly, with the mixed tracker and the mean scale.
    slope, tau = AGENTS * mixed, 0.03 * W @ start.damping.scale
    for agent in range(AGENTS):
        H = AGENTS * start.curvature.products[agent] @ start.curvature.basis[agent].T
        d = -np.linalg.solve(H + (0.02 + tau[agent] * 2.0 ** max(0, state.damping.tries[agent] - 1)) * np.eye(19), slope[agent])
        np.testing.assert_allclose(state.trial[agent], state.w[agent] + d / 2, rtol=0, atol=1e-5)


@pytest.mark.parametrize("schedule", ["static", "random"])
def test_it_moves_from_the_first_exchange_on_and_sums_are_kept(schedule):
    p = problem("squared", consensus.L2(0.01), MLP)
    states, _ = after(ROUNDS + 1, p, schedule)
    values = [p.objective(state.w.mean(axis=0)) for state in states]
    assert values[ROUNDS] < 0.9 * values[0]
    for state in states:
        now = costs(p, state.trial)
        np.testing.assert_allclose(state.trackers.cost.sum(), now.cost.sum(), rtol=1e-12)
        np.testing.assert_allclose(state.trackers.gradient.sum(axis=0), now.gradient.sum(axis=0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("schedule", ["failing", "random"])
def test_on_changing_graphs_agents_find_on_their_way_the_pace_that_they_would_find_at_rest(schedule):
    p = problem("squared", consensus.L2(0.01), consensus.MLP([4, 12, 1]))
    rest = StackedNetwork(SCHEDULES[schedule], p.dtype)
    held, pace = find_pace(rest, np.ones((AGENTS, 1)), np.ones((AGENTS, 1)), MISFIT)
    states, network = after(held.exchanges + 1, p, schedule)
    assert [state.averaging.pace for state in states] == [-1] * held.exchanges + [pace] * 2
    assert network.exchanges == held.exchanges + pace
    *_, first, found, state = states
    np.testing.assert_allclose(first.averaging.search.probes, held.probes()[:, :-1], rtol=0, atol=1e-14)
    assert not found.averaging.search.probes.size
    widths = [x.curvature.basis.shape[2] for x in (first, found, state)]
    assert widths == [64, 73, 32]  # the first message to all has as many directions as parameters
    assert (found.curvature.products == products(p, found.trial, found.curvature.basis[0])).all()
    assert np.isinf(state.model.total).all()  # costs of scattered points are none at w
    assert not state.origin.w.size


def test_a_pace_that_is_not_found_in_time_is_found_at_rest(monkeypatch):
    p = problem("squared", consensus.L2(0.01), MLP)
    found = after(12, p, "random")[0][-1].averaging.pace
    monkeypatch.setattr(start, "MOST", 2)
    (*_, moved, rested), network = after(3, p, "random")
    assert [state.averaging.sent for state in (moved, rested)] == [2, network.exchanges]
    assert network.exchanges > 3
    assert rested.averaging.pace > 1
    assert not rested.averaging.search.probes.size
    assert found > 2


@pytest.mark.parametrize("schedule", ["directed", "directed, failing"])
def test_where_links_go_one_way_nobody_moves_alone(schedule):
    (start, state), network = after(1, problem("squared", consensus.L2(0.01), MLP), schedule)
    assert network.exchanges > 1
    assert not state.origin.w.size
    np.testing.assert_allclose(state.w, start.w, rtol=0, atol=1e-12)


def test_steps_on_a_changing_graph_become_shorter():
    """After forty rounds they are half as long."""
    p = problem("squared", consensus.L2(0.01), MLP)
    (_, state, *_), network = after(1, p, "random")
    now, later = (AdaptiveNEXT().step(p, network, state._replace(round=round)) for round in (0, 40))
    np.testing.assert_allclose(now.trial - now.w, 2 * (later.trial - later.w), rtol=1e-12)


def test_who_finds_the_costs_risen_goes_back():
    for regularizer, risen in ((consensus.L2(1.0), [False, True]), (consensus.L1(1.0), [True, True])):
        p = problem(regularizer=regularizer)
        w, trial = np.ones((2, 5)), np.full((2, 5), 7.0)
        origin = Origin(np.zeros((2, 5)), np.zeros((2, 1)))
        found = origin.or_back(p, w, trial, np.array([-1.0, 1.0]), np.zeros((2, 1)))  # |w|_1 has risen by five
        assert (found[:, 0] == 0).tolist() == risen
        assert origin.or_back(p, w, trial, np.ones(2), origin.forgotten().cost) is trial
