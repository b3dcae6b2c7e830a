"""Whatever ends a run early: what was done is on disk, the error says how to go on, and nothing is left behind."""

import errno
import gc
import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from multiprocessing import resource_tracker
from pathlib import Path
from typing import NamedTuple

import engine_cases
import numpy as np
import pytest
from engine_harness import HERE, MARK, Traces, assert_same, columns, environment, living, mpiexec, read, start, wait_for

import consensus
from consensus.engines import Processes
from consensus.errors import LocalSolveError, WorkerError
from consensus.local import CVXPYSolver
from consensus.solvers import DGD, NEXT, Solver
from consensus.surrogates import FullLinearization
from consensus.workers import waiting

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
PAUSE = 0.002  # seconds a round: a run of slow() takes one second at least
DIED = r"worker (\d) \(agents (\d) to (\d)\) died in round (\d+) \(exit code -9\)\..*solve\(\.\.\., resume=path\)"


@pytest.fixture(scope="module")
def reference():
    return engine_cases.slow().run()


@pytest.fixture
def mark(monkeypatch):
    """What marks the processes that this test starts; afterwards none of them lives, and no shared memory is left."""
    name, traces = uuid.uuid4().hex, Traces()
    monkeypatch.setenv(MARK, name)
    yield name
    try:
        wait_for(lambda: not living(name, helpers=False))
        wait_for(lambda: not traces.left())
    finally:
        for process in living(name, helpers=False):
            os.kill(process, signal.SIGKILL)


def finish(path):
    """The run to its end, from the checkpoint if there was time for one."""
    return engine_cases.slow().run(resume=path if path.exists() else None)


# kill -9


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
    if seed % 4 == 3:  # while its workers are being started
        wait_for(lambda: len(living(mark, helpers=False)) > 1)
    else:
        wait_for(path.exists)
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
def test_a_worker_killed_at_the_worst_moment(mark, tmp_path):
    class Rude(DGD):
        """Dies with the lock that all workers share in its hand."""

        def step(self, problem, network, state):
            if state.round == 3 and 0 in problem.rows:
                network.shared.barrier.lock.acquire()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().step(problem, network, state)

    case, begin = engine_cases.special()["functions, DGD"], time.monotonic()
    with pytest.raises(WorkerError, match=r"worker 0 \(agents 0 to 3\) died in round 4"):
        case._replace(solver=Rude(0.02)).run(engine=Processes(2))
    assert time.monotonic() - begin < 60


# Exceptions in a worker


@pytest.fixture
def case():
    return engine_cases.special()["functions, DGD"]


@pytest.mark.slow
def test_an_exception_keeps_its_type_and_says_where(case, mark):
    with pytest.raises(engine_cases.Trouble, match="agent 5 gives up after round 3") as caught:
        case._replace(solver=engine_cases.Faulty(0.02)).run(engine=Processes(2))
    assert (caught.value.agent, caught.value.round) == (5, 3)
    notes = "\n".join(caught.value.__notes__)
    assert "in worker 1 (agents 4 to 6), round 4" in notes
    assert "Traceback" in notes
    assert "raise Trouble(5, state.round)" in notes


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


@pytest.mark.parametrize("record_every", [1, 7])
def test_divergence_is_the_same_as_in_one_process(record_every, forked, mark):
    case = engine_cases.special()["tolerance"]._replace(solver=DGD(1e3), options={"rounds": 3000, "record_every": record_every})
    errors = []
    for engine in ("stacked", Processes(3)):
        with pytest.raises(consensus.DivergenceError) as caught:
            case.run(engine=engine)
        errors.append(caught.value)
    alone, together = errors
    assert together.round == alone.round > 10
    assert str(together) == str(alone)
    assert together.solver == alone.solver
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


