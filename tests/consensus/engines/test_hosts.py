"""Ranks on two hosts, which share nothing but their disk: their bits, their bytes, and how a job ends when one is lost."""

import json
import os
import re
import signal
import time
import uuid
from contextlib import contextmanager, suppress

import numpy as np
import pytest

import consensus
from experiments.shared.two_hosts import NoHosts, two_hosts
from tests.helpers import engine_cases
from tests.helpers.engine_harness import HERE, KIND, MARK, MPIEXEC, assert_same, columns, environment, living, read, wait_for
from tests.helpers.engine_hosts import AGENTS, INPUTS, ROUNDS, wide

BETWEEN = "bytes_between_hosts"
SCRIPT = HERE / "engine_hosts.py"
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hosts")]  # one at a time: ranks that are late are given up
starting = pytest.mark.parametrize("how", ["mpiexec", "by hand"])


@pytest.fixture
def mark(monkeypatch):
    """What marks the processes that a test starts; they leave nothing in the memory of this machine, but of their hosts."""
    monkeypatch.setenv(MARK, name := uuid.uuid4().hex)
    return name


@contextmanager
def made(mark, folder, **link):
    """Two hosts; nothing runs there afterwards."""
    try:
        with two_hosts(folder, **link) as two:
            before = set(living(mark))
            yield two
            for process in set(living(mark)) - before:
                with suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(process, signal.SIGKILL)
    except NoHosts as error:
        pytest.skip(str(error))


@pytest.fixture
def hosts(mark, tmp_path):
    with made(mark, tmp_path) as two:
        yield two


def start(hosts, how, *arguments):
    """Start a task of ``engine_hosts.py`` on two ranks of each host."""
    variables = environment(**{KIND: "mpi" if how == "mpiexec" else "torch"})
    return hosts.start(MPIEXEC if how == "mpiexec" else how, variables, SCRIPT, *arguments)


def finished(jobs, seconds=60):
    """What processes that end by themselves wrote on standard output and standard error."""
    said = [job.communicate(timeout=seconds) for job in jobs]
    return ["".join(texts) for texts in zip(*said, strict=True)]


@pytest.mark.parametrize("how", ["mpiexec", "torchrun"])
def test_they_have_the_bits_of_one_process_and_the_history_says_what_crosses(how, hosts, tmp_path):
    jobs = start(hosts, how, "apart", tmp_path)
    said, errors = finished(jobs, 120)
    assert [job.returncode for job in jobs] == [0] * len(jobs), errors
    report = json.loads(said)
    assert report["differ"] == []
    assert report["hosts"] == ["first", "first", "second", "second"]
    for name, case in {**{name: engine_cases.compared()[name] for name in engine_cases.FEW}, "wide": wide()}.items():
        result = read(tmp_path / f"{name}.npz")
        crossed = result.history.pop(BETWEEN)
        assert crossed[0] == 0
        assert_same(result, case.run(), name)
    # Agents 0 to 3 are on one host, the others on the other: two edges of the ring cross, both ways, with two rows each.
    rows = np.array([0, ROUNDS // 2, ROUNDS]) * 2 * 2 * 2
    assert crossed.tolist() == (rows * 8 * (INPUTS + 1)).tolist()
    assert result.history["bytes"].tolist() == (AGENTS // 2 * crossed).tolist()
    assert crossed[-1] < report["sent"] < 1.1 * crossed[-1]


@starting
def test_messages_that_are_late_or_sent_twice_change_no_bits(how, mark, tmp_path):
    """Packets take 10 ms, every hundredth is lost, and TCP sends it again."""
    with made(mark, tmp_path, delay=0.01, bandwidth=1e7, loss=0.01) as hosts:
        jobs = start(hosts, how, "few", tmp_path)
        said, errors = finished(jobs, 120)
    assert [job.returncode for job in jobs] == [0] * len(jobs), errors
    assert json.loads(said) == {"differ": []}
    for name in engine_cases.FEW:
        result = read(tmp_path / f"{name}.npz")
        result.history.pop(BETWEEN)
        assert_same(result, engine_cases.compared()[name].run(), name)


@starting
def test_a_stopped_rank_ends_the_job(how, hosts, tmp_path):
    jobs = start(hosts, how, "stopped", tmp_path)
    said, errors = finished(jobs[:3])  # the last of four started by hand is the stopped one
    assert all(job.returncode for job in jobs[:3])
    assert said == ""
    assert re.search(r"WorkerError: in round \d+: rank 3 \(agents 5 to 6\) kept the others waiting for over 2 s", errors)
    (path,) = tmp_path.glob("history-of-Stops-until-round-*.csv")
    assert consensus.History.from_csv(path)["round"].tolist() == [0, 5]


@starting
@pytest.mark.parametrize("what", ["killed", "cut"])
def test_a_killed_rank_or_a_cut_link_ends_all_ranks_and_the_history_is_written(what, how, hosts, tmp_path, mark):
    jobs = start(hosts, how, "endless", tmp_path)
    pids = wait_for(lambda: len(found := sorted(tmp_path.glob("rank-*"))) == 4 and [int(file.read_text()) for file in found])
    wait_for((tmp_path / "run.ckpt").exists)
    time.sleep(0.5)  # some rounds
    if what == "killed":
        os.kill(pids[3], signal.SIGKILL)
    else:
        hosts.cut()
    wait_for(lambda: not set(pids) & set(living(mark)), seconds=30)
    if (what, how) != ("cut", "mpiexec"):  # which itself waits until the system gives up the link, a quarter of an hour
        said, errors = finished(jobs)
        assert said == ""
        assert all(job.returncode for job in jobs)
        assert what == "cut" or "rank 3 (agents 5 to 6) has ended, or its connection broke" in errors
    kept = columns(consensus.History.from_csv(tmp_path / "run.ckpt.history.csv"))
    assert len(kept["round"]) > 1
    assert (np.diff(kept.pop(BETWEEN)) > 0).all()
    reference = columns(engine_cases.slow(rounds=int(kept["round"][-1]), record_every=1).run().history)
    for name, column in reference.items():
        np.testing.assert_array_equal(kept[name], column)
