"""Whatever ends a run early: what was done is on disk, the error says how to go on, and nothing is left behind."""

import multiprocessing
import os
import random
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import consensus
from consensus.engines import Processes
from consensus.errors import LocalSolveError, WorkerError
from consensus.local import CVXPYSolver
from consensus.solvers import DGD, NEXT
from consensus.surrogates import FullLinearization
from tests.helpers import engine_cases
from tests.helpers.engine_harness import HERE, assert_same, columns, living, start, wait_for
from tests.helpers.turns import with_slow

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
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


@pytest.mark.parametrize(
    ("raised", "seen", "match"),
    [
        (lambda: KeyError("colour"), KeyError, "colour"),
        (lambda: FileNotFoundError(2, "No such file", "there"), FileNotFoundError, r"\[Errno 2\] No such file: 'there'"),
        (lambda: UnicodeDecodeError("ascii", b"\xff", 0, 1, "odd"), UnicodeDecodeError, "can't decode byte 0xff.*odd"),
        (lambda: SystemExit(3), SystemExit, "3"),
        (Unsendable, WorkerError, r"(?s)worker 0 \(agents 0 to 3\): Traceback.*Unsendable: with a lock inside"),
    ],
    ids=["KeyError", "OSError", "UnicodeError", "SystemExit", "unsendable"],
)
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
