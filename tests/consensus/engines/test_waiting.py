"""Whatever ends a run early, and workers that are late: who is named, what is on disk, nothing left behind."""

import multiprocessing
import os
import random
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import consensus
from consensus.engines import Processes
from consensus.errors import LocalSolveError, WorkerError
from consensus.local import CVXPYSolver
from consensus.solvers import DGD, NEXT, Solver
from consensus.surrogates import FullLinearization
from consensus.workers import waiting
from tests.helpers import engine_cases
from tests.helpers.engine_harness import HERE, assert_same, columns, living, read, start, wait_for
from tests.helpers.turns import with_slow

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")


class Sleepy(DGD):
    """In its fifth round agent 0 falls asleep, before or after it has sent its row."""

    after = False

    def step(self, problem, network, state):
        asleep = state.round == 4 and 0 in problem.rows
        if asleep and not self.after:
            time.sleep(1000)
        state = super().step(problem, network, state)
        if asleep:
            time.sleep(1000)
        return state


class SleepyAfter(Sleepy):
    after = True


@pytest.mark.slow
@pytest.mark.parametrize("solver", [Sleepy(0.02), SleepyAfter(0.02)], ids=["before the exchange", "after it"])
@pytest.mark.parametrize("record_every", [1, 1000])
def test_a_worker_that_hangs_is_named(solver, record_every, case, forked, mark):
    begin, options = time.monotonic(), {"rounds": 50, "record_every": record_every}
    match = r"worker 0 \(agents 0 to 2\) kept the others waiting for over 1 s in round [56]; .*timeout=.*resume=path"
    with pytest.raises(WorkerError, match=match) as caught:
        case._replace(solver=solver, options=options).run(engine=Processes(3, timeout=1.0))
    assert 1 < time.monotonic() - begin < 60
    assert caught.value.history["round"].tolist() == ([0, 1, 2, 3, 4] if record_every == 1 else [0])


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_that_is_stopped_is_named_and_the_run_goes_on_with_it(workers, forked, mark, monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 0.5)
    case = engine_cases.slow(rounds=20)._replace(solver=engine_cases.Stops(0.01, at=7, of=6, seconds=2.0))
    with pytest.warns(UserWarning, match="kept the others waiting") as caught:
        result = case.run(engine=Processes(workers))
    (said,) = [str(warning.message) for warning in caught if warning.category is UserWarning]
    who = {1: r"worker 0 \(agents 0 to 6\)", 3: r"worker 2 \(agents \d to 6\)"}[workers]
    assert re.match(rf"in round 8: {who} \(stopped\) kept the others waiting for [012] s so far; .* given up after 600 s", said)
    assert_same(result, case._replace(solver=engine_cases.Stops(0.01)).run())


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_that_stays_stopped_ends_the_run(workers, forked, mark):
    case = engine_cases.slow(rounds=20)._replace(solver=engine_cases.Stops(0.01, at=7, of=0))
    match = r"worker 0 \(agents 0 to \d\) kept the others waiting for over 1 s in round 8; .*resume=path"
    with pytest.warns(UserWarning, match=r"in round 8: worker 0.*\(stopped\)"), pytest.raises(WorkerError, match=match):
        case.run(engine=Processes(workers, timeout=1.0))


@pytest.mark.slow
def test_a_run_that_was_stopped_as_a_whole_has_not_waited(mark, tmp_path):
    run = start(HERE / "engine_run.py", tmp_path, 2, 0.002, mark=mark, stderr=subprocess.PIPE, text=True)
    wait_for((tmp_path / "run.ckpt").exists)
    os.killpg(run.pid, signal.SIGSTOP)
    time.sleep(2.5)  # longer than its timeout
    os.killpg(run.pid, signal.SIGCONT)
    assert run.communicate(timeout=60)[1] == ""
    assert_same(read(tmp_path / "result.npz"), engine_cases.slow().run())


@pytest.mark.slow
def test_long_rounds_of_all_workers_are_nobodys_delay(forked, mark, monkeypatch, recwarn):
    monkeypatch.setattr(waiting, "PATIENCE", 0.2)
    engine_cases.slow(0.6, rounds=3).run(engine=Processes(2))
    # What JAX warns of, if an earlier test used it, is not the engine's.
    assert [text for text in (str(warning.message) for warning in recwarn) if "os.fork()" not in text] == []


class LateStart(DGD):
    """Agent 0 takes a while to begin; printed as what it is else, for the reason to stop to be the same."""

    def init(self, problem, w):
        if 0 in problem.rows and problem.agents < problem.network_size:
            time.sleep(1.0)
        return super().init(problem, w)


