"""Folders of shards: what is damaged or missing is named."""

import json

import broken_files
import numpy as np
import pytest

import consensus
from consensus.data import load_shards, save_shards

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 2)), RNG.standard_normal(30)


@pytest.mark.parametrize("damage", broken_files.WAYS)
@pytest.mark.parametrize("name", ["index.json", "agent-1.npz"])
def test_damaged_shards_are_named(tmp_path, damage, name):
    save_shards(consensus.partition(X, Y, 3), tmp_path)
    damage(tmp_path / name)
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        load_shards(tmp_path)


@pytest.mark.parametrize("change", [{"agents": "3"}, {"agents": -1}, {"most": None}, {"samples": 0.5}, {"format": "one"}])
def test_an_index_that_says_nonsense_is_refused(tmp_path, change):
    save_shards(consensus.partition(X, Y, 3), tmp_path)
    path = tmp_path / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=str(tmp_path)):
        load_shards(tmp_path)
    path.write_text("[1, 2]")
    with pytest.raises(ValueError, match=r"has shards of format \[1, 2\]"):
        load_shards(tmp_path)


def test_agents_files_must_fit_each_other_and_the_index(tmp_path):
    save_shards(consensus.partition(X, Y, 3), tmp_path)
    path = tmp_path / "agent-1.npz"
    good = dict(np.load(path))
    for wrong in (
        {"features": good["features"][:, :1]},
        {"features": good["features"].astype(np.float32)},
        {"targets": good["targets"][:-1]},
        {"indices": good["indices"].astype(float)},
        {name: np.concatenate([array] * 2) for name, array in good.items()},
    ):
        np.savez(path, **good | wrong)
        with pytest.raises(ValueError, match=r"agent[ -]1"):
            load_shards(tmp_path)
    np.savez(path, features=good["features"])
    with pytest.raises(ValueError, match=r"agent-1\.npz must have the array 'targets', 'indices'; it has 'features'"):
        load_shards(tmp_path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        load_shards(tmp_path)


@pytest.mark.parametrize(
    ("agents", "error"),
    [
        ([], ValueError),
        ([3], ValueError),
        ([-1], ValueError),
        (0.5, TypeError),
        ("x", TypeError),
        (int, TypeError),
        (1, TypeError),
    ],
    ids=repr,
)
def test_agents_who_are_not_there(tmp_path, agents, error):
    save_shards(consensus.partition(X, Y, 3), tmp_path)
    with pytest.raises(error, match=r"^agents must "):
        load_shards(tmp_path, agents)


@pytest.mark.parametrize("odd", [None, 3, "x", [], {}, np.eye(3), type], ids=lambda odd: type(odd).__name__)
def test_what_is_no_shards_is_not_saved(tmp_path, odd):
    with pytest.raises(TypeError, match=r"^shards must be Shards"):
        save_shards(odd, tmp_path / "new")
    assert not (tmp_path / "new").exists()
