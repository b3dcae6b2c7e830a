"""AdaptiveNEXT round by round: what its exchanges keep, what agents know in the end, and where it comes back to."""

import numpy as np
import pytest
from problems import AGENTS, SCHEDULES, problem, smooth_optimum
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits
from turns import in_turn

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import AdaptiveNEXT

MLP = consensus.MLP([4, 3, 1])
PROBLEMS = {
    "MLP": lambda: problem("squared", consensus.L2(0.01), MLP, scheme="sizes"),
    "MLP, L1": lambda: problem("logistic", consensus.L1(0.01), MLP),
    "linear": lambda: problem("squared", consensus.L2(0.1)),
    "classes": lambda: problem("classes", consensus.L2(0.01)),
}
EVERY = SCHEDULES | {
    "path": topologies.Static(topologies.path(AGENTS)),
    "matchings": topologies.Matchings(AGENTS, seed=1),
}


@pytest.fixture(autouse=True)
def one_thread():
    """As engines do: threads cost more than they bring in small systems."""
    with threadpool_limits(1):
        yield


def states(p, schedule, rounds, w=None):
    """All states of a run, the start included, and its network."""
    if w is None:
        w = 0.5 * np.random.default_rng(0).standard_normal((p.agents, p.parameters))
    network, solver = StackedNetwork(schedule, p.dtype), AdaptiveNEXT()
    state = solver.init(p, w)
    yield state, network
    for _ in range(rounds):
        state = solver.step(p, network, state)
        yield state, network


def gradients(p, w):
    """Of ``A g_i + r`` where r is quadratic, of ``A g_i`` otherwise."""
    return p.agents * p.gradient(w) + (p.regularizer.gradient(w) if p.regularizer.quadratic else 0)


@pytest.mark.parametrize("schedule", EVERY)
@pytest.mark.parametrize("name", PROBLEMS)
def test_trackers_sum_to_the_gradients_at_every_round(name, schedule):
    p, largest = PROBLEMS[name](), 0.0
    for state, _ in states(p, EVERY[schedule], 30):
        gradient = gradients(p, state.w)
        np.testing.assert_allclose(state.gradient, gradient, rtol=1e-13, atol=1e-14)
        largest = max(largest, np.abs(gradient).max(), np.abs(state.tracker).max())  # whose rounding sums keep
        np.testing.assert_allclose(state.tracker.sum(axis=0), gradient.sum(axis=0), rtol=0, atol=1e-12 * largest)
        assert state.pace.mass.sum() == pytest.approx(AGENTS, rel=1e-13)
        assert (state.pace.mass > 0).all()
        assert (state.step.refused <= 4).all()
        assert (state.step.tau > 0).all()


@pytest.mark.parametrize("schedule", [name for name in EVERY if name != "directed, failing"])
def test_agents_agree_and_know_the_networks_gradient_in_the_end(schedule):
    p = PROBLEMS["linear"]()
    *_, (state, network) = states(p, EVERY[schedule], 90)
    np.testing.assert_allclose(state.w, np.tile(state.w[0], (AGENTS, 1)), rtol=0, atol=2e-8)
    mean = gradients(p, state.w).mean(axis=0)
    np.testing.assert_allclose(state.step.slope, np.tile(mean, (AGENTS, 1)), rtol=0, atol=1e-7)
    np.testing.assert_allclose(mean, 0, rtol=0, atol=1e-7)
    assert network.exchanges == state.pace.sent


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_state_says_what_was_done(schedule):
    *_, (before, _), (state, network) = states(PROBLEMS["MLP"](), SCHEDULES[schedule], 15)
    assert state.round == 15
    assert network.exchanges == state.pace.sent == 8 + 2 * 7
    tau, tries = state.step.tau, state.step.tries
    assert ((tries >= 1) & (tries <= 3)).all()
    report = AdaptiveNEXT().report(state)
    assert report.shape == (AGENTS, 4) == (AGENTS, len(AdaptiveNEXT.history_columns))
    np.testing.assert_array_equal(report.T, [tau, tau, np.full(AGENTS, before.pace.length), tries])
    np.testing.assert_array_equal(state.step.trial, state.w)


# Fixed points


def polished(p):
    """A stationary point of a network by a run of BFGS and Newton's method on differences of gradients."""

    def gradient(point):
        return p.total_gradient(point) + p.regularizer.gradient(point)

    point = minimize(p.objective, p.model.init(np.random.default_rng(1)), jac=gradient, method="BFGS").x
    for _ in range(8):
        steps = np.eye(len(point)) * 1e-5
        hessian = np.array([(gradient(point + e) - gradient(point - e)) / 2e-5 for e in steps])
        point = point - np.linalg.solve(hessian, gradient(point))
    assert np.linalg.eigvalsh((hessian + hessian.T) / 2).min() > 1e-4
    assert p.stationarity(point) < 1e-15
    return point


STATIONARY = {
    "ridge": lambda: ((p := problem("squared", consensus.L2(0.1))), smooth_optimum(p)),
    "logistic": lambda: ((p := problem("logistic", consensus.L2(0.1))), smooth_optimum(p)),
    "huber": lambda: ((p := problem("huber", consensus.L2(0.1))), smooth_optimum(p)),
    "classes": lambda: ((p := problem("classes", consensus.L2(0.1))), smooth_optimum(p)),
    "MLP": lambda: ((p := problem("squared", consensus.L2(0.01), MLP)), polished(p)),
}
BACK = {"directed, failing": (150, 1e-7)}  # rounds, and how near to the point


@pytest.mark.parametrize(
    ("name", "schedule"), in_turn([name for name in STATIONARY if name != "MLP"], [*SCHEDULES, "complete"], every=4)
)
def test_from_a_stationary_agreement_it_comes_back(name, schedule):
    """Trackers begin as the agents' own gradients, which send everyone away first."""
    network = SCHEDULES.get(schedule) or topologies.Static(topologies.complete(AGENTS))
    (p, point), (rounds, near), away = STATIONARY[name](), BACK.get(schedule, (80, 1e-8)), 0.0
    for state, _ in states(p, network, rounds, np.tile(point, (AGENTS, 1))):
        away = max(away, np.abs(state.w - point).max())
    assert away > 1e-3
    np.testing.assert_allclose(state.w, np.tile(point, (AGENTS, 1)), rtol=0, atol=near)


def test_a_network_comes_back_to_its_minimum():
    """One of many: that it is not left for another says that nothing but disagreement moves the agents."""
    p, point = STATIONARY["MLP"]()
    *_, (state, _) = states(p, SCHEDULES["static"], 200, np.tile(point, (AGENTS, 1)))
    np.testing.assert_allclose(state.w, np.tile(point, (AGENTS, 1)), rtol=0, atol=1e-8)


def test_agents_that_do_not_agree_or_are_not_stationary_move():
    p, point = STATIONARY["ridge"]()
    everywhere = np.tile(point, (AGENTS, 1))
    for w in (everywhere + 1e-3, everywhere + 1e-3 * np.arange(AGENTS)[:, None]):
        *_, (state, _) = states(p, SCHEDULES["static"], 3, w)
        assert np.abs(state.w - w).max() > 1e-4
