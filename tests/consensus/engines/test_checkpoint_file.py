"""The file of a checkpoint: plain arrays with a checksum, written whole or not at all, by one run at a time."""

import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import consensus
import topologies
from consensus.checkpoints.checkpoint import FORMAT, load
from consensus.engines import Stacked
from tests.helpers.checkpoints import contents, rewrite, run
from tests.helpers.engine_harness import assert_same


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.ckpt"


def test_a_checkpoint_is_plain_arrays(tmp_path):
    path = tmp_path / "folder that is new" / "run"
    with pytest.raises(FileNotFoundError, match="folder that is new"):
        run(resume=path)
    result = run(rounds=6, checkpoint=path, every=4)
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}  # each is read: none is a pickle
    state = {f"state.{name}" for name in ("round", "w", "y", "gradient")}
    assert set(arrays) == {"about", "checksum"} | state | {f"history.{name}" for name in result.history}
    assert not any(array.dtype.hasobject for array in arrays.values())
    np.testing.assert_array_equal(arrays["state.w"], result.w)
    np.testing.assert_array_equal(arrays["history.objective"], result.history["objective"])
    about = json.loads(arrays["about"].tobytes())
    assert about["format"] == FORMAT
    assert about["counts"]["messages"] == result.history["messages"][-1]


def accepted_with_other_contents(path, bits):
    """Those of ``bits`` whose flip goes unnoticed; every refusal names the file."""
    good, expected, unnoticed = path.read_bytes(), contents(path), []
    for bit in bits:
        spoilt = bytearray(good)
        spoilt[bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoilt)
        try:
            if contents(path) != expected:
                unnoticed.append(bit)
        except ValueError as error:
            if str(path) not in str(error):
                raise
    path.write_bytes(good)
    return unnoticed


@pytest.mark.slow
def test_a_flipped_bit_is_refused_or_changes_nothing(path):
    # Zip compares its own sums only at the end of an array: a smaller shape would pass.
    small = {"shards": consensus.partition(np.eye(4, 2), np.arange(4.0), 3), "start": np.zeros(3)}
    run(rounds=3, checkpoint=path, model=consensus.Linear(2), network=topologies.ring(3), **small)
    good = path.read_bytes()
    texts = [text.span(1) for text in re.finditer(rb"'shape': (\([^)]*\))", good)]
    shapes = [8 * byte + bit for span in texts for byte in range(*span) for bit in range(8)]
    assert len(shapes) > 400
    assert accepted_with_other_contents(path, shapes) == []
    ends = [*range(8 * 60), *range(8 * len(good) - 8 * 120, 8 * len(good))]
    anywhere = np.random.default_rng(0).choice(8 * len(good), 400, replace=False)
    assert accepted_with_other_contents(path, [*ends[::3], *anywhere.tolist()]) == []


def without(name):
    return lambda arrays, _: {other: array for other, array in arrays.items() if other != name}


NONE, DAMAGED = "is no checkpoint of this package", "is damaged: its checksum is not that of its contents"
SPOILT = {
    "empty": (lambda path: path.write_bytes(b""), NONE),
    "text": (lambda path: path.write_text("round,objective\n0,1.0\n"), NONE),
    "its beginning": (lambda path: path.write_bytes(path.read_bytes()[:2000]), NONE),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:-10]), NONE),
    "other arrays": (lambda path: rewrite(path, without("about")), NONE),
    "one array": (lambda path: np.save(path.open("wb"), np.ones(3)), NONE),
    "pickle": (lambda path: np.savez(path.open("wb"), about=np.array([{"format": 1}], dtype=object)), NONE),
    "another format": (lambda path: rewrite(path, lambda _, about: about.update(format=9)),
     f"has checkpoint format 9; this version reads format {FORMAT}"),
    "classes by their modules": (lambda path: rewrite(path, lambda _, about: about.update(format=6)),
     f"has checkpoint format 6; this version reads format {FORMAT}: use the version of the package that wrote it"),
    "another array": (lambda path: rewrite(path, lambda a, _: a | {"state.w": a["state.y"]}), DAMAGED),
    "another dtype": (lambda path: rewrite(path, lambda a, _: a | {"state.w": a["state.w"].astype(">f8")}), DAMAGED),
    "another shape": (lambda path: rewrite(path, lambda a, _: a | {"state.w": a["state.w"].reshape(-1)}), DAMAGED),
    "one more": (lambda path: rewrite(path, lambda a, _: a | {"state.more": np.zeros(6)}), DAMAGED),
    "one less": (lambda path: rewrite(path, without("history.objective")), DAMAGED),
    "no checksum": (lambda path: rewrite(path, without("checksum")), DAMAGED),
    "other seconds": (lambda path: rewrite(path, lambda _, about: about.update(seconds=0.0)), DAMAGED),
}  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_file_that_is_no_whole_checkpoint_is_refused(spoil, path):
    change, said = SPOILT[spoil]
    run(checkpoint=path)
    change(path)
    for reads in (load, lambda path: run(resume=path), lambda path: run(resume=path, engine="processes")):
        with pytest.raises(ValueError, match=rf"run\.ckpt {said}"):
            reads(path)


def test_a_system_that_opens_no_folders_saves_too(path, monkeypatch):
    monkeypatch.delattr(os, "O_DIRECTORY")
    opens = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: (os.path.isdir(path) and pytest.fail("a folder")) or opens(path, *rest))
    result = run(checkpoint=path)
    assert_same(run(resume=path), result)


