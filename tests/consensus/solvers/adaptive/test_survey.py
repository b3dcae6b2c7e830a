"""Many agents: one polynomial of bounded degree, found before data are sent, in exchanges that are counted."""

import numpy as np
import pytest
from exchanges import CIRCLE, Rows, rows
from threadpoolctl import threadpool_limits

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import AdaptiveNEXT
from consensus.solvers.adaptive import averaging, chebyshev, first_exchanges, survey
from consensus.solvers.adaptive.averaging import Averaging, average


@pytest.fixture(autouse=True)
def one_thread():
    """As engines do: threads cost more than they bring in small systems."""
    with threadpool_limits(1):
        yield


def surveyed(schedule, target=0.01, tree=True):
    network = StackedNetwork(schedule, np.float64, strict=True)
    if not tree:
        network.tree = None
    state = survey.survey(network, Averaging.at_start(np.zeros((schedule.agents, 1))), target)
    return network, state


def test_the_polynomial_is_as_near_to_the_average_as_was_asked_and_none_of_lower_degree_is():
    schedule = topologies.Static(topologies.random_regular(300, 6, seed=0))
    network, state = surveyed(schedule, tree=False)
    K, start = state.pace, np.random.default_rng(5).standard_normal((300, 200))  # data that the survey has not seen
    start -= start.mean(axis=0)
    left = chebyshev.polynomial(network, 0, state.fit, start)
    assert np.linalg.norm(left) / np.linalg.norm(start) < 0.0105
    values = np.linalg.eigvalsh(schedule.weights(0).toarray())[:-1]
    powers = np.vander(values, K)  # of degree K - 1, one where W has its eigenvalue one: the least squares over eigenvalues
    steps = np.diff(powers, axis=1)
    assert np.linalg.norm(powers[:, -1] - steps @ np.linalg.lstsq(steps, powers[:, -1])[0]) > 0.0095 * np.sqrt(299)


def test_what_a_survey_sends_is_counted():
    schedule = topologies.Static(topologies.torus(15, 18))
    A, D, edges = 270, 16, 4 * 270
    network, state = surveyed(schedule)
    assert network.exchanges == state.sent == 4 * D + 128
    assert network.messages == (2 * D + 128) * edges + 2 * (A - 1)
    # Three sets of agents, a bit each, and four numbers; 16 probes; 257 moments along the tree.
    assert network.floats == edges * (2 * D * (3 * 5 + 4) + 128 * 16) + 2 * (A - 1) * 257


def test_without_symmetric_weights_agents_have_fits_of_their_own(monkeypatch):
    for module in (averaging, first_exchanges):
        monkeypatch.setattr(module, "PROBES", 5)
    schedule = topologies.Static(CIRCLE, weights=topologies.push)
    averaged, summed = rows(6)
    network = StackedNetwork(schedule, np.float64)
    for _ in range(3):
        news = average(network, Averaging.at_start(averaged.rows), averaged, summed)
    assert (news.state.fit.size, news.state.pace > 0) == (0, True)
    np.testing.assert_allclose(news.means.rows, np.tile(averaged.rows.mean(axis=0), (6, 1)), rtol=0, atol=1.0)


@pytest.fixture(scope="module")
def run():
    """States of a path of 1,000 agents, and what they minimise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 2))
    y = (X @ [1.0, -2.0] + 0.3 * rng.standard_normal(2000) > 0).astype(float)
    shards = consensus.partition(X, y, agents=1000, scheme="sorted")
    problem = consensus.Problem(consensus.Linear(2), consensus.LogisticLoss(), shards, consensus.L2(0.01))
    network, solver = StackedNetwork(topologies.Static(topologies.path(1000)), problem.dtype), AdaptiveNEXT()
    states = [solver.init(problem, np.zeros((1000, 3)))]
    with threadpool_limits(1):
        for _ in range(6):
            states.append(solver.step(problem, network, states[-1]))
    return problem, network, states


def test_a_path_of_a_thousand_agents_descends(run):
    problem, network, states = run
    values = [problem.objective(state.w.mean(axis=0)) for state in states]
    assert values[-1] < 0.7 * values[0]
    assert states[-1].averaging.pace == 128
    assert network.exchanges == states[-1].averaging.sent == 4 * 999 + 128 + 6 * 128


def test_there_too_trackers_sum_to_costs_and_gradients(run):
    problem, _, states = run
    for state in states[1:]:
        gradient = (problem.gradient(state.trial) + 1e-5 * state.trial).sum(axis=0)
        np.testing.assert_allclose(state.trackers.gradient.sum(axis=0), gradient, rtol=0, atol=1e-12)
        cost = (problem.value(state.trial) + 0.5e-5 * np.square(state.trial).sum(axis=1)).sum()
        np.testing.assert_allclose(state.trackers.cost.sum(), cost, rtol=0, atol=1e-12)


def test_nothing_is_kept_that_grows_with_the_exchanges(run, monkeypatch):
    _, _, states = run
    averaging, seen, exchange = states[-1].averaging, [], chebyshev.exchange
    assert averaging.fit.shape == (1000, 128)

    def recorded(network, round, history, beside=0):
        seen.append(len(history))
        return exchange(network, round, history, beside)

    monkeypatch.setattr(chebyshev, "exchange", recorded)
    network = StackedNetwork(topologies.Static(topologies.path(1000)), np.float64)
    for state in (averaging, Averaging.at_start(states[-1].w)):
        average(network, state, Rows(states[-1].w), Rows(states[-1].w))
    assert seen == [1, *[2] * 127] * 3  # a round; a survey and a round
