"""Ranks with disks of their own: checkpoints and shards, each on the disk of the rank whose agents they are of."""

import shutil

import pytest

import consensus
from consensus.checkpoints import checkpoint
from consensus.workers.blocks import blocks_of
from tests.helpers import engine_cases, engine_disks
from tests.helpers.checkpoints import without_times
from tests.helpers.engine_harness import assert_same, on_ranks, read


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
