"""AdaptiveNEXT round by round: conserved sums, what agents know in the end, and fixed points."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import AdaptiveNEXT
from tests.helpers.problems import AGENTS, SCHEDULES, problem, smooth_optimum
from tests.helpers.turns import in_turn, with_slow

MLP = consensus.MLP([4, 3, 1])
PROBLEMS = {
    "MLP": lambda: problem("squared", consensus.L2(0.01), MLP, scheme="sizes"),
    "MLP, L1": lambda: problem("logistic", consensus.L1(0.01), MLP),
    "linear": lambda: problem("squared", consensus.L2(0.1)),
    "classes": lambda: problem("classes", consensus.L2(0.01)),
}
EVERY = SCHEDULES | {
    "path": topologies.Static(topologies.path(AGENTS)),
    "complete": topologies.Static(topologies.complete(AGENTS)),
    "matchings": topologies.Matchings(AGENTS, seed=1),
}


def states(p, schedule, rounds, w=None):
    """Yield all states of a run, the start included, and its network."""
    if w is None:
        w = 0.5 * np.random.default_rng(0).standard_normal((p.agents, p.parameters))
    network, solver = StackedNetwork(schedule, p.dtype), AdaptiveNEXT()
    state = solver.init(p, w)
    yield state, network
    for _ in range(rounds):
        state = solver.step(p, network, state)
        yield state, network


def gradients(p, w):
    """Return the gradients of ``A g_i + r`` where r is quadratic, else of ``A g_i``."""
    return p.agents * p.gradient(w) + (p.regularizer.gradient(w) if p.regularizer.quadratic else 0)


@pytest.mark.parametrize(("name", "schedule"), in_turn(PROBLEMS, EVERY, every=4))
def test_trackers_sum_to_the_gradients_and_states_say_what_was_done(name, schedule):
    p, largest, before = PROBLEMS[name](), 0.0, 0
    for state, network in states(p, EVERY[schedule], 30):
        gradient = gradients(p, state.w)
        np.testing.assert_allclose(state.gradient, gradient, rtol=1e-13, atol=1e-14)
        largest = max(largest, np.abs(gradient).max(), np.abs(state.tracker).max())  # whose rounding sums keep
        np.testing.assert_allclose(state.tracker.sum(axis=0), gradient.sum(axis=0), rtol=0, atol=1e-12 * largest)
        assert state.pace.mass.sum() == pytest.approx(AGENTS, rel=1e-13)
        assert (state.pace.mass > 0).all()
        tau, tries, refused = state.step.tau, state.step.tries, state.step.refused
        assert ((refused <= 4) & (tau > 0) & (tries <= 3) & ((tries >= 1) | (state.round == 0))).all()
        assert network.exchanges == state.pace.sent
        made = np.full(AGENTS, network.exchanges - before)
        np.testing.assert_array_equal(AdaptiveNEXT().report(state).T, [tau, tau, made, tries])
        np.testing.assert_array_equal(state.step.trial, state.w)
        before = network.exchanges
    assert state.round == 30


@pytest.mark.parametrize(
    "schedule", with_slow([name for name in EVERY if name != "directed, failing"], "failing", "random", "complete", "matchings")
)
def test_agents_agree_and_know_the_networks_gradient_in_the_end(schedule):
    p = PROBLEMS["linear"]()
    *_, (state, _) = states(p, EVERY[schedule], 90)
    np.testing.assert_allclose(state.w, np.tile(state.w[0], (AGENTS, 1)), rtol=0, atol=2e-8)
    mean = gradients(p, state.w).mean(axis=0)
    np.testing.assert_allclose(state.step.slope, np.tile(mean, (AGENTS, 1)), rtol=0, atol=1e-7)
    np.testing.assert_allclose(mean, 0, rtol=0, atol=1e-7)


# Fixed points


LINEAR = {loss: lambda loss=loss: problem(loss, consensus.L2(0.1)) for loss in ("squared", "logistic", "huber", "classes")}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "schedule"), in_turn(LINEAR, [*SCHEDULES, "complete"], every=4))
def test_it_comes_back_to_a_stationary_agreement(name, schedule):
    """Trackers begin as the agents' own gradients, by which everyone leaves first."""
    p, away = LINEAR[name](), 0.0
    everywhere = np.tile(smooth_optimum(p), (AGENTS, 1))
    rounds, near = (150, 1e-7) if schedule == "directed, failing" else (80, 1e-8)
    for state, _ in states(p, EVERY[schedule], rounds, everywhere):
        away = max(away, np.abs(state.w - everywhere).max())
    assert away > 1e-3
    np.testing.assert_allclose(state.w, everywhere, rtol=0, atol=near)


@pytest.mark.slow
def test_a_network_comes_back_to_its_minimum():
    """It has many minima; that it is not left for another says that only disagreement moves the agents."""
    p = problem("squared", consensus.L2(0.01), MLP)
    point = smooth_optimum(p, p.model.init(np.random.default_rng(1)))
    assert p.stationarity(point) < 1e-15
    *_, (state, _) = states(p, SCHEDULES["static"], 200, np.tile(point, (AGENTS, 1)))
    np.testing.assert_allclose(state.w, np.tile(point, (AGENTS, 1)), rtol=0, atol=1e-8)
