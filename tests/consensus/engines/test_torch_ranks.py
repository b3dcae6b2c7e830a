"""Ranks of torch.distributed: how they find each other, and how a job ends when one of them does."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

import consensus
from consensus.frameworks.torch_engine import _meet, _transport
from consensus.frameworks.torch_start import Start
from consensus.frameworks.torch_transport import Messages, TorchTransport
from tests.helpers import engine_cases
from tests.helpers.engine_harness import (
    HERE,
    KIND,
    assert_same,
    command,
    ended,
    environment,
    free_port,
    read,
    started,
    wait_for,
)

torch = pytest.importorskip("torch")
SCRIPT = HERE / "engine_ranks.py"
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
SLURM = {"SLURM_PROCID": "2", "SLURM_NTASKS": "6", "SLURM_JOB_NODELIST": "n[03-05,9],m1", "SLURM_JOB_ID": "7"}


@pytest.fixture
def port():
    with free_port() as number:
        yield str(number)


def by_hand(ranks, variables, task, folder):
    """Ranks started without torchrun, each with its ``variables(rank)``."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = [sys.executable, SCRIPT, task, folder]
    return [subprocess.Popen(run, env=environment(**{KIND: "torch"}, **variables(rank)), **options) for rank in range(ranks)]


@pytest.mark.slow
def test_ranks_have_the_bits_of_one_process(port, tmp_path):
    """A few solvers; ``test_equality.py`` has all of them, in the slow tests."""
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    ranks = by_hand(2, lambda rank: shared | {"RANK": str(rank)}, "few", tmp_path)
    said, errors = zip(*(rank.communicate(timeout=120) for rank in ranks), strict=True)
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    assert json.loads("".join(said)) == {"differ": []}
    for name in engine_cases.FEW:
        assert_same(read(tmp_path / f"{name}.npz"), engine_cases.compared()[name].run(), name)