@pytest.mark.slow
def test_starting_slowly_is_not_hanging(case, mark):
    late = case._replace(solver=LateStart(0.02))
    assert_same(late.run(engine=Processes(2, timeout=0.3)), case.run())


@pytest.mark.slow
def test_observing_takes_as_long_as_it_takes(forked, mark):
    def value(w):
        time.sleep(0.5)  # only the observer calls it
        return w[:, 0]

    problem = consensus.Problem.from_functions(value, np.ones_like, agents=7, parameters=1)
    result = consensus.solve(problem, engine_cases.GRAPH, DGD(0.1), rounds=2, record_every=1, engine=Processes(2, timeout=0.2))
    assert result.history["round"].tolist() == [0, 1, 2]


class Light(NamedTuple):
    """A state that knows its agents."""

    round: int
    w: np.ndarray
    agents: np.ndarray


class Heavy(Light):
    """One that agent 0's worker takes long to send."""

    def _asdict(self):
        if 0 in self.agents:
            time.sleep(0.3)
        return dict(zip(self._fields, self, strict=True))


class SlowToSave(Solver):
    """Averages; its states are slow to send."""

    def init(self, problem, w):
        return Heavy(0, w, problem.rows)

    def step(self, problem, network, state):
        return Heavy(state.round + 1, *network.mix(state.round, state.w), state.agents)


@pytest.mark.slow
def test_states_may_come_in_any_order(forked, mark, tmp_path):
    case = engine_cases.special()["a start for each agent"]._replace(solver=SlowToSave())
    result = case.run(engine=Processes(3), rounds=3, every=1, checkpoint=tmp_path / "run.ckpt")
    with np.load(tmp_path / "run.ckpt") as file:
        assert file["state.agents"].tolist() == list(range(7))
        np.testing.assert_array_equal(file["state.w"], result.w)


# Whatever ends a run early: what was done is on disk, the error says how to go on, and nothing is left behind.


PAUSE = 0.002  # seconds a round: a run of slow() takes one second at least
DIED = r"worker (\d) \(agents (\d) to (\d)\) died in round (\d+) \(exit code -9\)\..*solve\(\.\.\., resume=path\)"


@pytest.fixture(scope="module")
def reference():
    return engine_cases.slow().run()


def finish(path):
    """The run to its end, from the checkpoint if there was time for one."""
    return engine_cases.slow().run(resume=path if path.exists() else None)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))  # many more are in the campaign
def test_a_killed_worker(seed, mark, reference, tmp_path):
    rng, path, workers, hit = random.Random(seed), tmp_path / "run.ckpt", 2 + seed % 2, []
    victim, early = rng.randrange(workers), seed % 4 == 3

    def kill():
        started = sorted(wait_for(lambda: len(found := living(mark, helpers=False)) == workers and found))
        if not early:  # else perhaps before the first round
            wait_for(path.exists)
        time.sleep(rng.uniform(0, 0.6))
        hit.append(time.monotonic())
        os.kill(started[victim], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(WorkerError) as caught:
        engine_cases.slow(PAUSE).run(engine=Processes(workers), checkpoint=path)
    assert time.monotonic() - hit[0] < 60
    killer.join()
    worker, first, last, round = map(int, re.fullmatch(DIED, str(caught.value)).groups())
    assert worker == victim
    assert first <= last
    history = caught.value.history
    if history.rows:
        assert history["round"][-1] < round <= history["round"][-1] + 6
        np.testing.assert_array_equal(history["objective"], reference.history["objective"][: history.rows])
    else:
        assert early
        assert round == 1
    assert_same(finish(path), reference)
    assert multiprocessing.active_children() == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))  # many more are in the campaign
def test_a_killed_run(seed, mark, reference, tmp_path):
    rng, path, workers = random.Random(100 + seed), tmp_path / "run.ckpt", 1 + seed % 3
    run = start(HERE / "engine_run.py", tmp_path, workers, PAUSE, mark=mark)
    # The last seed: while its workers are being started.
    wait_for(path.exists if seed % 4 != 3 else lambda: len(living(mark, helpers=False)) > 1)
    time.sleep(rng.uniform(0, 0.6))
    others = set(living(mark)) - {run.pid}
    run.kill()
    assert run.wait(60) == -signal.SIGKILL
    assert others
    wait_for(lambda: not living(mark))  # neither workers nor their helpers
    left = {re.sub(r"[0-9a-f]{16}", "0", name) for name in os.listdir(tmp_path)}  # hit while writing, it leaves a part
    assert left <= {"run.ckpt", ".run.ckpt.lock", ".run.ckpt.0.part"}
    assert_same(finish(path), reference)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_notice_between_observations_that_the_run_is_gone(workers, mark, tmp_path):
    run = start(HERE / "engine_run.py", tmp_path, workers, 0.05, 10_000, mark=mark)  # 25 s without looking up
    wait_for((tmp_path / "run.ckpt").exists)
    time.sleep(0.3)
    run.kill()
    run.wait(60)
    wait_for(lambda: not living(mark), 15)


