"""Chunks of agents: all are covered once, whatever the threads, and BLAS is left as it was found."""

import os
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import consensus
import topologies
from consensus._arrays.parallel import for_chunks
from consensus.solvers import NEXT
from consensus.step_sizes import Constant
from consensus.surrogates import PartialLinearization

HUGE = 1 << 40  # bytes an agent: every agent is a chunk of its own


@pytest.fixture
def cores(monkeypatch):
    """Let chunks use up to four threads, on a machine with fewer cores too."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(4)), raising=False)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("bytes_per_agent", [0, 1, 1 << 10, 1 << 18, (1 << 20) - 1, (2 << 20) - 1, HUGE])
@pytest.mark.parametrize("agents", [0, 1, 2, 7, 64, 1001])
def test_chunks_cover_all_agents_exactly_once(cores, agents, bytes_per_agent, threads):
    visits, chunks = np.zeros(agents, int), []

    def chunk(rows):
        visits[rows] += 1
        chunks.append((rows.start, rows.stop, rows.step))

    with threadpool_limits(threads, user_api="blas"):
        for_chunks(chunk, agents, bytes_per_agent)
    assert visits.tolist() == [1] * agents
    ordered = sorted(chunks)
    assert all(start < stop and step is None for start, stop, step in ordered)
    assert [stop for _, stop, _ in ordered[:-1]] == [start for start, _, _ in ordered[1:]]
    if bytes_per_agent == HUGE:
        assert len(chunks) == agents


def test_chunks_run_on_as_many_threads_as_blas_was_allowed(cores):
    for threads in (1, 2, 4):
        everybody, names = threading.Barrier(threads, timeout=30), set()

        def chunk(rows, everybody=everybody, names=names):
            everybody.wait()  # only passes if that many chunks are under way at once
            names.add(threading.get_ident())

        with threadpool_limits(threads, user_api="blas"):
            for_chunks(chunk, 4, HUGE)
        assert len(names) == threads
        assert threading.get_ident() in names


def test_results_do_not_depend_on_chunks_or_threads(cores, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((9 * 31, 12)), rng.standard_normal(9 * 31)
    shards = consensus.partition(X, y, agents=9, scheme="dirichlet", seed=0, concentration=2.0)
    model = consensus.MLP([12, 17, 1])
    schedule = topologies.Static(topologies.ring(9))
    start = model.init(rng)
    users = [
        module for name, module in list(sys.modules.items()) if name.startswith("consensus.") and hasattr(module, "for_chunks")
    ]
    users.remove(consensus._arrays.parallel)
    assert consensus.problems.curvature in users

    def outcome(bytes_per_agent):
        """The bits of a short run, when an agent is taken to touch that many bytes."""

        def in_chunks(function, agents, *_, **__):
            for_chunks(function, agents, bytes_per_agent)

        for module in users:
            monkeypatch.setattr(module, "for_chunks", in_chunks)
        problem = consensus.Problem(model, consensus.SquaredLoss(), shards, consensus.L2(0.01))
        result = consensus.solve(problem, schedule, NEXT(PartialLinearization(1.0), Constant(0.2)), rounds=2, start=start)
        return [array.tobytes() for array in (result.w, problem.value(result.w), problem.gradient(result.w))]

    with threadpool_limits(1, user_api="blas"):
        expected = outcome(0)
    for threads in (1, 2, 4):
        for bytes_per_agent in (0, 500 << 10, HUGE):  # all agents at once, a few, one
            with threadpool_limits(threads, user_api="blas"):
                assert outcome(bytes_per_agent) == expected


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("failing", [0, 3, 8])
def test_an_exception_in_a_chunk_reaches_the_caller(cores, failing, threads):
    error = LookupError(f"agent {failing}")

    def chunk(rows):
        if rows.start == failing:
            raise error

    with threadpool_limits(threads, user_api="blas"):
        with pytest.raises(LookupError) as caught:
            for_chunks(chunk, 9, HUGE)
        assert caught.value is error
        visits = np.zeros(9, int)
        for_chunks(lambda rows: visits.__setitem__(rows, visits[rows] + 1), 9, HUGE)  # and the next call is unharmed
    assert visits.tolist() == [1] * 9


@pytest.mark.parametrize("where", ["caller", "helper"])
def test_an_exception_of_any_thread_reaches_the_caller(cores, where):
    caller, both = threading.get_ident(), threading.Barrier(2, timeout=30)

    def chunk(rows):
        both.wait()
        if (threading.get_ident() == caller) == (where == "caller"):
            raise LookupError(where)

    with threadpool_limits(2, user_api="blas"), pytest.raises(LookupError, match=where):
        for_chunks(chunk, 2, HUGE)


@pytest.mark.parametrize("slow", [0, 1])
def test_no_chunk_is_under_way_any_more_when_an_exception_arrives(cores, slow):
    caller, all_three, finished = threading.get_ident(), threading.Barrier(3, timeout=30), []
    helpers = iter(range(2))

    def chunk(rows):
        order = None if threading.get_ident() == caller else next(helpers)
        all_three.wait()
        if order != slow:
            raise LookupError
        time.sleep(0.1)
        finished.append(True)

    with threadpool_limits(3, user_api="blas"), pytest.raises(LookupError):
        for_chunks(chunk, 3, HUGE)
    assert finished == [True]


def test_the_callers_error_state_holds_in_every_chunk(cores):
    both, states = threading.Barrier(2, timeout=30), []

    def chunk(rows):
        both.wait()
        states.append(np.geterr()["divide"])

    with threadpool_limits(2, user_api="blas"):
        for wanted in ("raise", "ignore"):
            with np.errstate(divide=wanted):
                for_chunks(chunk, 2, HUGE)
    assert states == ["raise", "raise", "ignore", "ignore"]