@pytest.mark.parametrize(("given", "variables", "start"), [
    ((), TORCHRUN, ("env://", 1, 3)),
    ((), TORCHRUN | SLURM, ("env://", 1, 3)),  # torchrun on the machines of a job
    ((), SLURM, ("tcp://n03:20217", 2, 6)),
    ((), SLURM | {"SLURM_STEP_NODELIST": "m1", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_ID": "3"}, ("tcp://m1:20220", 2, 4)),
    ((), SLURM | {"SLURM_JOB_NODELIST": "gpu-a[7]-x,b", "MASTER_PORT": "4000"}, ("tcp://gpu-a7-x:4000", 2, 6)),
    ((), SLURM | {"SLURM_JOB_NODELIST": "", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.9"}, ("tcp://10.0.0.9:20217", 2, 6)),
    ((), SLURM | {"MASTER_ADDR": "head", "MASTER_PORT": "4000"}, ("tcp://head:4000", 2, 6)),
    (("file:///run", 0, 2), {}, ("file:///run", 0, 2)),
    (("tcp://a:1",), SLURM, ("tcp://a:1", 2, 6)),
    ((None, 0, 5), {"MASTER_ADDR": "a", "MASTER_PORT": "1"}, ("env://", 0, 5)),
])  # fmt: skip
def test_where_ranks_meet(given, variables, start):
    assert Start.of(*given, *[None] * (3 - len(given)), variables) == start


@pytest.mark.parametrize(("given", "variables", "match"), [
    ((), {}, r"no RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: start the script by torchrun .* srun, or give init_method="),
    ((), {"RANK": "0", "MASTER_ADDR": "a", "WORLD_SIZE": "2"}, "the environment has no MASTER_PORT: start"),
    ((), TORCHRUN | {"RANK": "3"}, "rank must be below size, the number of ranks, 3; got 3"),
    ((), TORCHRUN | {"WORLD_SIZE": "-3"}, "the environment's WORLD_SIZE must be a whole number >= 1; got '-3'"),
    ((), {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, "SLURM_LAUNCH_NODE_IPADDR: set MASTER_ADDR to the machine of the first"),
    (("file:///run", 0), {}, "size must be given beside init_method, as the environment has no WORLD_SIZE"),
    (("a:1", 0, 2), {}, "init_method must be a URL, such as .*; got 'a:1'"),
    ((3, 0, 2), {}, "init_method must be a URL, such as .*; got 3"),
    (("tcp://a:1", 2, 2), {}, "rank must be below size, the number of ranks, 2; got 2"),
    (("tcp://a:1", -1, 2), {}, "rank must be a whole number >= 0; got -1"),
])  # fmt: skip
def test_ranks_that_do_not_know_each_other_are_refused(given, variables, match):
    with pytest.raises(ValueError, match=match):
        Start.of(*given, *[None] * (3 - len(given)), variables)


def test_the_engine_is_refused_without_ranks_or_torch(monkeypatch):
    for name in (*TORCHRUN, "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    case = engine_cases.special()["no rounds"]
    with pytest.raises(ValueError, match="the Torch engine finds no other ranks"):
        case.run(engine="torch")
    monkeypatch.setitem(sys.modules, "torch.distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'consensus-opt\[torch\]'"):
        case.run(engine="torch")


@pytest.mark.parametrize(("timeout", "given"), [(1.0, 60.0), (60.0, 60.0), (600.0, 600.0)])
def test_ranks_have_a_minute_at_least_to_meet(timeout, given, monkeypatch):
    class Met(Exception):
        pass

    def meet(start, timeout):
        raise Met(start, timeout.total_seconds())

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    monkeypatch.setattr("consensus.frameworks.torch_engine._meet", meet)
    with pytest.raises(Met) as caught:
        consensus.engines.Torch("tcp://a:1", 1, 2, timeout=timeout)
    assert caught.value.args == (Start("tcp://a:1", 1, 2), given)


def test_ranks_that_are_started_again_meet_anew(monkeypatch):
    """The store of torchrun outlives them, with the addresses of those that have died."""
    prefixes = []

    class Store:
        def set_timeout(self, timeout):
            pass

    met = lambda url, rank, size, timeout: iter([(Store(), rank, size)])  # noqa: E731
    monkeypatch.setattr(sys.modules["torch.distributed.rendezvous"], "rendezvous", met)
    monkeypatch.setattr(torch.distributed, "PrefixStore", lambda prefix, store: prefixes.append(prefix))
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *_, **settings: None)
    for name, value in {**TORCHRUN, "MASTER_PORT": "0", "TORCHELASTIC_USE_AGENT_STORE": "True"}.items():
        monkeypatch.setenv(name, value)
    for count, size in ((None, 2), ("0", 2), ("1", 2), ("2", 2), ("2", 3)):
        monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)
        if count is not None:
            monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
        _meet(Start("env://", 0, size), timedelta(seconds=1))
    assert prefixes[0] == prefixes[1]
    assert len(set(prefixes)) == 4


def test_a_group_that_is_no_more_is_forgotten(monkeypatch):
    monkeypatch.setattr("consensus.frameworks.torch_engine.TorchTransport", lambda group: ["of", group])
    monkeypatch.setattr("consensus.frameworks.torch_engine._transports", known := {})
    monkeypatch.setattr(torch.distributed, "get_backend", lambda group=None: "gloo")
    for everyone in (first := object(), object()):
        monkeypatch.setattr(torch.distributed, "group", SimpleNamespace(WORLD=everyone))
        carried = _transport()
        assert carried is _transport()  # one for several engines
        assert carried == ["of", everyone]
        assert list(known) == [id(everyone)]
    assert everyone is not first


def test_what_must_not_be_written_to_is_copied_for_gloo():
    carrier = object.__new__(TorchTransport)
    carrier._coming, carrier._going, carrier._dist = {}, {}, SimpleNamespace(isend=None)
    carrier._request = lambda begin, rank, rows, tag: rows
    for writeable in (True, False):
        rows = np.arange(3.0)
        rows.flags.writeable = writeable
        ((rank, sent),) = carrier._begin([], [(1, rows)], 7).works
        assert rank == 1
        assert sent.flags.writeable
        assert np.shares_memory(sent, rows) == writeable
        np.testing.assert_array_equal(sent.view(float), rows)


@pytest.mark.slow
def test_a_rank_that_meets_nobody_says_how_long_it_waited(monkeypatch):
    monkeypatch.setattr("consensus.frameworks.torch_engine._MEETING", 1.0)
    with socket.socket() as taken:
        taken.bind(("localhost", 0))  # where nobody listens
        url = f"tcp://localhost:{taken.getsockname()[1]}"
        said = rf"^rank 1 did not meet all 2 ranks at {url}: PyTorch, given 1 s, gave up after \d s: "
        with pytest.raises(consensus.WorkerError, match=said):
            consensus.engines.Torch(url, 1, 2, timeout=1.0)


@pytest.mark.slow
def test_a_stopped_rank_is_named_and_the_others_end(port, tmp_path):
    """Under SLURM's variables."""
    shared = {"SLURM_NTASKS": "3", "SLURM_STEP_NODELIST": "localhost", "MASTER_PORT": port}
    ranks = by_hand(3, lambda rank: shared | {"SLURM_PROCID": str(rank)}, "stopped", tmp_path)
    try:
        said = [rank.communicate(timeout=60)[1] for rank in ranks[:2]]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    assert [rank.returncode for rank in ranks] == [1, 1, -signal.SIGKILL]
    late = r"in round \d+: rank 2 \(agents 4 to 6\) kept the others waiting for "  # not those which wait themselves
    (warned,) = [line for line in "".join(said).splitlines() if "UserWarning" in line]
    assert re.search(late + "[12] s so far", warned)
    assert re.search("WorkerError: " + late + r"over 2 s; raise Torch\(timeout=", said[0])
    assert "rank 0 (agents 0 to 1) has ended the job, and says why" in said[1] or re.search("WorkerError: " + late, said[1])
    (path,) = tmp_path.glob("history-of-Stops-until-round-*.csv")
    assert consensus.History.from_csv(path)["round"].tolist() == [0, 5]


@pytest.mark.slow
def test_a_rank_that_leaves_is_named(tmp_path):
    said = ended(3, "elsewhere", tmp_path, "torch")
    assert "WorkerError: at the beginning of consensus.solve: rank 1 has ended, or its connection broke" in said


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_restarted_ranks_go_on_from_the_checkpoint(killed, tmp_path):
    start = command("torch", 2, SCRIPT, "restarted", tmp_path)
    start[4:4] = ["--max-restarts", "2"]
    job = subprocess.Popen(start, env=environment(**{KIND: "torch"}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pids = wait_for(lambda: len(found := sorted(tmp_path.glob("rank-*"))) == 2 and [int(file.read_text()) for file in found])
    wait_for((tmp_path / "run.ckpt").exists)
    time.sleep(0.3)
    os.kill(pids[killed], signal.SIGKILL)
    try:
        said, _ = job.communicate(timeout=120)
    finally:
        job.terminate()  # and the ranks with it
        job.wait()
    assert job.returncode == 0
    assert json.loads(said)["resumed"] >= 7
    assert_same(read(tmp_path / "result.npz"), engine_cases.slow(rounds=100).run())


@pytest.mark.slow
def test_the_ranks_of_a_script_that_has_them_already_are_used(tmp_path):
    """Twice in a row, by two engines, in a group of the script's own."""
    done = started("torch", 2, SCRIPT, "grouped", tmp_path)
    assert done.returncode == 0, done.stderr
    text, *same = json.loads(done.stdout)
    assert text == "init_method, rank and size must be left out: torch.distributed has its ranks already"
    assert same == [True, True, True]


class Waited:
    """A work of gloo's that is over, or whose rank is lost."""

    def __init__(self, lost=False):
        self.lost = lost

    def wait(self, timeout):
        if self.lost:
            raise RuntimeError("connection closed")


@pytest.mark.parametrize("lost", [None, 5, 6])
def test_works_are_freed_before_the_rounds_go_on(lost):
    """What gloo frees on another thread while Python ends is a crash, so that nothing may be left to it."""
    works = [(rank, Waited(rank == lost)) for rank in (4, 5, 6)]
    alive = [weakref.ref(work) for _, work in works]
    messages = Messages(works, [], [])
    thread = threading.Thread(target=messages.wait)
    thread.start()
    assert messages.over(60)
    assert [one() for one in alive] == [None] * 3
    assert messages.lost == lost
    thread.join()