@pytest.mark.parametrize("made", ["folder", "file/run.ckpt", "file/in/run.ckpt", "unwritable/run.ckpt"])
def test_a_place_that_cannot_be_written_is_refused_before_work(made, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "unwritable").mkdir(mode=0o500)
    if made.startswith("unwritable"):  # root may write anywhere
        monkeypatch.setattr(tempfile, "NamedTemporaryFile", lambda dir: (_ for _ in ()).throw(PermissionError(13, "not yours")))
    monkeypatch.setattr(Stacked, "run", None)  # no work is done
    with pytest.raises(ValueError, match=r"^checkpoint must be a file.*; got .*" + re.escape(str(tmp_path / made))):
        run(checkpoint=tmp_path / made)


@pytest.mark.parametrize("fails", ["savez", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "ctrl-C"])
def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(fails, error, path, monkeypatch):
    run(rounds=4, checkpoint=path)
    before = path.read_bytes()

    def full(*arguments, **_):
        if fails == "savez":
            arguments[0].write(b"PK the first part of a file")
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(np if fails == "savez" else os, fails, full)
        with pytest.raises(type(error)):
            run(rounds=8, checkpoint=path, resume=path, every=1)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["run.ckpt"]
    assert_same(run(rounds=8, resume=path), run(rounds=8))


def test_the_new_file_is_on_the_disk_before_the_old_one_goes(path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, original=original: (done.append(name), original(*a))[1])
    run(rounds=0, checkpoint=path)
    assert done == ["fsync", "replace", "fsync"]  # the file, the name, the folder that has it


def test_the_second_run_with_a_path_is_told_of_the_first(path):
    refused = []

    def another(seen):
        if seen.round == 2:
            other = rf"run\.ckpt is that of another run, process {os.getpid()} on \S+ since \w+"
            with pytest.raises(ValueError, match=other) as caught:
                run(checkpoint=path, resume=path)
            refused.append(caught)

    result = run(rounds=4, record_every=1, checkpoint=path, every=1, callbacks=[another])
    assert len(refused) == 1
    assert os.listdir(path.parent) == ["run.ckpt"]
    assert_same(run(rounds=4, record_every=1, resume=path), result)
    assert_same(run(rounds=6, record_every=1, resume=path, checkpoint=path), run(rounds=6, record_every=1))  # it is free again


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_the_path_is_free_after_a_run_that_failed(error, path):
    def fail(_):
        raise error

    with pytest.raises((OSError, consensus.Interrupted)):
        run(checkpoint=path, callbacks=[fail])
    assert run(checkpoint=path).rounds == 6


KILLED = """
import sys; sys.path[:0] = {path!r}
from pathlib import Path
from consensus._arrays.files import Hold
Hold(Path("run.ckpt")).take()
print("taken", flush=True)
input()
"""


def test_the_files_of_a_killed_process_are_taken_over(path):
    """Its lock ends with it; its lock file and part are removed, and no other run's."""
    folder, others = path.parent, [".other.ckpt.0123456789abcdef.part", ".run.ckpt.backup.part"]
    for name in (*others, ".run.ckpt.0123456789abcdef.part", ".run.ckpt.history.csv.0123456789abcdef.part"):
        (folder / name).write_text("a part")
    script = KILLED.format(path=[str(Path(consensus.__file__).parents[1])])
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True, cwd=folder) as holder:
        assert holder.stdout.readline() == "taken\n"
        with pytest.raises(ValueError, match=f"another run, process {holder.pid} on "):
            run(checkpoint=path)
        holder.kill()
    assert (folder / ".run.ckpt.lock").exists()
    run(checkpoint=path)
    assert sorted(os.listdir(folder)) == sorted([*others, "run.ckpt"])


def test_two_writers_have_a_part_each(tmp_path, monkeypatch):
    path, other, original, result = tmp_path / "run.npz", tmp_path / "other.npz", np.savez, run()
    result.save(other)

    def meanwhile(file, **arrays):
        original(file, **arrays)
        monkeypatch.setattr(np, "savez", original)
        result.save(path)

    monkeypatch.setattr(np, "savez", meanwhile)
    result.save(path)
    assert sorted(os.listdir(tmp_path)) == ["other.npz", "run.npz"]
    assert path.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("planted", [".run.ckpt.part", ".run.ckpt.0000000000000000.part", ".run.ckpt.lock", "run.ckpt"])
def test_a_planted_link_is_not_followed(planted, tmp_path, monkeypatch):
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / planted).symlink_to(tmp_path / "precious")
    if "0000" in planted:
        monkeypatch.setattr("consensus._arrays.files.secrets.token_hex", lambda _: "0" * 16)
        monkeypatch.setattr("consensus._arrays.files.Hold.take", lambda _: None)  # which would remove it
    with suppress(OSError):
        run(checkpoint=tmp_path / "run.ckpt")
    assert (tmp_path / "precious").read_text() == "keep me"


def test_a_pipe_is_written_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    history = run().history
    history.to_csv(tmp_path / "pipe")
    history.to_csv(tmp_path / "file")
    assert reader.communicate()[0] == (tmp_path / "file").read_bytes()
    assert (tmp_path / "pipe").is_fifo()
