"""Checkpoints of ranks: each writes its rows to its own disk, and any number of ranks finds them again."""

import functools
import os
import re
import shutil
import socket
from contextlib import contextmanager

import numpy as np
import pytest

import consensus
from consensus._arrays.files import Hold
from consensus.checkpoints import checkpoint
from consensus.checkpoints import parts as checkpoint_parts
from consensus.checkpoints.checkpoint import Checkpoint, load
from consensus.engines import rank_files
from consensus.engines.ranks import agree
from consensus.workers.blocks import blocks_of
from tests.helpers import engine_cases, engine_disks
from tests.helpers.checkpoints import without_times
from tests.helpers.engine_harness import assert_same, on_ranks, read
from tests.helpers.ranks_on_threads import together

AGENTS = 7


def state(round=3):
    """A state of all agents, of several dtypes and shapes, one of them without numbers."""
    rng = np.random.default_rng(round)
    rows = {"w": rng.standard_normal((AGENTS, 5)), "single": rng.standard_normal((AGENTS, 2, 3)).astype(np.float32)}
    rows |= {"none": np.empty((AGENTS, 0)), "yes": rng.random(AGENTS) < 0.5, "count": rng.integers(0, 9, (AGENTS, 1))}
    return {"round": round, "kept": 0.25} | rows


@contextmanager
def agreed(ranks):
    error = None
    try:
        yield
    except Exception as caught:
        error = caught
    agree(ranks, error, {})


def save(disks, round=3):
    """Save on as many ranks as ``disks``, each in its folder."""
    blocks = blocks_of(AGENTS, len(disks))

    def one(ranks):
        hold, rows = Hold(disks[ranks.me] / "run.ckpt"), blocks[ranks.me]
        own = {name: value[rows] if np.ndim(value) else value for name, value in state(round).items()}
        saved = Checkpoint(own, consensus.History(), {"messages": round}, 1.5, {"solver": "some"})
        try:
            rank_files.hold(ranks, functools.partial(agreed, ranks), hold)
            rank_files.save(ranks, np.array([block.stop - block.start for block in blocks]), hold, saved)
        finally:
            hold.release()

    together(len(disks), one)


def found(disks):
    """The rounds and states that as many ranks as ``disks`` find, those of all agents put together."""

    def one(ranks):
        again = functools.partial(agreed, ranks)
        path = disks[ranks.me] / "run.ckpt"
        return rank_files.load(ranks, again, path, lambda _: None, lambda agents: blocks_of(agents, len(disks)))

    everyone = together(len(disks), one)
    assert len({(one.round, one.seconds, one.counts["messages"], str(one.fingerprint)) for one in everyone}) == 1
    assert [one.fields["kept"] for one in everyone] == [0.25] * len(disks)
    names = [name for name, value in everyone[0].fields.items() if np.ndim(value)]
    return everyone[0].round, {name: np.concatenate([one.fields[name] for one in everyone]) for name in names}


def assert_found(disks, round=3):
    there, rows = found(disks)
    expected = {name: value for name, value in state(round).items() if np.ndim(value)}
    assert (there, {*rows}) == (round, {*expected})
    for name, value in expected.items():
        assert rows[name].dtype == value.dtype
        np.testing.assert_array_equal(rows[name], value, err_msg=name)


