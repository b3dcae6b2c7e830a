"""AD-PSGD, an event of two agents, and overlap SGP, whose messages are added up."""

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.asynchronous import ADPSGD, AsyncProcesses, OverlapSGP, Simulated
from consensus.asynchronous.meetings import Meetings
from consensus.asynchronous.timetable import Timetable
from tests.helpers.problems import AGENTS, GRAPH, problem
from tests.helpers.unlike_quadratics import GRAPH as DIRECTED
from tests.helpers.unlike_quadratics import OPTIMUM, QUADRATICS, events

NETWORK = topologies.Static(GRAPH)


def meetings(solver, simulated):
    whole = problem()
    start = np.random.default_rng(0).standard_normal((AGENTS, whole.parameters))
    return whole, Meetings(whole, NETWORK, solver, Timetable.of(simulated, NETWORK), start)


def test_two_agents_take_their_mean_and_one_of_them_steps_along_its_stale_gradient():
    whole, running = meetings(ADPSGD(0.05), Simulated([1.0, 1.5, 2.0, 1.1, 0.7, 1.3]))
    for _ in range(50):
        before, copies = running.state.w.copy(), running.state.copy.copy()
        (i,) = running.advance(1)
        (j,) = [k for k in range(AGENTS) if k != i and (running.state.w[k] != before[k]).any()]
        assert GRAPH.has_edge(i, j)
        mean = (before[i] + before[j]) / 2
        np.testing.assert_allclose(running.state.w[j], mean, rtol=1e-14)
        np.testing.assert_allclose(running.state.w[i], mean - 0.05 * whole.average_gradient(copies)[i], rtol=1e-12)
        np.testing.assert_array_equal(running.state.copy[i], running.state.w[i])
        np.testing.assert_array_equal(running.state.copy[j], copies[j])  # it computes on at its old copy


def test_an_exchange_takes_a_message_there_and_one_back():
    _, running = meetings(ADPSGD(0.05), Simulated(1.0, 0.25))
    times = []
    while running.number[2] < 5:
        (i,) = running.advance(1)
        times += [running.clock[2]] if i == 2 else []
    np.testing.assert_allclose(times, [1, 2.5, 4, 5.5, 7])


def test_if_a_message_is_lost_nobody_averages():
    _, running = meetings(ADPSGD(1e-9), Simulated(loss=0.5))
    still = 0
    for _ in range(400):
        before = running.state.w.copy()
        (i,) = running.advance(1)
        still += (np.delete(running.state.w, i, axis=0) == np.delete(before, i, axis=0)).all()
    assert still == sum(running.lost)
    assert 0.65 < still / 400 < 0.85  # one of two messages


def test_partners_are_drawn_evenly():
    _, running = meetings(ADPSGD(0.01), Simulated())
    met = {}
    for _ in range(3000):
        before = running.state.w.copy()
        (i,) = running.advance(1)
        for k in range(AGENTS):
            if k != i and (running.state.w[k] != before[k]).any():
                met[i, k] = met.get((i, k), 0) + 1
    for i in range(AGENTS):
        counts = [met[i, j] for j in GRAPH.neighbors(i)]
        assert min(counts) > 0.75 * sum(counts) / len(counts)


@pytest.mark.slow
def test_it_ends_near_the_optimum_in_proportion_to_the_step():
    whole = problem()
    errors = [
        consensus.solve(whole, NETWORK, ADPSGD(step), rounds=4000, engine=Simulated((0.5, 1.5)), record_every=4000).history[
            "stationarity"
        ][-1]
        for step in (0.02, 0.005)
    ]
    assert errors[1] < 0.35 * errors[0] < 0.35


def test_masses_of_overlap_sgp_are_kept_whatever_the_delays():
    running = events(OverlapSGP(0.01, every=2), Simulated((0.5, 1.5), (0.0, 10.0)))
    for _ in range(150):
        running.advance(3)
        on_their_way = sum(messages.mass[row, 0] for inbox in running.inbox for *_, messages, row in inbox)
        assert running.state.mass.sum() + on_their_way == pytest.approx(8, rel=1e-12)
    assert running.sent.sum() == pytest.approx(sum(DIRECTED.out_degree(i) * (running.number[i] // 2) for i in range(8)))


def test_overlap_sgp_without_delay_is_a_loop_over_agents_in_turn():
    x, mass, w = np.ones((8, 5)), np.ones(8), np.ones((8, 5))
    waiting = np.zeros((8, 6))
    for _ in range(15):
        for i in range(8):
            share = 1 / (1 + DIRECTED.out_degree(i))
            x[i], mass[i] = share * (x[i] - 0.01 * QUADRATICS.average_gradient(w)[i]), share * mass[i]
            for j in DIRECTED.successors(i):
                waiting[j] += [*x[i], mass[i]]
            x[i], mass[i], waiting[i] = x[i] + waiting[i, :5], mass[i] + waiting[i, 5], 0
            w[i] = x[i] / mass[i]
    running = events(OverlapSGP(0.01), Simulated())
    while running.done < 15 * 8:
        running.advance(1)
    np.testing.assert_allclose(running.state.w, w, rtol=1e-10)


@pytest.mark.slow
def test_overlap_sgp_ends_near_the_optimum_in_proportion_to_the_step():
    late, errors = Simulated(delay=(0.0, 5.0)), []
    for step in (0.001, 0.0005):
        result = consensus.solve(QUADRATICS, DIRECTED, OverlapSGP(step), rounds=4000, engine=late, record_every=4000)
        errors.append(abs(result.w - OPTIMUM).max())
    assert errors[1] < 0.65 * errors[0] < 0.2


@pytest.mark.parametrize("solver", [ADPSGD(0.02, batch=3), OverlapSGP(0.02, batch=3)], ids=repr)
def test_a_run_goes_on_from_a_checkpoint_with_equal_bits(tmp_path, solver):
    whole, options = problem(scheme="iid"), {"engine": Simulated((0.5, 1.5), (0.0, 2.0))}
    once = consensus.solve(whole, NETWORK, solver, rounds=12, **options)
    consensus.solve(whole, NETWORK, solver, rounds=5, checkpoint=tmp_path / "run", **options)
    again = consensus.solve(whole, NETWORK, solver, rounds=12, resume=tmp_path / "run", **options)
    assert again.w.tobytes() == once.w.tobytes()
    assert once.history["samples"][-1] < 0.5 * 60 * 12


def test_what_they_cannot_bear_is_refused():
    with pytest.raises(ValueError, match="OverlapSGP loses mass with each message: give loss=0"):
        consensus.solve(QUADRATICS, DIRECTED, OverlapSGP(0.01), rounds=1, engine=Simulated(loss=0.1))
    with pytest.raises(TypeError, match="AsyncProcesses has the newest message of each agent alone"):
        consensus.solve(QUADRATICS, DIRECTED, OverlapSGP(0.01), rounds=1, engine=AsyncProcesses(2))
    with pytest.raises(ValueError, match="ADPSGD averages with a neighbour: give a network of two agents or more"):
        ADPSGD(0.01).matrices(topologies.Static(nx.empty_graph(1)))
