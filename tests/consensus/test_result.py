"""Results on disk and in a line."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.solvers import DGD
from tests.helpers import broken_files

CENTRES = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def shards():
    return consensus.partition(CENTRES, np.ones(4), 3)


@pytest.fixture(scope="module")
def result(shards):
    problem = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    options = {"rounds": 7, "record_every": 3, "agent_objectives": True, "metrics": {"first": lambda mean: mean[0]}}
    return consensus.solve(problem, topologies.ring(3), DGD(0.1), **options)


def test_a_result_comes_back_to_the_bit(result, tmp_path):
    path = tmp_path / "folder" / "run.npz"
    result.save(path)
    again = consensus.load(str(path))
    assert (again.rounds, again.reason, again.solver) == (7, "all 7 rounds done", str(result.solver))
    assert again.w.dtype == np.float32
    np.testing.assert_array_equal(again.w, result.w)
    np.testing.assert_array_equal(again.mean, result.mean)
    assert list(again.history) == list(result.history)
    for name in result.history:
        assert again.history[name].dtype == result.history[name].dtype
        np.testing.assert_array_equal(again.history[name], result.history[name])
    assert again.history["agent_objective"].shape == (4, 3)
    again.save(path)  # over itself, and whole
    np.testing.assert_array_equal(consensus.load(path).w, result.w)
    assert [file.name for file in path.parent.iterdir()] == ["run.npz"]
    with np.load(path, allow_pickle=False) as file:
        assert all(not file[name].dtype.hasobject for name in file.files)


@pytest.mark.parametrize("damage", broken_files.WAYS)
def test_damaged_files_are_refused(result, damage, tmp_path):
    result.save(tmp_path / "run.npz")
    damage(tmp_path / "run.npz")
    with pytest.raises(ValueError, match=r"run\.npz (is no result of this package|is damaged: its checksum)"):
        consensus.load(tmp_path / "run.npz")


@pytest.mark.parametrize("how", ["packed", "claimed"])
def test_sizes_are_looked_at_before_arrays_take_memory(result, how, tmp_path):
    result.save(tmp_path / "run.npz")
    if how == "packed":
        with np.load(tmp_path / "run.npz") as file:
            np.savez_compressed(tmp_path / "run.npz", **dict(file) | {"w": np.zeros((3, broken_files.LARGE // 3))})
    else:
        broken_files.claiming(tmp_path / "run.npz", "w")
    assert (tmp_path / "run.npz").stat().st_size < 100_000
    with broken_files.little_memory(), pytest.raises(ValueError, match=r"run\.npz is no result of this package"):
        consensus.load(tmp_path / "run.npz")


def test_what_is_no_result_is_refused(result, tmp_path):
    result.save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(tmp_path / "run.npz", **arrays | {"w": 2 * arrays["w"]})
    with pytest.raises(ValueError, match=r"run\.npz is damaged: its checksum is not that of its contents$"):
        consensus.load(tmp_path / "run.npz")
    np.savez(tmp_path / "data.npz", X=CENTRES)
    with pytest.raises(ValueError, match=r"data\.npz is no result of this package"):
        consensus.load(tmp_path / "data.npz")
    problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    consensus.solve(problem, topologies.ring(3), DGD(0.1), rounds=1, checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(ValueError, match=r"run\.ckpt has result format \d; this version reads format result 1"):
        consensus.load(tmp_path / "run.ckpt")
    result.save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match=r"run\.npz has checkpoint format result 1; this version reads format \d"):
        consensus.solve(problem, topologies.ring(3), DGD(0.1), rounds=1, resume=tmp_path / "run.npz")
    with pytest.raises(FileNotFoundError, match="absent"):
        consensus.load(tmp_path / "absent")
    with pytest.raises(ValueError, match="path must be that of a file; got ''"):
        result.save("")
    for call in (consensus.load, result.save):
        with pytest.raises(TypeError, match="path must be a path"):
            call(3)


def test_a_full_disk_leaves_the_old_one(result, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    result.save(path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(np, "savez", full)
        with pytest.raises(OSError, match="No space left"):
            result.save(path)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


def test_they_show_themselves_in_a_line(result, shards):
    columns = f"round, objective, stationarity, disagreement, ... ({len(list(result.history))} columns)"
    assert repr(result.history) == f"History(4 rows of {columns})"
    assert repr(result) == f"Result(all 7 rounds done; w (3, 4), {result.history!r})"
    assert repr(shards) == "Shards(3 agents, 1 to 2 samples each, features (3,), targets (1,), float32)"
    assert repr(shards.restrict([1])) == "Shards(1 of 3 agents, 1 samples each, features (3,), targets (1,), float32)"
    assert repr(shards.restrict([])).startswith("Shards(0 of 3 agents, 0 samples")
    assert repr(consensus.History()) == "History(0 rows of )"