@pytest.fixture
def disks(tmp_path, monkeypatch):
    """Folders of which no two ranks see the same."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # test_checkpoint_file.py looks after it
    folders = [tmp_path / f"disk-{number}" for number in range(4)]
    for folder in folders:
        folder.mkdir()
    return folders


@pytest.mark.parametrize("readers", [[0, 0], [0], [0] * 7])
@pytest.mark.parametrize("writers", [2, 3, 4])
def test_ranks_find_what_others_wrote_to_a_common_folder(writers, readers, disks):
    save([disks[0]] * writers)
    blocks = blocks_of(AGENTS, writers)
    for name in os.listdir(disks[0]):  # each rank has written its own rows alone
        if number := re.fullmatch(rf"run\.ckpt\.3-[0-9a-f]+\.(\d)-of-{writers}", name):
            with np.load(disks[0] / name) as part:
                np.testing.assert_array_equal(part["state.w"], state()["w"][blocks[int(number[1])]])
    assert len(os.listdir(disks[0])) == writers + 1
    assert_found([disks[number] for number in readers])
    whole = load(disks[0] / "run.ckpt")  # by one process
    assert whole.parts == ()
    for name, value in state().items():
        np.testing.assert_array_equal(whole.fields[name], value)


@pytest.mark.parametrize(("writers", "readers"), [([0, 1, 2], [2, 1, 0]), ([0, 0, 1], [1, 0]), ([0, 1], [3, 1, 0, 2])])
def test_ranks_send_each_other_what_is_on_their_disks(writers, readers, disks):
    save([disks[number] for number in writers])
    for number in {*writers}:
        assert len(os.listdir(disks[number])) == 1 + writers.count(number)
    assert_found([disks[number] for number in readers])


def test_what_one_process_wrote_is_sent_to_ranks_that_do_not_see_it(disks):
    checkpoint.write(disks[2] / "run.ckpt", Checkpoint(state(), consensus.History(), {"messages": 3}, 1.5, {}))
    assert_found([disks[0], disks[2], disks[1]])
    with pytest.raises(FileNotFoundError, match=r"run\.ckpt"):
        found([disks[0], disks[0]])


def test_a_part_that_nobody_sees_is_named_with_its_machine(disks):
    save(disks[:3])
    lacking = r"disk-[02]/run\.ckpt is a checkpoint in parts and lacks run\.ckpt\.3-[0-9a-f]+\.1-of-3 \(agents 2 to 3, written "
    with pytest.raises(ValueError, match=f"{lacking}on " + re.escape(socket.gethostname())):
        found([disks[0], disks[2]])
    with pytest.raises(ValueError, match=r"lacks run.ckpt\S+1-of-3 .*, run.ckpt\S+2-of-3 "):
        found([disks[0], disks[3]])
    with pytest.raises(ValueError, match=r"run\.ckpt\S+1-of-3 \(agents 2 to 3"):
        load(disks[0] / "run.ckpt")


def flip(file, _):
    content = bytearray(file.read_bytes())
    content[content.index(b"state.w") + 200] ^= 1
    file.write_bytes(content)


SPOILT = {
    "a flipped bit": (flip, "is (damaged|no part of a checkpoint)"),
    "cut short": (lambda file, _: file.write_bytes(file.read_bytes()[:-10]), "is no part of a checkpoint of this package"),
    "another part": (shutil.copy, r"is another part than its name says, run\.ckpt\.3-[0-9a-f]+\.0-of-2; go on from another"),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_part_is_refused_on_all_ranks(how, disks):
    save(disks[:2])
    (first,), (file,) = (list(disk.glob("run.ckpt.*")) for disk in disks[:2])
    spoil, said = SPOILT[how]
    spoil(*((first, file) if spoil is shutil.copy else (file, None)))
    match = re.escape(str(file)) + " " + said
    with pytest.raises(ValueError, match=match):
        found(disks[:2])


@pytest.mark.parametrize("where", [[0, 0, 0], [0, 1, 1]])
def test_old_parts_are_removed_and_those_of_other_checkpoints_stay(where, disks):
    used = [disks[number] for number in where]
    others = ["run.ckpt.best", "run.ckpt.3-0f.0-of", "other.ckpt.3-0f.0-of-3"]
    for disk in {*used}:
        for name in others:
            (disk / name).touch()
    save(used[:2], 2)
    save(used, 3)
    for disk in {*used}:
        assert len(os.listdir(disk)) == len(others) + 1 + used.count(disk)
    assert_found(used, 3)
    checkpoint.write(disks[0] / "run.ckpt", Checkpoint(state(4), consensus.History(), {"messages": 4}, 1.5, {}))
    assert sorted(os.listdir(disks[0])) == sorted([*others, "run.ckpt"])


class Killed(BaseException):
    """What happens to a rank."""


@pytest.mark.parametrize(
    ("dies", "left"),
    [("part of 1", 3), ("part of 0", 3), ("common of 0", None), ("common of 1", None), ("common of both", 3)],
)
def test_a_killed_rank_leaves_one_whole_checkpoint(dies, left, disks, monkeypatch):
    save(disks[:2], 3)
    write, common = checkpoint_parts.write, rank_files.write
    here = {disks[0]: "0", disks[1]: "1"}

    def dying(what, original, path, *rest):
        if dies in (f"{what} of {here[path.parent]}", f"{what} of both"):
            raise Killed
        original(path, *rest)

    monkeypatch.setattr(checkpoint_parts, "write", functools.partial(dying, "part", write))
    monkeypatch.setattr(rank_files, "write", functools.partial(dying, "common", common))
    with pytest.raises(Killed):
        save(disks[:2], 4)
    monkeypatch.undo()
    assert_found(disks[:2], left or 4)
    save([disks[1], disks[0]], 5)
    assert_found(disks[:2], 5)
    assert [len(os.listdir(disk)) for disk in disks[:2]] == [2, 2]


def test_another_run_with_one_of_the_paths_is_named_on_all_ranks(disks):
    other = Hold(disks[1] / "run.ckpt")
    other.take()
    other.lock.write_text("process 1 on elsewhere")  # these ranks are threads of this process
    with pytest.raises(ValueError, match=r"disk-1/run\.ckpt is that of another run, process 1 on elsewhere: wait for its end"):
        save([disks[0], disks[1], disks[1]])
    other.release()
    assert not any((disk / "run.ckpt").exists() for disk in disks)
    save([disks[0], disks[1], disks[1]])


def test_unfinished_parts_of_a_killed_rank_are_removed_by_the_next_run(disks):
    left = disks[0] / ".run.ckpt.3-1a2b.0-of-2.0123456789abcdef.part"
    left.touch()
    save([disks[0]] * 2)
    assert not left.exists()


# Ranks with disks of their own: checkpoints and shards, each on the disk of the rank whose agents they are of.


def own_files(shards, folder, ranks):
    """Write to each rank's disk the samples of its own agents alone, with the index."""
    consensus.data.save_shards(shards, folder / f"shards-{ranks}")
    for rank, rows in enumerate(blocks_of(engine_cases.AGENTS, ranks)):
        disk = folder / f"disk-{rank}" / "shards"
        shutil.rmtree(disk, ignore_errors=True)
        disk.mkdir(parents=True)
        for name in ("index.json", *(f"agent-{agent}.npz" for agent in range(rows.start, rows.stop))):
            shutil.copy(folder / f"shards-{ranks}" / name, disk)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "other"), [("mpi", "torch"), ("torch", "mpi")])