# Workers that are late


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
def test_a_worker_that_is_stopped_is_named_and_the_run_goes_on_with_it(workers, case, forked, mark, monkeypatch):
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
def test_a_run_that_was_stopped_as_a_whole_has_not_waited(mark, reference, tmp_path):
    run = start(HERE / "engine_run.py", tmp_path, 2, PAUSE, mark=mark, stderr=subprocess.PIPE, text=True)
    wait_for((tmp_path / "run.ckpt").exists)
    os.killpg(run.pid, signal.SIGSTOP)
    time.sleep(2.5)  # longer than its timeout
    os.killpg(run.pid, signal.SIGCONT)
    assert run.communicate(timeout=60)[1] == ""
    assert_same(read(tmp_path / "result.npz"), reference)


@pytest.mark.slow
def test_long_rounds_of_all_workers_are_nobodys_delay(forked, mark, monkeypatch, recwarn):
    monkeypatch.setattr(waiting, "PATIENCE", 0.2)
    engine_cases.slow(0.6, rounds=3).run(engine=Processes(2))
    # What JAX warns of, if an earlier test used it, is not the engine's.
    assert [text for text in (str(warning.message) for warning in recwarn) if "os.fork()" not in text] == []


def test_a_system_that_cannot_share_memory_says_so(case, monkeypatch):
    from multiprocessing import reduction

    for module, name in ((os, "memfd_create"), (os, "posix_fallocate"), (os, "sched_getaffinity"), (reduction, "DupFd")):
        monkeypatch.delattr(module, name)
    with pytest.raises(NotImplementedError, match=r"Processes needs memory without a name.*engine='stacked'"):
        case.run(engine="processes")
    assert np.isfinite(case.run().w).all()


def test_a_system_without_nameless_memory_shares_files(case, forked, mark, monkeypatch):
    for name in ("memfd_create", "posix_fallocate", "sched_getaffinity"):
        monkeypatch.delattr(os, name)
    assert_same(case.run(engine=Processes(2)), case.run())


@pytest.mark.slow
def test_starting_slowly_is_not_hanging(case, mark):
    late = case._replace(solver=LateStart(0.02))
    assert_same(late.run(engine=Processes(2, timeout=0.3)), case.run())


class LateStart(DGD):
    """Agent 0 needs a while to begin; printed as what it is else, for the reason to stop to be the same."""

    def init(self, problem, w):
        if 0 in problem.rows and problem.agents < problem.network_size:
            time.sleep(1.0)
        return super().init(problem, w)


@pytest.mark.slow
def test_observing_takes_as_long_as_it_takes(forked, mark):
    def value(w):
        time.sleep(0.5)  # only the observer calls it
        return w[:, 0]

    problem = consensus.Problem.from_functions(value, np.ones_like, agents=7, parameters=1)
    result = consensus.solve(problem, engine_cases.GRAPH, DGD(0.1), rounds=2, engine=Processes(2, timeout=0.2))
    assert result.history["round"].tolist() == [0, 1, 2]


class Light(NamedTuple):
    """A state that knows its agents."""

    round: int
    w: np.ndarray
    agents: np.ndarray


class Heavy(Light):
    """One that agent 0's worker needs long to send."""

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


def test_states_may_come_in_any_order(forked, mark, tmp_path):
    case = engine_cases.special()["a start for each agent"]._replace(solver=SlowToSave())
    result = case.run(engine=Processes(3), rounds=3, every=1, checkpoint=tmp_path / "run.ckpt")
    with np.load(tmp_path / "run.ckpt") as file:
        assert file["state.agents"].tolist() == list(range(7))
        np.testing.assert_array_equal(file["state.w"], result.w)


# Ctrl-C, memory, scripts


@pytest.mark.slow
def test_ctrl_c_reaches_workers_too_but_ends_the_run_in_order(mark, reference, tmp_path):
    path = tmp_path / "run.ckpt"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = start(HERE / "engine_run.py", tmp_path, 2, 10 * PAUSE, mark=mark, **pipes)  # not over before the signal comes
    wait_for(path.exists)
    time.sleep(0.3)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    said, complaints = run.communicate(timeout=60)
    assert run.returncode == 0
    assert complaints == ""
    assert not living(mark)
    result = read(tmp_path / "result.npz")
    assert f"stopped by the user after round {result.rounds};" in said
    assert f"resume={str(path)!r}" in json.loads(said)
    assert 0 < result.rounds < 500
    np.testing.assert_array_equal(result.w, engine_cases.slow().run(rounds=result.rounds).w)
    assert_same(finish(path), reference)


