"""Workers start and end in order: ctrl-C, processes, memory or files that run out, scripts."""

import errno
import gc
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import reduction, resource_tracker, spawn
from pathlib import Path

import numpy as np
import pytest

from consensus.asynchronous import AsynchronousDGD, AsyncProcesses
from consensus.engines import Processes
from consensus.workers import groups
from tests.helpers import engine_cases
from tests.helpers.engine_harness import HERE, Traces, assert_same, environment, living, read, start, wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")


@pytest.mark.slow
def test_ctrl_c_reaches_workers_too_but_ends_the_run_in_order(mark, tmp_path):
    path = tmp_path / "run.ckpt"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = start(HERE / "engine_run.py", tmp_path, 2, 0.02, mark=mark, **pipes)  # not over before the signal comes
    wait_for(path.exists)
    time.sleep(0.3)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    said, complaints = run.communicate(timeout=60)
    assert (run.returncode, complaints, living(mark)) == (0, "", [])
    result = read(tmp_path / "result.npz")
    assert f"stopped by the user after round {result.rounds};" in said
    assert f"resume={str(path)!r}" in said
    assert 0 < result.rounds < 500
    np.testing.assert_array_equal(result.w, engine_cases.slow().run(rounds=result.rounds).w)
    assert_same(engine_cases.slow().run(resume=path), engine_cases.slow().run())


@pytest.mark.slow
def test_ctrl_c_while_workers_start_leaves_none(mark, tmp_path):
    run = start(HERE / "engine_run.py", tmp_path, 3, 0.002, mark=mark, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(living(mark, helpers=False)) > 1)
    os.killpg(run.pid, signal.SIGINT)
    run.wait(60)
    wait_for(lambda: not living(mark))


