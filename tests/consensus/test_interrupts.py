"""Ctrl-C at any place of a run: files are whole, and so are the result and its history."""

import linecache
import signal
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import consensus
from consensus.checkpoints.checkpoint import load
from consensus.data import load_shards, save_shards
from tests.helpers.checkpoints import run
from tests.helpers.engine_harness import assert_same


@pytest.fixture
def default_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # where a shell has started pytest in the background
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def ctrl_c_inside(default_ctrl_c, monkeypatch):
    """A function after which ctrl-C comes once, when an archive has been opened for its first array."""
    opened, coming = zipfile.ZipFile.open, []

    def interrupted(self, *arguments, **options):
        handle = opened(self, *arguments, **options)
        if self.mode == "w" and coming:
            coming.clear()
            signal.raise_signal(signal.SIGINT)
        return handle

    monkeypatch.setattr(zipfile.ZipFile, "open", interrupted)
    yield lambda: coming.append(True)
    assert not coming


def test_a_run_ends_with_the_checkpoint_that_was_being_written(tmp_path, ctrl_c_inside):
    path = tmp_path / "run.ckpt"
    run(rounds=2, checkpoint=path)
    ctrl_c_inside()
    with pytest.raises(consensus.Interrupted, match=r"after round 5;.*run\.ckpt"):
        run(rounds=8, checkpoint=path, resume=path, every=5)
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]
    assert load(path).fields["round"] == 5
    assert_same(run(rounds=8, resume=path), run(rounds=8))


def test_shards_can_be_saved_again(tmp_path, ctrl_c_inside):
    shards = consensus.partition(np.arange(12.0)[:, None], np.arange(12.0), 3)
    ctrl_c_inside()
    with pytest.raises(KeyboardInterrupt):
        save_shards(shards, tmp_path)
    save_shards(shards, tmp_path)  # a part of a file would be one of other shards
    np.testing.assert_array_equal(load_shards(tmp_path).features, shards.features)


PACKAGE = str(Path(consensus.__file__).parent)


class AtLine:
    """A trace function after which ctrl-C comes before the k-th line that the package executes.

    Two kinds of lines do not count: those of the delay itself, which takes a few microseconds to begin, and ``with``, which is
    traced once more at its end, where Python handles no signals.
    """

    def __init__(self, k):
        self.left = k

    def __call__(self, frame, event, _):
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE) or name.endswith("_interrupts.py"):
            return None
        if event == "line" and not linecache.getline(name, frame.f_lineno).lstrip().startswith("with "):
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self


def interrupted(k, **options):
    """What a run raises if ctrl-C comes before its k-th line, and how many lines it was from there."""
    trace, before = AtLine(k), sys.gettrace()
    sys.settrace(trace)
    try:
        run(**options)
    except KeyboardInterrupt as error:
        return error, trace.left
    finally:
        sys.settrace(before)
    return None, trace.left


@pytest.mark.slow
def test_ctrl_c_before_any_line_leaves_whole_rounds(tmp_path, default_ctrl_c):
    options = {"rounds": 3, "checkpoint": tmp_path / "run.ckpt", "every": 2}
    full, at = run(**options).history, [run(rounds=rounds).w for rounds in range(4)]
    lines = 10**6 - interrupted(10**6, **options)[1]
    seen = set()
    for k in range(lines // 3, lines, 37):
        options["checkpoint"].unlink(missing_ok=True)
        error, _ = interrupted(k, **options)
        files = [file.name for file in tmp_path.iterdir()]
        assert files in ([], ["run.ckpt"])
        if not isinstance(error, consensus.Interrupted):  # it came before the start was seen, or after the end
            continue
        history = error.result.history
        for name in set(history) - {"seconds"}:
            np.testing.assert_array_equal(history[name], full[name][: history.rows])
        assert {len(history[name]) for name in history} <= {history.rows}
        np.testing.assert_array_equal(error.result.w, at[error.result.rounds])
        assert files == (["run.ckpt"] if "resume=" in str(error) else [])
        if files:
            assert_same(run(rounds=3, resume=options["checkpoint"]), run(rounds=3))
        seen.add((history.rows, bool(files)))
    assert seen >= {(1, False), (1, True), (2, True), (3, True)}