@pytest.mark.slow
def test_ctrl_c_while_workers_start_leaves_none(mark, tmp_path):
    run = start(HERE / "engine_run.py", tmp_path, 3, PAUSE, mark=mark, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
    assert len(started) == 1
    assert not started[0].is_alive()


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
import numpy as np
import consensus, topologies
from consensus.solvers import DGD

print("once")
centres = np.arange(8.0).reshape(4, 2)

class Mine(DGD):
    def step(self, problem, network, state):
        return super().step(problem, network, state)._replace(round=state.round + 1)

problem = consensus.Problem.from_functions(
    lambda w: np.square(w - centres).sum(axis=1), lambda w: 2 * (w - centres), agents=4, parameters=2
)
alone, together = (
    consensus.solve(problem, topologies.ring(4), Mine(lambda n: 0.1 / (n + 1)), rounds=9, engine=engine)
    for engine in ("stacked", "processes")
)
print(np.array_equal(alone.w, together.w))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["file", "standard input"])
def test_a_script_without_a_main_guard(how, mark, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script if how == "file" else "-"],
        input=None if how == "file" else SCRIPT,
        capture_output=True,
        text=True,
        timeout=30,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["once", "True"], "")


# MPI


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "where"), [(2, "rank 1 (agents 3 to 6)"), (3, "rank 2 (agents 4 to 6)")])
def test_an_exception_on_one_rank_ends_the_job(ranks, where, mark, tmp_path):
    begin = time.monotonic()
    done = mpiexec(ranks, HERE / "engine_ranks.py", "fail", tmp_path)
    assert time.monotonic() - begin < 120
    assert done.returncode != 0
    assert f"{where} failed in round 4; the job is aborted." in done.stderr
    assert "resume=path" in done.stderr
    assert "raise Trouble(5, state.round)" in done.stderr
    assert "Trouble: agent 5 gives up after round 3" in done.stderr
    assert done.stderr.count("Traceback") == 1
    assert "never printed" not in done.stdout


@pytest.mark.slow
def test_what_is_refused_is_refused_on_all_ranks(mark, tmp_path):
    (tmp_path / "nonsense").write_text("nonsense")
    engine_cases.special()["tolerance"].run(rounds=2, checkpoint=tmp_path / "other")
    done = mpiexec(4, HERE / "engine_ranks.py", "refuse", tmp_path)
    assert done.returncode == 0, done.stderr
    few, nobody, one, nonsense, absent, other, unknown, good = zip(*json.loads(done.stdout), strict=True)
    assert len(set(few)) == 1
    assert re.match("ValueError: 3 agents are too few for 4 ranks.*start at most 3 ranks", few[0])
    held = ["0 to 0", "1 to 2", "3 to 4", "5 to 6"]
    assert len(set(nobody)) == len(set(one)) == 1
    for rank in range(4):
        complaint = (
            f"it holds the agents {held[rank]}, but its problem has [3, 4]: load those of MPI().rows(7) on rank {rank} of 4"
        )
        assert (complaint in nobody[0]) == (rank != 2)  # whose they are
        assert (complaint in one[0]) == (rank == 1)
    assert len(set(nonsense)) == len(set(absent)) == len(set(other)) == 1
    assert "nonsense is no checkpoint of this package" in nonsense[0]
    assert absent[0].startswith("FileNotFoundError")
    assert "other is a checkpoint of another run: solver: " in other[0]
    assert len(set(unknown)) == 1
    assert "knows no Lipschitz constants of its gradients: give the solver a step_size=" in unknown[0]
    assert set(good) == {"all 3 rounds done"}