@pytest.mark.slow
def test_a_worker_killed_while_it_holds_the_lock(case, mark):
    class Rude(DGD):
        def step(self, problem, network, state):
            if state.round == 3 and 0 in problem.rows:
                network.shared.barrier.lock.acquire()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().step(problem, network, state)

    begin = time.monotonic()
    with pytest.raises(WorkerError, match=r"worker 0 \(agents 0 to 3\) died in round 4"):
        case._replace(solver=Rude(0.02)).run(engine=Processes(2))
    assert time.monotonic() - begin < 60


# Exceptions in a worker


@pytest.mark.slow
def test_an_exception_keeps_its_type_and_says_where(case, mark):
    with pytest.raises(engine_cases.Trouble, match="agent 5 gives up after round 3") as caught:
        case._replace(solver=engine_cases.Faulty(0.02)).run(engine=Processes(2))
    assert (caught.value.agent, caught.value.round) == (5, 3)
    notes = "\n".join(caught.value.__notes__)
    for said in ("in worker 1 (agents 4 to 6), round 4", "Traceback", "raise Trouble(5, state.round)"):
        assert said in notes


class Unsendable(Exception):
    """Holds what cannot be sent to another process."""

    def __init__(self):
        super().__init__("with a lock inside")
        self.lock = threading.Lock()


@pytest.mark.parametrize(("raised", "seen", "match"), [
    (lambda: KeyError("colour"), KeyError, "colour"),
    (lambda: FileNotFoundError(2, "No such file", "there"), FileNotFoundError, r"\[Errno 2\] No such file: 'there'"),
    (lambda: UnicodeDecodeError("ascii", b"\xff", 0, 1, "odd"), UnicodeDecodeError, "can't decode byte 0xff.*odd"),
    (lambda: SystemExit(3), SystemExit, "3"),
    (Unsendable, WorkerError, r"(?s)worker 0 \(agents 0 to 3\): Traceback.*Unsendable: with a lock inside"),
], ids=["KeyError", "OSError", "UnicodeError", "SystemExit", "unsendable"])  # fmt: skip
def test_exceptions_of_all_kinds(raised, seen, match, case, forked, mark):
    class Broken(DGD):
        def step(self, problem, network, state):
            if 0 in problem.rows:
                raise raised()
            return super().step(problem, network, state)

    with pytest.raises(seen, match=match):
        case._replace(solver=Broken(0.02)).run(engine=Processes(2))


def test_an_exception_before_the_first_round(case, forked, mark):
    class Unborn(DGD):
        def init(self, problem, w):
            if 6 in problem.rows:
                raise RuntimeError("no start")
            return super().init(problem, w)

    with pytest.raises(RuntimeError, match="no start") as caught:
        case._replace(solver=Unborn(0.02)).run(engine=Processes(3))
    assert "in worker 2 (agents 5 to 6), round 1" in caught.value.__notes__[0]


@pytest.mark.parametrize("record_every", with_slow([1, 7], 1))
def test_divergence_is_the_same_as_in_one_process(record_every, forked, mark):
    case = engine_cases.special()["tolerance"]._replace(solver=DGD(1e3), options={"rounds": 3000, "record_every": record_every})
    errors = []
    for engine in ("stacked", Processes(3)):
        with pytest.raises(consensus.DivergenceError) as caught:
            case.run(engine=engine)
        errors.append(caught.value)
    alone, together = errors
    assert together.round == alone.round > 10
    assert (str(together), together.solver) == (str(alone), alone.solver)
    assert alone.history.rows == -(-alone.round // record_every)
    for name, column in columns(alone.history).items():
        np.testing.assert_array_equal(together.history[name], column)


def test_a_local_problem_without_a_solution_is_named(forked, mark):
    impossible = CVXPYSolver(constraints=lambda w: [w[0] >= 1, w[0] <= 0])
    case = engine_cases.special()["functions, NEXT"]
    case = case._replace(solver=NEXT(FullLinearization(8.0), 0.5, local=impossible))
    with pytest.raises(LocalSolveError, match=r"round 1, agent [04]: its local problem is infeasible") as caught:
        case.run(engine=Processes(2))
    assert caught.value.history["round"].tolist() == [0]
    agent = int(re.search(r"agent (\d)", str(caught.value))[1])
    assert f"in worker {agent // 4} (agents {agent} to " in caught.value.__notes__[0]
