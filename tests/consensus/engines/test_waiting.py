"""Workers that are late are named, slow ones are not."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import consensus
from consensus.engines import Processes
from consensus.errors import WorkerError
from consensus.solvers import DGD, Solver
from consensus.workers import waiting
from tests.helpers import engine_cases
from tests.helpers.engine_harness import HERE, assert_same, read, start, wait_for

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
