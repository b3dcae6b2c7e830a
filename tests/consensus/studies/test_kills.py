"""A study that is killed and stopped, again and again, is the one that was never stopped."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import consensus
from tests.helpers import tiny_study


def start(*arguments, errors=subprocess.PIPE):
    environment = {**os.environ, "PYTHONPATH": str(Path(consensus.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, tiny_study.__file__, *map(str, arguments)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


class Children:
    """Processes of studies, one after the other, forked by one that has imported the package: imports take most of a start."""

    def __init__(self):
        self.server = start("serve", errors=None)  # a pipe that nobody reads would stop it

    def close(self):
        self.server.stdin.close()
        assert self.server.wait(60) == 0
        self.server.stdout.close()

    def begin(self, folder, workers):
        return int(self.ask(f"{folder} {workers}"))

    def ask(self, line):
        self.server.stdin.write(f"{line}\n")
        self.server.stdin.flush()
        return self.server.stdout.readline()

    def end(self):
        return os.waitstatus_to_exitcode(int(self.ask("")))


def stop(children, folder, workers, sign, more):
    """Send a signal to a study, and on ctrl-C to its workers, once so many files more are there; return how it ended."""
    runs, draws = folder / "runs", random.Random(more)
    have = len(list(runs.glob("*.npz")))
    process = children.begin(folder, workers)
    until = time.monotonic() + 120
    while len(list(runs.glob("*.npz"))) < have + more:
        assert time.monotonic() < until
        time.sleep(0.005)
    time.sleep(0.02 * draws.random())  # anywhere in a run
    (os.killpg if sign == signal.SIGINT else os.kill)(process, sign)
    return children.end()


@pytest.mark.slow
def test_killed_and_stopped_it_equals_one_that_never_was(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    tiny_study.study(whole).run(progress=False)
    children = Children()
    stops = [signal.SIGKILL, signal.SIGINT] * 5
    ends = [stop(children, broken, 2 if k in (3, 6) else 1, sign, 10 + k) for k, sign in enumerate(stops)]
    assert ends[::2] == [-signal.SIGKILL] * 5
    assert 0 not in ends
    children.begin(broken, 1)
    assert children.end() == 0
    children.close()
    names = sorted(path.name for path in (whole / "runs").iterdir())
    assert len(names) >= 200
    assert sorted(path.name for path in (broken / "runs").iterdir()) == names  # and no parts of files
    for name in names:
        one, other = (consensus.load(folder / "runs" / name) for folder in (whole, broken))
        assert (one.w.tobytes(), one.reason, one.rounds) == (other.w.tobytes(), other.reason, other.rounds)
        for column in one.history:
            assert column == "seconds" or np.array_equal(one.history[column], other.history[column], equal_nan=True)
    first, second = tiny_study.study(whole), tiny_study.study(broken)
    assert first.table().equals(second.table())
    assert first.grids().equals(second.grids())
    assert first.runs().equals(second.runs())


def children_of(process):
    """Return the processes that this one has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) == process:
                found.append(int(folder.name))
    return found


def alive(process):
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(process) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_forked_process_has_workers_of_its_own_and_they_end_with_it(tmp_path):
    children = Children()
    done = int(children.ask(f"here {tmp_path / 'first'} 2"))  # workers of the process that forks the others
    assert done >= 200
    process = children.begin(tmp_path / "second", 2)
    until = time.monotonic() + 120
    while len(list((tmp_path / "second" / "runs").glob("*.npz"))) < 5:
        assert time.monotonic() < until
        time.sleep(0.01)
    workers = children_of(process)
    assert len(workers) >= 2
    os.kill(process, signal.SIGKILL)
    assert children.end() == -signal.SIGKILL
    while any(map(alive, workers)):
        assert time.monotonic() < until
        time.sleep(0.05)
    children.begin(tmp_path / "second", 2)
    assert children.end() == 0
    children.close()
    first, second = (tiny_study.study(tmp_path / name) for name in ("first", "second"))
    assert first.table().equals(second.table())


@pytest.mark.slow
def test_ctrl_c_says_that_nothing_is_lost_and_another_process_is_refused(tmp_path):
    process = start(tmp_path, 1)
    while not list(tmp_path.glob("runs/*.npz")):
        time.sleep(0.01)
    with pytest.raises(ValueError, match="in use by another process"):
        tiny_study.study(tmp_path).run(progress=False)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert "stopped by the user: what is done is kept" in said
    assert process.returncode != 0
