"""Folders of shards: what is damaged or missing is named."""

import json

import broken_files
import numpy as np
import pandas as pd
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


def test_files_with_more_samples_than_the_index_says_take_no_memory(tmp_path):
    save_shards(consensus.partition(X, Y, 3), tmp_path)
    many = broken_files.LARGE // 4
    arrays = {"features": np.zeros((many, 2)), "targets": np.zeros((many, 1)), "indices": np.zeros(many, int)}
    np.savez_compressed(tmp_path / "agent-1.npz", **arrays)
    with broken_files.little_memory(), pytest.raises(ValueError, match=r"agent-1\.npz must hold at most 10 samples"):
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


def test_another_owners_file_is_not_replaced(tmp_path):
    one, other = (consensus.Shards.from_list([(X[rows], Y[rows])]) for rows in (slice(0, 12), slice(12, 30)))
    save_shards(one, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for late in (other, consensus.Shards.from_list([(X[:12], -Y[:12])])):
        with pytest.raises(FileExistsError, match=r"(agent-0\.npz|index\.json) is there already, of other shards.*give first="):
            save_shards(late, tmp_path)
    with pytest.raises(FileExistsError, match=r"index\.json is of shards that were saved without first="):
        save_shards(other, tmp_path, first=1)
    save_shards(one, tmp_path)  # the same again changes nothing
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    blocks = consensus.partition(X, Y, 3)  # of one network: each machine writes its own agents into the same folder
    for rows in ([0], [1, 2]):
        save_shards(blocks.restrict(rows), tmp_path / "blocks")
    np.testing.assert_array_equal(load_shards(tmp_path / "blocks").features, blocks.features)


def test_owners_who_save_their_own_make_one_network(tmp_path):
    cuts = [slice(0, 5), slice(5, 20), slice(20, 21), slice(21, 30)]
    pairs = [(X[rows], Y[rows]) for rows in cuts]
    whole = consensus.Shards.from_list(pairs)
    for first, last in ((3, 4), (0, 1), (1, 3)):  # in whatever order
        save_shards(consensus.Shards.from_list(pairs[first:last]), tmp_path, first=first)
    found = load_shards(tmp_path)
    for name in ("features", "targets", "weights", "sizes", "samples", "network_size"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    block = load_shards(tmp_path, [2, 3])
    assert (block.samples, block.network_size, block.features.shape) == (30, 4, (2, 15, 2))
    with pytest.raises(FileExistsError, match=r"index-1\.json is there already"):
        save_shards(consensus.Shards.from_list(pairs[:1]), tmp_path, first=1)
    with pytest.raises(FileExistsError, match=r"index-.\.json is of shards that were saved with first="):
        save_shards(whole, tmp_path)
    with pytest.raises(ValueError, match=r"first goes with shards of all their agents; these are \[1, 2\] of 4"):
        save_shards(whole.restrict([1, 2]), tmp_path, first=1)
    for odd in (-1, 0.5, True, "0"):
        with pytest.raises(ValueError, match=r"first must be a whole number >= 0"):
            save_shards(whole, tmp_path / "new", first=odd)
    assert not (tmp_path / "new").exists()
    (tmp_path / "index-1.json").rename(tmp_path / "index-2.json")
    (tmp_path / "index-2.json").write_text((tmp_path / "index-2.json").read_text().replace('"first": 1', '"first": 2'))
    with pytest.raises(
        ValueError, match=r"must have the agents 0, 1, 2, .*; after 1 of them comes index-2\.json, whose first is 2"
    ):
        load_shards(tmp_path)
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"has an index\.json of one network, and index-"):
        load_shards(tmp_path)


def test_owners_columns_must_agree(tmp_path):
    for first, names in enumerate((["a", "b"], ["a", "c"])):
        save_shards(consensus.Shards.from_list([(pd.DataFrame(X, columns=names), Y)]), tmp_path, first=first)
    with pytest.raises(ValueError, match=r"columns of all owners in .* must be the same; in index-1\.json they are .*'c'"):
        load_shards(tmp_path)
