"""Chunks of agents are covered once; BLAS is right in place, on one thread inside chunks, and left as it was found."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

import consensus
import topologies
from consensus._arrays import parallel as _parallel
from consensus._arrays.parallel import for_chunks, one_blas_thread
from consensus.kernels import blas as _blas
from consensus.solvers import NEXT
from consensus.step_sizes import Constant
from consensus.surrogates import PartialLinearization

HUGE = 1 << 40  # bytes an agent: every agent is a chunk of its own


@pytest.fixture
def cores(monkeypatch):
    """Let chunks use up to four threads, on a machine with fewer cores too."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(4)), raising=False)


def blas_threads():
    """The number of threads of every BLAS library that is loaded."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blas_has_one_thread_inside_and_its_own_number_again_outside(cores, threads):
    inside = []
    with threadpool_limits(threads, user_api="blas"):
        before = blas_threads()
        assert max(before) == threads  # some libraries know only one
        for_chunks(lambda rows: inside.append(blas_threads()), 5, HUGE)
        assert blas_threads() == before
        with one_blas_thread, one_blas_thread:
            inside.append(blas_threads())
        assert blas_threads() == before
    assert np.unique(inside).tolist() == [1]


def test_blas_threads_are_restored_after_an_exception(cores):
    with threadpool_limits(3, user_api="blas"):
        before = blas_threads()
        with pytest.raises(ZeroDivisionError), one_blas_thread:
            1 / 0  # noqa: B018
        assert blas_threads() == before
        for agents in (1, 6):
            with pytest.raises(ZeroDivisionError):
                for_chunks(lambda rows: 1 / 0, agents, HUGE)
            assert blas_threads() == before


@pytest.mark.parametrize("leaving", [False, True])
def test_blas_threads_are_restored_after_ctrl_c_on_the_way_in_or_out(cores, monkeypatch, leaving):
    give_up, calls = _parallel._give_up_control, []

    def interrupted():
        calls.append(True)
        give_up()
        if len(calls) == 1 + leaving:
            raise KeyboardInterrupt

    monkeypatch.setattr(_parallel, "_give_up_control", interrupted)
    with threadpool_limits(3, user_api="blas"):
        before = blas_threads()
        with pytest.raises(KeyboardInterrupt), one_blas_thread:
            assert leaving
        assert blas_threads() == before
        with one_blas_thread:
            assert set(blas_threads()) == {1}
        assert blas_threads() == before


@pytest.mark.parametrize("failure", [None, LookupError], ids=["leaving", "failing"])
@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "limited"])
@pytest.mark.parametrize("order", ["mMtT", "tTmM", "mtMT", "mtTM", "tmMT", "tmTM", "mmtMTM", "tmtTMT"])
def test_the_last_to_leave_restores_blas_whichever_thread_it_is(order, limited, failure):
    # m and t: the main and another thread enter; M and T: they leave.
    entered = {"m": [], "t": []}

    def enter(who):
        entered[who].append(one_blas_thread)
        entered[who][-1].__enter__()

    def leave(who):
        entered[who].pop().__exit__(failure, failure and failure(), None)

    untouched, held, heeded, controlled = blas_threads(), [], True, limited  # by the main thread's own limit
    with ThreadPoolExecutor(1) as other, threadpool_limits(3 if limited else None, user_api="blas"):
        before = blas_threads()
        for step in order:
            act, who = (enter if step.islower() else leave), step.lower()
            if not any(entered.values()):
                heeded = who == "m" or not controlled
                controlled = controlled and not heeded
            if who == "m":
                act(who)
            else:
                other.submit(act, who).result()
            held.append((blas_threads(), heeded and any(entered.values())))
    assert blas_threads() == untouched  # the limit that was set around it is lifted too
    assert held == [([1] * len(before) if inside else before, inside) for _, inside in held]


def test_two_threads_work_at_once_and_leave_blas_alone(cores):
    totals = np.zeros((2, 200), int)

    def work(row):
        for _ in range(20):
            for_chunks(lambda rows: totals[row].__setitem__(rows, totals[row][rows] + 1), 200, HUGE)

    with threadpool_limits(3, user_api="blas"):
        before = blas_threads()
        both = [threading.Thread(target=work, args=(row,)) for row in range(2)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(60)
        assert not any(thread.is_alive() for thread in both)
        assert blas_threads() == before
    np.testing.assert_array_equal(totals, 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "settings"),
    [({}, [0, 2]), ({"CONSENSUS_KEEP_MEMORY": "1"}, [2, 2]), ({"CONSENSUS_KEEP_MEMORY": "0"}, [0, 0])],
)
@pytest.mark.parametrize("malloc", [{}, {"MALLOC_ARENA_MAX": "2"}], ids=str)
def test_only_workers_keep_freed_memory_unless_asked(environment, settings, malloc):
    script = (
        "import ctypes\n"
        "from consensus._arrays.parallel import keep_freed_memory, one_blas_thread\n"
        "settings, load = [], ctypes.CDLL\n"
        "class Library:\n"
        "    def mallopt(self, *setting): settings.append(setting)\n"
        "ctypes.CDLL = lambda name, **more: load(name, **more) if name else Library()\n"
        "for _ in range(2):\n"
        "    with one_blas_thread: pass\n"
        "print(len(settings))\n"
        "keep_freed_memory()\n"  # as workers do
        "print(len(settings))\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "CONSENSUS_"))}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=clean | environment | malloc, capture_output=True, text=True, check=True)
    assert list(map(int, done.stdout.split())) == ([0, 0] if malloc else settings)


# Chunks of agents: all are covered once, whatever the threads, and BLAS is left as it was found.


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


# Products and factors in place, against NumPy and SciPy.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("n", "k"), [(1, 3), (64, 1), (65, 1), (128, 2), (129, 4), (300, 7), (150, 0)])
def test_squares_are_products_with_the_transpose(n, k, transposed, dtype):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2, k, n)).swapaxes(1, 2) if transposed else rng.standard_normal((2, n, k))
    rows, tolerance = rows.astype(dtype), 10 * np.finfo(dtype).eps
    product = np.triu(rows.astype(float) @ rows.astype(float).swapaxes(1, 2))
    np.testing.assert_allclose(np.triu(_blas.squares(rows)), product, rtol=tolerance, atol=tolerance)
    total = np.ones_like(product, dtype)
    assert _blas.squares(rows, out=total) is total
    np.testing.assert_allclose(np.triu(total), np.triu(product + 1), rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 5, 150])
def test_a_factor_needs_the_upper_triangle_only(n, dtype):
    rng = np.random.default_rng(0)
    rows, right = rng.standard_normal((n, n)), rng.standard_normal(n).astype(dtype)
    matrix = (rows @ rows.T + np.eye(n)).astype(dtype)
    factor, solution = np.where(np.triu(np.ones((n, n))), matrix, np.nan).astype(dtype), right.copy()
    assert _blas.cholesky(factor)
    upper = np.triu(factor.astype(float))
    scale = n * np.finfo(dtype).eps * np.linalg.norm(matrix)
    np.testing.assert_allclose(upper.T @ upper, matrix, rtol=0, atol=scale)
    _blas.solve(factor, solution)
    expected = scipy.linalg.solve_triangular(upper, scipy.linalg.solve_triangular(upper, right, trans="T"))
    np.testing.assert_allclose(solution, expected, rtol=0, atol=np.linalg.cond(matrix) * n * np.finfo(dtype).eps)


def test_a_matrix_that_is_not_definite_has_no_factor():
    assert not _blas.cholesky(np.diag([1.0, -1.0, 1.0]))


def test_an_empty_matrix_is_its_own_factor(capfd):
    assert _blas.cholesky(np.empty((0, 0)))
    _blas.solve(np.empty((0, 0)), np.empty(0))
    assert capfd.readouterr() == ("", "")
