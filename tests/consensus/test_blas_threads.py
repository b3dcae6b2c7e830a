"""BLAS runs on one thread inside chunks, and is left as it was found."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from consensus._arrays import parallel as _parallel
from consensus._arrays.parallel import for_chunks, one_blas_thread

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
        with one_blas_thread(), one_blas_thread():
            inside.append(blas_threads())
        assert blas_threads() == before
    assert np.unique(inside).tolist() == [1]


def test_blas_threads_are_restored_after_an_exception(cores):
    with threadpool_limits(3, user_api="blas"):
        before = blas_threads()
        with pytest.raises(ZeroDivisionError), one_blas_thread():
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
        with pytest.raises(KeyboardInterrupt), one_blas_thread():
            assert leaving
        assert blas_threads() == before
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert blas_threads() == before


@pytest.mark.parametrize("failure", [None, LookupError], ids=["leaving", "failing"])
@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "limited"])
@pytest.mark.parametrize("order", ["mMtT", "tTmM", "mtMT", "mtTM", "tmMT", "tmTM", "mmtMTM", "tmtTMT"])
def test_the_last_to_leave_restores_blas_whichever_thread_it_is(order, limited, failure):
    # m and t: the main and another thread enter; M and T: they leave.
    entered = {"m": [], "t": []}

    def enter(who):
        entered[who].append(one_blas_thread())
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
        "    with one_blas_thread(): pass\n"
        "print(len(settings))\n"
        "keep_freed_memory()\n"  # as workers do
        "print(len(settings))\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "CONSENSUS_"))}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=clean | environment | malloc, capture_output=True, text=True, check=True)
    assert list(map(int, done.stdout.split())) == ([0, 0] if malloc else settings)
