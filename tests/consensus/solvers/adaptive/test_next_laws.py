"""AdaptiveNEXT round by round: what its exchanges keep, and where it stays."""

import numpy as np
import pytest
from problems import AGENTS, SCHEDULES, data, problem, smooth_optimum
from threadpoolctl import threadpool_limits

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import AdaptiveNEXT
from consensus.solvers.adaptive.costs import Costs

MLP = consensus.MLP([4, 3, 1])
PROBLEMS = {
    "MLP": lambda: problem("squared", consensus.L2(0.01), MLP, scheme="sizes"),
    "MLP, L1": lambda: problem("logistic", consensus.L1(0.01), MLP),
    "linear": lambda: problem("squared", consensus.L2(0.1)),
    "classes": lambda: problem("classes", consensus.L2(0.01)),
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


def local(p, w):
    """The local costs and their gradients, with their share of a quadratic r."""
    share = 1 / p.agents if p.regularizer.quadratic else 0
    gradient = p.gradient(w) + (share * p.regularizer.gradient(w) if share else 0)
    return p.value(w) + share * p.regularizer.value(w), gradient


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_trackers_sum_to_the_costs_and_gradients_at_every_round(name, schedule):
    p, largest = PROBLEMS[name](), 0.0
    for state, _ in states(p, SCHEDULES[schedule], 25):
        cost, gradient = local(p, state.trial)
        np.testing.assert_allclose(state.local.cost, cost, rtol=1e-14, atol=0)
        np.testing.assert_allclose(state.local.gradient, gradient, rtol=1e-14, atol=1e-15)
        u, y = state.trackers
        # Sums keep the rounding of the largest numbers ever in them.
        largest = max(largest, np.abs(y).max(), np.abs(u).max())
        assert abs(u.sum() - cost.sum()) <= 1e-13 * max(1, largest)
        np.testing.assert_allclose(y.sum(axis=0), gradient.sum(axis=0), rtol=0, atol=1e-13 * max(1, largest))
        assert abs(state.averaging.mass.sum() - AGENTS) < 1e-13
        assert (state.averaging.mass > 0).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_agents_agree_and_know_the_networks_gradient_and_curvature_in_the_end(schedule):
    p = PROBLEMS["linear"]()
    *_, (state, network) = states(p, SCHEDULES[schedule], 60)
    np.testing.assert_allclose(state.w, np.tile(state.w[0], (AGENTS, 1)), rtol=0, atol=1e-12)
    costs, gradients = local(p, state.w)
    np.testing.assert_allclose(state.model.slope, np.tile(gradients.sum(axis=0), (AGENTS, 1)), rtol=0, atol=1e-11)
    np.testing.assert_allclose(state.model.total, costs.sum(), rtol=0, atol=1e-11)
    design = np.column_stack([data()[0], np.ones(60)])
    hessian = design.T @ design / 60
    trace = np.trace(hessian)
    if schedule == "static":  # averages of curvature are as rough as a round's few exchanges leave them
        assert AdaptiveNEXT().report(state)[:, 4].tolist() == [5.0] * AGENTS
    for V in state.model.H.V:
        np.testing.assert_allclose(V @ V.T, hessian, rtol=0, atol=0.1 * trace)
    assert network.exchanges == state.averaging.sent


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_state_says_what_was_done(schedule):
    *_, (state, network) = states(PROBLEMS["MLP"](), SCHEDULES[schedule], 15)
    assert state.round == 15
    pace = state.averaging.pace
    rounds = [2 * pace]  # what is known after K exchanges everyone knows after as many more
    if schedule in ("random", "failing"):  # in which agents move, where links go both ways
        rounds = 2 * pace * [1]
    if network.static:  # two rounds: the agents get to know the network, and find K
        D = StackedNetwork(SCHEDULES[schedule], np.float64).crossing(0)
        rounds = [2 * D, pace + D if pace > D else pace]
    if schedule == "static":  # all have news from all before agents have moved alone four times, but not at once
        rounds = [2, 1, 1, 1]
    assert network.exchanges == state.averaging.sent == sum(rounds) + (15 - len(rounds)) * pace
    tau, tries = state.damping.tau, state.damping.tries
    assert ((tries >= 1) & (tries <= 3)).all()
    report = AdaptiveNEXT().report(state)
    assert report.shape == (AGENTS, 5) == (AGENTS, len(AdaptiveNEXT.history_columns))
    np.testing.assert_array_equal(report[:, :4].T, [tau, tau, np.full(AGENTS, pace), tries])
    assert ((report[:, 4] >= 1) & (report[:, 4] <= 19)).all()


# Fixed points -------------------------------------------------------------------------------------------------------


def lasso_optimum(p, l1, l2=0.0):
    """The minimiser of the squared loss with L1 (and L2): coordinate descent, then the active set's linear system."""
    X, y = data()
    design = np.column_stack([X, np.ones(len(y))])
    H, c = design.T @ design / len(y) + l2 * np.eye(5), design.T @ y / len(y)
    w = np.zeros(5)
    for _ in range(500):
        for k in range(5):
            left = c[k] - H[k] @ w + H[k, k] * w[k]
            w[k] = np.sign(left) * max(abs(left) - l1, 0) / H[k, k]
    active = w != 0
    w[active] = np.linalg.solve(H[np.ix_(active, active)], (c - l1 * np.sign(w))[active])
    assert 0 < active.sum() < 5
    assert p.stationarity(w) < 1e-14
    return w


STATIONARY = {
    "MLP": lambda: ((p := problem("squared", consensus.L2(0.01), MLP)), polished(p)),
    "MLP, classes": lambda: ((p := problem("classes", consensus.L2(0.02), consensus.MLP([4, 3, 3]))), polished(p)),
    "ridge": lambda: ((p := problem("squared", consensus.L2(0.1))), smooth_optimum(p)),
    "logistic": lambda: ((p := problem("logistic", consensus.L2(0.1))), smooth_optimum(p)),
    "huber": lambda: ((p := problem("huber", consensus.L2(0.1))), smooth_optimum(p)),
    "lasso": lambda: ((p := problem("squared", consensus.L1(0.2))), lasso_optimum(p, 0.2)),
    "elastic net": lambda: ((p := problem("squared", consensus.ElasticNet(0.2, 0.1))), lasso_optimum(p, 0.2, 0.1)),
}


def polished(p):
    """A stationary point of a network by a run of L-BFGS and Newton's method on differences of gradients."""
    from scipy.optimize import minimize

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


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", STATIONARY)
def test_at_a_stationary_agreement_it_stays(name, schedule):
    """Of iterates, and of trackers, which are all the same."""
    p, point = STATIONARY[name]()
    network, solver, everywhere = StackedNetwork(SCHEDULES[schedule], p.dtype), AdaptiveNEXT(), np.tile(point, (AGENTS, 1))
    state = solver.init(p, everywhere)
    assert np.ptp(state.trackers.gradient, axis=0).max() > 0.02  # shards differ
    state = state._replace(trackers=Costs(*(np.broadcast_to(x.mean(axis=0), x.shape) for x in state.trackers)))
    for _ in range(40):
        state = solver.step(p, network, state)
        for where in (state.w, state.trial):
            np.testing.assert_allclose(where, everywhere, rtol=0, atol=1e-12, err_msg=f"round {state.round}")
        assert (state.trial[:, point == 0] == 0).all()


@pytest.mark.parametrize("name", STATIONARY)
def test_it_stays_where_one_round_averages_exactly(name):
    p, point = STATIONARY[name]()
    for state, _ in states(p, topologies.Static(topologies.complete(AGENTS)), 20, np.tile(point, (AGENTS, 1))):
        np.testing.assert_allclose(state.trial, np.tile(point, (AGENTS, 1)), rtol=0, atol=1e-12)


def test_agents_that_do_not_agree_or_are_not_stationary_move():
    p, point = STATIONARY["ridge"]()
    everywhere = np.tile(point, (AGENTS, 1))
    for w in (everywhere + 1e-3, everywhere + 1e-3 * np.arange(AGENTS)[:, None]):
        *_, (state, _) = states(p, SCHEDULES["static"], 3, w)
        assert np.abs(state.w - w).max() > 1e-4
