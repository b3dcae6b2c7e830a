"""Asynchronous DGD and robust push-sum: by hand, where they end, and what they keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import consensus
import topologies
from consensus.asynchronous import RASGP, AsynchronousDGD, Simulated
from consensus.asynchronous.events import Events
from consensus.asynchronous.timetable import Timetable
from consensus.solvers import DGD
from consensus.step_sizes import Diminishing, InverseSqrt
from tests.helpers.problems import AGENTS, CIRCLE, GRAPH, problem
from tests.helpers.unlike_quadratics import GRAPH as DIRECTED
from tests.helpers.unlike_quadratics import OPTIMUM, QUADRATICS, C, L, events

NETWORK = topologies.Static(GRAPH)


def test_dgd_without_delay_is_a_loop_over_agents_in_turn():
    whole, w = problem(), np.ones((AGENTS, 5))
    W = NETWORK.weights(0).toarray()
    for _ in range(20):
        for i in range(AGENTS):
            w[i] = W[i] @ w - 0.05 * whole.average_gradient(w)[i]
    result = consensus.solve(whole, NETWORK, AsynchronousDGD(0.05), rounds=20, start=np.ones(5), engine=Simulated())
    np.testing.assert_allclose(result.w, w, rtol=1e-12)


@pytest.mark.slow
def test_dgd_ends_where_rounds_end_whatever_the_delays():
    whole = problem()
    step = 1.9 * NETWORK.weights(0).diagonal().min() / whole.lipschitz().max()
    rounds = consensus.solve(whole, NETWORK, DGD(step), rounds=3000, record_every=3000)
    for late in (Simulated((0.5, 1.5), (0.0, 10.0), 0.3), Simulated([1.0] * 5 + [10.0], 5.0)):
        result = consensus.solve(whole, NETWORK, AsynchronousDGD(step), rounds=4000, engine=late, record_every=4000)
        np.testing.assert_allclose(result.w, rounds.w, atol=1e-8)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(delay=st.sampled_from([0.0, (0.0, 10.0)]), loss=st.floats(0, 0.6), seed=st.integers(0, 100))
def test_masses_are_kept_at_every_event(delay, loss, seed):
    running = events(RASGP(Diminishing(0.05, 0.1)), Simulated((0.5, 1.5), delay, loss, seed=seed))
    for _ in range(100):
        running.advance(3)
        state, total = running.state, running.state.y.sum()
        for i, row in enumerate(running.arcs.sources):
            for place, j in enumerate(row):
                if j >= 0:
                    total += state.sum_y[j, 0] - state.seen_y[i, place, 0]
        assert total == pytest.approx(8, rel=1e-12)


def test_an_agents_time_is_the_largest_that_it_has_heard_of():
    running = events(RASGP(Diminishing(0.002, 0.1)), Simulated([1.0] * 4 + [5.0] * 4, (0.0, 3.0), 0.3))
    for _ in range(150):
        before = running.state.time.copy()
        (i,) = running.advance(1)
        heard = running.mailbox.time[i, : running.sources[i], 0]
        assert running.state.time[i, 0] == max(before[i, 0], heard.max()) + 1
        assert running.state.before[i, 0] == before[i, 0]
    assert (running.state.time[:, 0] > running.state.wakes + 1)[4:].any()  # who wakes rarely hears of others' wakes


def test_push_without_delay_is_a_loop_over_agents_in_turn():
    """Without losses sums are what plain push-sum sends; agents hear of all wakes but those of some after them."""
    x, y, w = np.ones((8, 5)), np.ones(8), np.ones((8, 5))
    waiting, masses = np.zeros((8, 5)), np.zeros(8)
    before, times = np.zeros(8, int), np.ones(8, int)
    heard = np.zeros((8, 8), int)
    steps = Diminishing(0.002, 0.1)
    for _ in range(15):
        for i in range(8):
            step = sum(steps(k) for k in range(before[i], times[i]))
            x[i] = C[i, i] * (x[i] - step * QUADRATICS.average_gradient(w)[i])
            y[i] *= C[i, i]
            for j in DIRECTED.successors(i):
                waiting[j] += x[i]
                masses[j] += y[i]
                heard[j, i] = times[i]
            x[i], y[i], waiting[i], masses[i] = x[i] + waiting[i], y[i] + masses[i], 0, 0
            w[i] = x[i] / y[i]
            before[i], times[i] = times[i], max(times[i], heard[i].max()) + 1
    running = events(RASGP(steps), Simulated())
    while running.done < 15 * 8:
        running.advance(1)
    np.testing.assert_allclose(running.state.w, w, rtol=1e-10)


@pytest.mark.slow
def test_push_comes_to_the_optimum_with_falling_steps():
    late, errors = Simulated((0.5, 1.5), (0.0, 2.0), 0.3), []
    for rounds in (500, 2000):
        solver = RASGP(InverseSqrt(0.1 / (8 * L)))
        result = consensus.solve(QUADRATICS, DIRECTED, solver, rounds=rounds, engine=late, record_every=rounds)
        errors.append(abs(result.w - OPTIMUM).max())
    assert errors[1] < 0.5 * errors[0] < 0.05


@pytest.mark.parametrize("solver", [AsynchronousDGD(0.02, batch=3), RASGP(Diminishing(0.02, 0.1), batch=3)], ids=repr)
def test_batches_are_of_an_agent_s_own_wakes(tmp_path, solver):
    whole, network = problem(scheme="iid"), NETWORK if isinstance(solver, AsynchronousDGD) else CIRCLE
    late = Simulated((0.5, 1.5), (0.0, 2.0), 0.1)
    options = {"engine": late, "record_every": 3}
    once = consensus.solve(whole, network, solver, rounds=12, **options)
    consensus.solve(whole, network, solver, rounds=6, checkpoint=tmp_path / "run", **options)
    again = consensus.solve(whole, network, solver, rounds=12, resume=tmp_path / "run", **options)
    assert again.w.tobytes() == once.w.tobytes()
    assert once.history["samples"][-1] < 0.5 * 60 * 12
    schedule = network if network is NETWORK else topologies.Static(network, weights=topologies.push)
    running = Events(whole, schedule, solver, Timetable.of(late, schedule), np.ones((AGENTS, 5)))
    while running.done < 40:
        running.advance(1)
    np.testing.assert_array_equal(running.state.wakes, running.number)