def test_ranks_with_disks_of_their_own_stop_and_go_on(kind, other, tmp_path, forked):
    """Three save, each in its working directory; two go on, and so does one process."""
    shards, alone = engine_cases.problem().shards, tmp_path / "alone"
    cases = engine_disks.cases(shards)
    assert len(cases) == len(engine_disks.SOME) + 1
    alone.mkdir()
    own_files(shards, tmp_path, 3)
    on_ranks(3, "save_apart", tmp_path, kind)
    for name in cases:
        (moved,) = (tmp_path / "disk-2").glob(f"{name}.*.2-of-3")
        for disk in (0, 1):
            assert not list((tmp_path / f"disk-{disk}").glob(f"{name}.*.2-of-3"))
        shutil.copy(moved, tmp_path / "disk-1")
        for file in tmp_path.glob(f"disk-*/{name}*"):
            shutil.copy(file, alone)
    own_files(shards, tmp_path, 2)
    assert on_ranks(2, "resume_apart", tmp_path, other) == {"differ": []}
    for name, case in cases.items():
        expected = case.run()
        assert_same(read(tmp_path / f"{name}.npz"), expected, name)
        case.run(rounds=engine_cases.UNTIL, checkpoint=tmp_path / name)
        assert without_times(alone / name) == without_times(tmp_path / name)
        for engine in ("stacked", consensus.engines.Processes(3)):
            assert_same(case.run(engine=engine, resume=alone / name), expected, name)


@pytest.mark.slow
def test_a_rank_killed_between_the_files_of_a_checkpoint(tmp_path):
    """The first rank has written the second checkpoint, the other has not."""
    (tmp_path / "kill").touch()
    with pytest.raises(AssertionError):
        on_ranks(2, "killed_apart", tmp_path, "mpi")
    rounds = [checkpoint.read(tmp_path / f"disk-{rank}" / "run.ckpt").round for rank in range(2)]
    assert rounds == [14, 7]
    (tmp_path / "kill").unlink()
    on_ranks(2, "killed_apart", tmp_path, "mpi")
    assert_same(read(tmp_path / "result.npz"), engine_cases.slow(rounds=30).run())
