"""Real workers without a barrier: where they end, and what happens if one is slow, stopped, killed or wrong."""

import os
import signal
import threading
import time

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.asynchronous import ADPSGD, ASYSONATA, AsyncProcesses, Simulated
from consensus.asynchronous.board import Board
from consensus.solvers import DGD
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import AGENTS, CIRCLE, problem
from tests.helpers.unlike_quadratics import GRAPH, OPTIMUM, QUADRATICS, STEPS, B, H

pytestmark = pytest.mark.slow


def test_workers_end_at_the_optimum_and_count_what_they_do():
    options = {"start": np.ones(5), "tolerance": 1e-9, "engine": AsyncProcesses(2), "record_every": 100}
    result = consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=10**6, **options)
    history = result.history
    assert abs(result.w - OPTIMUM).max() < 1e-8
    rounds = history["round"][-1]
    assert history["wakes"][-1] >= 8 * rounds
    assert (np.diff(history["clock"]) > 0).all()
    assert (history["staleness"][1:] > 0).all()
    assert 8 * rounds <= history["messages"][-1] < 2 * history["wakes"][-1]  # two agents send two messages, the others one
    assert history["bytes"][-1] == 80 * history["messages"][-1]
    assert history["gradients"][-1] == pytest.approx(history["wakes"][-1] / 8, rel=0.05)
    assert history["wakes"][0] == 0
    assert history["objective"][0] == pytest.approx(QUADRATICS.objective(np.ones(5)))
    assert not history["lost"].any()


@pytest.mark.parametrize("batch", [None, 3])
def test_a_model_with_samples_in_shared_memory(batch):
    whole = problem(scheme="iid")
    solver = ASYSONATA(FullLinearization(30.0), 0.5, batch=batch)
    if batch is None:
        solver = ASYSONATA(PartialLinearization(0.3), 0.2)
    least = 1e-7 if batch is None else 0.1 * whole.stationarity(np.zeros(5))

    def near(info):
        return "near the optimum" if info.row["stationarity"] < least else None

    options = {"start": np.zeros(5), "engine": AsyncProcesses(2), "record_every": 100, "callbacks": [near]}
    result = consensus.solve(whole, CIRCLE, solver, rounds=10**6, **options)
    assert result.reason == "near the optimum"


def noted(file):
    """The quadratics' gradient, which notes in a file the number of the worker that has agent 7."""

    def gradient(w, rows):
        if 7 in rows and len(rows) < 8 and not file.exists():
            file.write_text(str(os.getpid()))
        return np.einsum("apq,aq->ap", H[rows], w) - B[rows]

    return gradient


@pytest.mark.filterwarnings("ignore:.*ended above its start")  # without half of the agents
@pytest.mark.parametrize(
    ("solver", "graph"), [(STEPS, GRAPH), (ADPSGD(0.01), nx.complete_graph(8))], ids=["ASYSONATA", "ADPSGD"]
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_is_killed_or_stopped_holds_nobody_up(tmp_path, number, solver, graph):
    file, hit = tmp_path / "worker", []
    watched = consensus.Problem.from_functions(QUADRATICS.value, noted(file), agents=8, parameters=QUADRATICS.parameters)

    def strike(info):
        if info.round >= 50 and not hit:
            os.kill(int(file.read_text()), number)
            hit.append(info.round)

    options = {"start": 5 * np.ones(5), "engine": AsyncProcesses(2), "record_every": 10, "callbacks": [strike]}
    if number == signal.SIGKILL:
        with pytest.warns(UserWarning, match=r"worker 1 \(agents 4 to 7\) died after \d+ wakes \(exit code -9\): the others"):
            result = consensus.solve(watched, graph, solver, rounds=3000, **options)
    else:
        result = consensus.solve(watched, graph, solver, rounds=3000, **options)
    assert hit
    assert result.history["round"][-1] == 3000
    assert np.isfinite(result.w).all()
    if solver.pairs:  # the others go to the optimum of their own costs
        assert abs(result.w[:4] - np.linalg.solve(H[:4].sum(axis=0), B[:4].sum(axis=0))).max() < 0.6


def test_a_slow_agent_holds_nobody_up():
    def gradient(w, rows):
        if 7 in rows:
            time.sleep(0.2)
        return 2 * (w - np.asarray(rows)[:, None])

    slow = consensus.Problem.from_functions(
        lambda w, rows: ((w - rows[:, None]) ** 2).sum(axis=1), gradient, agents=8, parameters=2
    )
    result = consensus.solve(slow, GRAPH, ASYSONATA(FullLinearization(16.0), 0.2), rounds=150, engine=AsyncProcesses(4))
    assert result.history["clock"][-1] < 0.5 * 150 * 0.2
    assert result.history["staleness"].max() > 0.1


def test_an_error_of_a_worker_is_raised_with_the_history():
    def gradient(w, rows):
        if abs(w).max() < 0.5:
            raise RuntimeError("too small")
        return w

    odd = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1) / 2, gradient, agents=8, parameters=2)
    with pytest.raises(RuntimeError, match="too small") as caught:
        consensus.solve(
            odd, GRAPH, ASYSONATA(FullLinearization(8.0), 0.2), rounds=10**6, start=np.ones(2), engine=AsyncProcesses(2)
        )
    assert caught.value.history.rows >= 1


def test_divergence_is_an_error():
    with pytest.raises(consensus.DivergenceError):
        consensus.solve(QUADRATICS, GRAPH, ASYSONATA(FullLinearization(0.01), 1.0), rounds=10**6, engine=AsyncProcesses(2))


def test_what_it_cannot_do_is_refused(tmp_path):
    whole = problem()
    with pytest.raises(TypeError, match="AsyncProcesses runs solvers without rounds, and DGD has rounds"):
        consensus.solve(whole, topologies.ring(AGENTS), DGD(0.01), rounds=1, engine=AsyncProcesses(2))
    with pytest.raises(ValueError, match=r"writes and resumes no checkpoints: Simulated\(\) does"):
        consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=1, engine=AsyncProcesses(2), checkpoint=tmp_path / "run")


def test_readers_never_see_halves():
    """What is read is whole, whichever of the two copies is being written: here by another thread all the time."""
    board, ended = Board([np.zeros((2, 1000)), np.zeros((2, 1))]), threading.Event()

    def write():
        number = 0
        while not ended.is_set():
            number += 1
            board.publish(np.arange(2), [np.full((2, 1000), number), np.full((2, 1), number)])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(3000):
            (values, last), _ = board.read(np.array([[0, 1]]), slice(None))
            assert (values == last).all()
    finally:
        ended.set()
        thread.join()
    assert board.published[0] > 100


def test_simulated_and_real_workers_agree_on_the_end():
    options = {"rounds": 10**6, "tolerance": 1e-11, "record_every": 100}
    ends = [
        consensus.solve(QUADRATICS, GRAPH, STEPS, engine=engine, **options).mean
        for engine in (Simulated((0.5, 1.5)), AsyncProcesses(3))
    ]
    np.testing.assert_allclose(*ends, atol=1e-10)
