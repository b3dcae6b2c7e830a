"""A study that is killed and stopped, again and again, is the one that was never stopped."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tiny_study

import consensus

HELPERS = Path(tiny_study.__file__).parent


def start(folder, workers):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HELPERS), str(Path(consensus.__file__).parents[1])])}
    return subprocess.Popen(
        [sys.executable, tiny_study.__file__, str(folder), str(workers)],
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def stop(process, folder, sign, more):
    """Send a signal to the process, and on ctrl-C to its workers, once so many files more are there; return whether it came."""
    runs, draws = folder / "runs", random.Random(more)
    have = len(list(runs.glob("*.npz")))
    while process.poll() is None:
        if len(list(runs.glob("*.npz"))) >= have + more:
            time.sleep(0.02 * draws.random())  # anywhere in a run
            (os.killpg if sign == signal.SIGINT else os.kill)(process.pid, sign)
            process.wait(60)
            return True
        time.sleep(0.005)
    return False


@pytest.mark.slow
def test_killed_and_stopped_it_equals_one_that_never_was(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    tiny_study.study(whole).run(progress=False)
    stops = [signal.SIGKILL, signal.SIGINT] * 5
    came = [stop(start(broken, 2), broken, sign, 12 + k) for k, sign in enumerate(stops)]
    assert came == [True] * 10
    last = start(broken, 2)
    said = last.communicate(timeout=300)[1]
    assert last.returncode == 0, said
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


@pytest.mark.slow
def test_ctrl_c_says_that_nothing_is_lost_and_another_process_is_refused(tmp_path):
    process = start(tmp_path, 1)
    while not list(tmp_path.glob("runs/*.npz")):
        time.sleep(0.01)
    with pytest.raises(ValueError, match="in use by another process"):
        tiny_study.study(tmp_path).run(progress=False)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1].decode()
    assert "stopped by the user: what is done is kept" in said
    assert process.returncode != 0