def test_ctrl_c_between_the_making_of_the_lock_and_its_registration_leaves_none(case, mark, monkeypatch):
    register = resource_tracker.register

    def interrupted(name, kind):
        signal.raise_signal(signal.SIGINT)
        register(name, kind)

    monkeypatch.setattr(resource_tracker, "register", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # where a shell has started pytest in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            case.run(engine=Processes(3))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    gc.collect()  # the lock's own end; the fixture looks for what is left


@pytest.mark.slow
def test_a_worker_that_cannot_be_started_takes_the_others_along(case, mark, monkeypatch):
    context = multiprocessing.get_context("spawn")
    begin, started = context.Process.start, []

    def short_of_processes(process):
        if started:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        started.append(process)
        begin(process)

    monkeypatch.setattr(context.Process, "start", short_of_processes)
    with pytest.raises(BlockingIOError):
        case.run(engine=Processes(3))
    assert [process.is_alive() for process in started] == [False]


NAMELESS = ["memfd_create", "posix_fallocate", "sched_getaffinity"]


def test_a_system_that_cannot_share_memory_says_so(case, monkeypatch):
    for module, name in (*((os, name) for name in NAMELESS), (reduction, "DupFd")):
        monkeypatch.delattr(module, name)
    with pytest.raises(NotImplementedError, match=r"Processes needs memory without a name.*engine='stacked'"):
        case.run(engine="processes")
    assert np.isfinite(case.run().w).all()


def test_a_system_without_nameless_memory_shares_files(case, forked, mark, monkeypatch):
    for name in NAMELESS:
        monkeypatch.delattr(os, name)
    assert_same(case.run(engine=Processes(2)), case.run())


def descriptors():
    gc.collect()
    return sorted(os.listdir("/proc/self/fd"))


@pytest.mark.slow
def test_full_shared_memory_is_refused_before_anything_starts(case, mark, monkeypatch):
    def full(descriptor, offset, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    resource_tracker.ensure_running()  # Python's own, whose pipe stays open once there are processes
    before = descriptors()
    with monkeypatch.context() as device:
        device.setattr(os, "posix_fallocate", full)
        with pytest.raises(MemoryError, match=r"no room for \d+ MB of memory shared.*No space left.*engine='stacked'"):
            case.run(engine=Processes(2))
    assert multiprocessing.active_children() == []
    assert descriptors() == before
    assert_same(case.run(engine=Processes(2)), case.run())  # and once there is room again it works


@pytest.mark.slow
def test_runs_keep_no_file_open(case, forked, mark):
    case.run(engine=Processes(2))
    before = descriptors()
    case.run(engine=Processes(3))
    with pytest.raises(engine_cases.Trouble):
        case._replace(solver=engine_cases.Faulty(0.02)).run(engine=Processes(2))
    assert descriptors() == before


SCRIPT = """
from tests.helpers import engine_cases
from consensus.solvers import DGD

print("once")

class Mine(DGD):
    def step(self, problem, network, state):
        return super().step(problem, network, state)._replace(round=state.round + 1)

case = engine_cases.special()["functions, DGD"]._replace(solver=Mine(lambda n: 0.1 / (n + 1)))
print((case.run().w == case.run(engine="processes").w).all())
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["file", "-"])
def test_a_script_without_a_main_guard(how, mark, tmp_path):
    (tmp_path / "file").write_text(SCRIPT)
    options = {"capture_output": True, "text": True, "timeout": 60, "env": environment(), "check": False, "cwd": tmp_path}
    done = subprocess.run([sys.executable, how], input=SCRIPT if how == "-" else None, **options)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["once", "True"], "")


THREADS = """
import threading
from tests.helpers import engine_cases
from consensus.engines import Processes

print("once")
before, case, equal = (__spec__, __file__), engine_cases.special()["functions, DGD"], []

def job():
    equal.append((case.run(engine=Processes(2)).w == case.run().w).all())

threads = [threading.Thread(target=job) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(all(equal), len(equal), (__spec__, __file__) == before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [["script.py"], ["-m", "script"]])
def test_threads_of_a_script_without_a_main_guard(options, mark, tmp_path):
    (tmp_path / "script.py").write_text(THREADS)
    run = {"capture_output": True, "text": True, "timeout": 300, "check": False, "cwd": tmp_path}
    done = subprocess.run([sys.executable, *options], env=environment(), **run)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["once", "True", "4", "True"], "")


def test_the_script_is_left_out_for_this_thread_alone(monkeypatch):
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", None)
    monkeypatch.setattr(main, "__file__", __file__, raising=False)
    keys, before = {"init_main_from_name", "init_main_from_path", "start_method"}, spawn.get_preparation_data
    with groups._script_not_rerun(), ThreadPoolExecutor(1) as other:
        assert not keys & set(spawn.get_preparation_data("ours"))
        assert other.submit(spawn.get_preparation_data, "theirs").result()["init_main_from_path"] == __file__
        assert (main.__spec__, main.__file__) == (None, __file__)
    assert spawn.get_preparation_data is before


POOLS = """
import multiprocessing, joblib
from tests.helpers import engine_cases
from concurrent.futures import ProcessPoolExecutor

def job(number):
    case = engine_cases.special()["functions, DGD"]
    try:
        return bool((case.run(engine="processes").w == case.run().w).all())
    except RuntimeError as error:
        return str(error)

if __name__ == "__main__":
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        print(*pool.map(job, range(2)))
    print(*joblib.Parallel(2)(joblib.delayed(job)(number) for number in range(2)))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(*pool.map(job, range(1)))
"""


@pytest.mark.slow
def test_inside_workers_of_pools(mark, tmp_path):
    (tmp_path / "script.py").write_text(POOLS)
    run = {"capture_output": True, "text": True, "timeout": 300, "check": False, "cwd": tmp_path}
    done = subprocess.run([sys.executable, "script.py"], env=environment(), **run)
    executor, loky, pool = done.stdout.splitlines()
    assert (executor, loky) == ("True True", "True True")
    assert pool.startswith("a daemonic process, such as a worker of multiprocessing.Pool, cannot start worker processes: use ")


@pytest.mark.parametrize("engine", ["processes", "asynchronous"])
def test_daemonic_processes_are_told_what_to_do(engine, case, mark, monkeypatch):
    case = case if engine == "processes" else case._replace(solver=AsynchronousDGD(0.05))
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    with pytest.raises(RuntimeError, match=r"daemonic process.*ProcessPoolExecutor in place of the Pool.*engine='stacked'"):
        case.run(engine=Processes(2) if engine == "processes" else AsyncProcesses(2))


@pytest.mark.skipif(not Traces.folder.is_dir(), reason="shared memory has no names here")
def test_these_tests_see_what_they_leave_themselves_and_nothing_of_others(mark):
    traces, other = Traces(mark), f"sm_segment.{uuid.uuid4().hex}"
    lock = multiprocessing.get_context("spawn").Lock()
    assert lock._semlock.name.startswith(f"/mp-{mark}-")
    names = [other, f"sem.mp-{mark}-left"]
    try:
        for name in names:
            (traces.folder / name).touch()
        assert traces.left() == {names[1]}
    finally:
        for name in names:
            (traces.folder / name).unlink()
    assert traces.left() == set()  # the lock is in use


FEW = """
import os, resource
import consensus, topologies
from consensus.solvers import DGD

def run():
    problem = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=6, parameters=1)
    return consensus.solve(problem, topologies.ring(6), DGD(0.1), rounds=3, engine=consensus.engines.Processes(workers=4))

if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for more in (2, 12, 23, 30):
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + more, hard))
        try:
            run()
        except OSError as error:
            print(error)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(run().reason)
"""


@pytest.mark.slow
def test_too_few_open_files_are_named_with_the_remedy():
    done = subprocess.run([sys.executable, "-c", FEW], capture_output=True, text=True, check=True, timeout=300)
    *refused, last = done.stdout.splitlines()
    assert last == "all 3 rounds done"
    assert len(refused) == 4
    for line in refused:
        assert re.search(r"worker processes need more open files than .*; raise the limit, by ulimit -n 4096 .*'stacked'", line)
