"""Workers that stay for one run after another: every run is as with workers of its own, and nothing is left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import consensus
from consensus.engines import Processes, processes
from consensus.solvers import DGD
from tests.helpers import engine_cases
from tests.helpers.engine_harness import MARK, assert_same, environment, living, wait_for
from tests.helpers.turns import with_slow

CASES = engine_cases.special()
pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks for processes in /proc")


def workers():
    return sorted(process.pid for process in multiprocessing.active_children())


@pytest.fixture
def plain():
    return CASES["functions, DGD"]


@pytest.fixture(autouse=True)
def nobody_stays(monkeypatch):
    monkeypatch.setattr(processes, "_ENDING", 60.0)  # on a busy machine, too, workers are ready in time
    yield
    assert workers() == []


@pytest.mark.slow
@pytest.mark.parametrize("start", ["forked", "spawned"])
def test_one_run_after_another_has_the_bits_of_one_process(start, request, tmp_path):
    if start == "forked":
        request.getfixturevalue("forked")
    kept = set()
    with Processes(2) as engine:
        for name in ("functions, DGD", "images", "float32, NEXT", "functions, adaptive"):
            path = tmp_path / f"{name}.ckpt"
            assert_same(CASES[name].run(engine=engine, checkpoint=path), CASES[name].run(), name)
            assert_same(CASES[name].run(engine=engine, resume=path), CASES[name].run(), name)
            kept.add(tuple(workers()))
    assert [len(those) for those in kept] == [2]  # always the same ones


@pytest.mark.parametrize("agents", with_slow([[1, 4, 2], [4, 1, 4]], [4, 1, 4]))
def test_problems_of_any_number_of_agents(agents, forked):
    with Processes(3) as engine:
        for count in agents:
            problem = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, count, 2)
            case = engine_cases.Case(problem, engine_cases.topologies.star(count), DGD(0.1), {"rounds": 3})
            assert_same(case.run(engine=engine), case.run())
            assert len(workers()) >= min(3, count)


@pytest.mark.slow
def test_workers_hold_no_memory_of_earlier_runs(forked):
    held = []
    with Processes(2) as engine:
        for name in ("images", "float32, NEXT", "images"):
            CASES[name].run(engine=engine)
            for worker in workers():  # copies of this process hold what it had, always the same
                open_files = [os.readlink(link) for link in Path(f"/proc/{worker}/fd").iterdir()]
                held.append([(Path(f"/proc/{worker}/maps").read_text()).count("memfd:consensus"), len(open_files)])
    assert held[2:4] == held[4:] == held[:2]


class Everywhere(DGD):
    """Fails on all workers."""

    def step(self, problem, network, state):
        raise engine_cases.Trouble(problem.rows[0], 0)


SOLVERS = {"one worker": engine_cases.Faulty(0.02), "all workers": Everywhere(0.02), "divergence": DGD(1e80)}
CALLBACKS = {error.__name__: error for error in (KeyboardInterrupt, SystemExit, ValueError)}


@pytest.mark.parametrize("fails", with_slow([*SOLVERS, *CALLBACKS], "one worker", "divergence", "SystemExit"))
def test_workers_stay_after_an_error(fails, plain, forked):
    def callback(seen):
        if seen.round and fails in CALLBACKS:
            raise CALLBACKS[fails]

    broken = plain._replace(solver=SOLVERS.get(fails, plain.solver))
    with Processes(3) as engine:
        plain.run(engine=engine)
        before = workers()
        for _ in range(2):
            with pytest.raises((engine_cases.Trouble, consensus.DivergenceError, *CALLBACKS.values())) as caught:
                broken.run(engine=engine, callbacks=[callback])
            assert caught.value.history.rows
            assert_same(plain.run(engine=engine), plain.run())
            assert workers() == before


@pytest.mark.parametrize("during", with_slow([False, True], False))
def test_killed_workers_are_replaced(during, plain, forked):
    def kill(seen):
        if seen.round:
            os.kill(workers()[0], signal.SIGKILL)

    with Processes(2) as engine:
        plain.run(engine=engine)
        before = workers()
        if during:
            with pytest.raises(consensus.WorkerError, match="died"):
                plain.run(engine=engine, callbacks=[kill])
        else:
            os.kill(before[0], signal.SIGKILL)
            wait_for(lambda: workers() != before)
        assert_same(plain.run(engine=engine), plain.run())
        assert len(workers()) == 2
        assert not set(workers()) & set(before)


@pytest.mark.slow
def test_workers_that_hang_are_replaced(plain, forked, monkeypatch):
    monkeypatch.setattr(processes, "_ENDING", 0.5)

    class Hangs(DGD):
        def step(self, problem, network, state):
            time.sleep(1000 if 0 in problem.rows else 0)
            return super().step(problem, network, state)

    with Processes(2, timeout=1.0) as engine:
        with pytest.raises(consensus.WorkerError, match="kept the others waiting"):
            plain._replace(solver=Hangs(0.02)).run(engine=engine)
        assert_same(plain.run(engine=engine), plain.run())


@pytest.mark.slow
def test_a_run_inside_a_run_has_workers_of_its_own(plain, forked):
    inner, both = [], []

    def again(seen):
        if seen.round == 3:
            inner.append(plain.run(engine=engine, callbacks=[lambda _: both.append(len(workers()))]))

    with Processes(2) as engine:
        assert_same(plain.run(engine=engine, callbacks=[again]), plain.run())
        assert len(workers()) == 2
    assert_same(inner[0], plain.run())
    assert set(both) == {4}


@pytest.mark.slow
def test_a_copy_of_this_process_has_workers_of_its_own(plain, forked):
    ours, theirs = multiprocessing.Pipe()

    def copy():
        theirs.send(plain.run(engine=engine).w)

    with Processes(2) as engine:
        plain.run(engine=engine)
        before = workers()
        process = multiprocessing.get_context().Process(target=copy)
        process.start()
        assert ours.poll(60)
        assert (ours.recv() == plain.run().w).all()
        process.join()
        assert workers() == before


def test_every_run_warns(plain, forked):
    class Warns(DGD):
        def step(self, problem, network, state):
            if state.round == 6 and 6 in problem.rows:
                warnings.warn("the last round is odd", stacklevel=1)
            return super().step(problem, network, state)

    with Processes(2) as engine:
        for _ in range(3):
            with pytest.warns(UserWarning, match="the last round is odd"):
                plain._replace(solver=Warns(0.02)).run(engine=engine)


@pytest.mark.slow
def test_a_block_is_entered_once_at_a_time_and_may_be_entered_again(plain, forked):
    engine = Processes(2)
    for _ in range(2):
        with engine:
            with pytest.raises(RuntimeError, match=r"keeps its workers already"), engine:
                pass
            plain.run(engine=engine)
        assert workers() == []
    assert_same(plain.run(engine=engine), plain.run())
    with engine:
        pass  # without a run


SCRIPT = """
import signal, time
from tests.helpers import engine_cases
from consensus.engines import Processes, processes
signal.signal(signal.SIGINT, signal.default_int_handler)
with Processes(2) as engine:
    engine_cases.special()["functions, DGD"].run(engine=engine)
    print("idle", flush=True)
    time.sleep(1000)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_a_script_that_is_stopped_between_runs(how, mark):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    command, variables = [sys.executable, "-c", SCRIPT], environment(**{MARK: mark})
    with subprocess.Popen(command, env=variables, start_new_session=True, **pipes) as script:
        assert script.stdout.readline() == b"idle\n"
        assert len(living(mark, helpers=False)) == 3
        os.killpg(script.pid, how) if how == signal.SIGINT else script.send_signal(how)
        assert script.wait(60) != 0
        wait_for(lambda: not living(mark), 30)
