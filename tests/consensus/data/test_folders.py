"""Folders of shards: errors name the file that is damaged, missing or of other shards."""

import json

import numpy as np
import pandas as pd
import pytest

import consensus
from consensus import Shards
from consensus.data import load_shards, save_shards
from tests.helpers import broken_files

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 2)), RNG.standard_normal(30)


@pytest.fixture
def folder(tmp_path):
    """The folder of three agents' shards."""
    save_shards(consensus.partition(X, Y, 3), tmp_path)
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("damage", broken_files.WAYS)
@pytest.mark.parametrize("name", ["index.json", "agent-1.npz"])
def test_damaged_shards_are_named(folder, damage, name):
    damage(folder / name)
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        load_shards(folder)


def test_files_with_more_samples_than_the_index_states_take_no_memory(folder):
    many = broken_files.LARGE // 4
    arrays = {"features": np.zeros((many, 2)), "targets": np.zeros((many, 1)), "indices": np.zeros(many, int)}
    np.savez_compressed(folder / "agent-1.npz", **arrays)
    with broken_files.little_memory(), pytest.raises(ValueError, match=r"agent-1\.npz must hold at most 10 samples"):
        load_shards(folder)


@pytest.mark.parametrize("change", [{"agents": "3"}, {"agents": -1}, {"most": None}, {"samples": 0.5}, {"format": "one"}, [1]])
def test_an_invalid_index_is_rejected(folder, change):
    path = folder / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change if isinstance(change, dict) else change))
    words = str(folder) if isinstance(change, dict) else r"has shards of format \[1\]"
    with pytest.raises(ValueError, match=words):
        load_shards(folder)


def test_agents_files_must_fit_each_other_and_the_index(folder):
    path = folder / "agent-1.npz"
    good = dict(np.load(path))
    for wrong in (
        {"features": good["features"][:, :1]},
        {"features": good["features"].astype(np.float32)},
        {"targets": good["targets"][:-1]},
        {"targets": good["targets"] * np.nan},
        {"indices": good["indices"].astype(float)},
        {name: np.concatenate([array] * 2) for name, array in good.items()},
    ):
        np.savez(path, **good | wrong)
        with pytest.raises(ValueError, match=r"agent[ -]1"):
            load_shards(folder)
    np.savez(path, features=good["features"])
    with pytest.raises(ValueError, match=r"agent-1\.npz must have the array 'targets', 'indices'; it has 'features'"):
        load_shards(folder)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        load_shards(folder)


@pytest.mark.parametrize("agents", [[], [3], [-1], 0.5, "x", int, 1], ids=repr)
def test_agents_that_are_not_there(folder, agents):
    with pytest.raises(ValueError if isinstance(agents, list) else TypeError, match=r"^agents must "):
        load_shards(folder, agents)


def test_only_shards_are_saved(tmp_path):
    for odd in (None, 3, "x", [], {}, np.eye(3), type):
        with pytest.raises(TypeError, match=r"^shards must be Shards"):
            save_shards(odd, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_another_owners_file_is_not_replaced(tmp_path):
    one, other = (Shards.from_list([(X[rows], Y[rows])]) for rows in (slice(0, 12), slice(12, 30)))
    save_shards(one, tmp_path)
    before = contents(tmp_path)
    for late in (other, Shards.from_list([(X[:12], -Y[:12])])):
        with pytest.raises(FileExistsError, match=r"(agent-0\.npz|index\.json) is there already, of other shards.*give first="):
            save_shards(late, tmp_path)
    with pytest.raises(FileExistsError, match=r"index\.json is of shards that were saved without first="):
        save_shards(other, tmp_path, first=1)
    save_shards(one, tmp_path)  # the same again changes nothing
    assert contents(tmp_path) == before


def test_each_machine_may_write_its_own_agents_of_one_network(tmp_path):
    shards = consensus.partition(X, Y, 3)
    for rows in ([0], [1, 2]):
        save_shards(shards.restrict(rows), tmp_path / "blocks")
    np.testing.assert_array_equal(load_shards(tmp_path / "blocks").features, shards.features)


def test_owners_who_save_their_own_make_one_network(tmp_path):
    cuts = [slice(0, 5), slice(5, 20), slice(20, 21), slice(21, 30)]
    pairs = [(X[rows], Y[rows]) for rows in cuts]
    whole = Shards.from_list(pairs)
    for first, last in ((3, 4), (0, 1), (1, 3)):  # in whatever order
        save_shards(Shards.from_list(pairs[first:last]), tmp_path, first=first)
    found, block = load_shards(tmp_path), load_shards(tmp_path, [2, 3])
    for name in ("features", "targets", "weights", "sizes", "samples", "network_size"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    assert (block.samples, block.network_size, block.features.shape) == (30, 4, (2, 15, 2))
    for shards, options, error, words in (
        (Shards.from_list(pairs[:1]), {"first": 1}, FileExistsError, r"index-1\.json is there already"),
        (whole, {}, FileExistsError, r"index-.\.json is of shards that were saved with first="),
        (whole.restrict([1, 2]), {"first": 1}, ValueError, r"first goes with .*; these are \[1, 2\] of 4"),
        *((whole, {"first": odd}, ValueError, r"first must be a whole number >= 0") for odd in (-1, 0.5, True, "0")),
    ):
        before = contents(tmp_path)
        with pytest.raises(error, match=words):
            save_shards(shards, tmp_path, **options)
        assert contents(tmp_path) == before
    moved = (tmp_path / "index-1.json").rename(tmp_path / "index-2.json")
    moved.write_text(moved.read_text().replace('"first": 1', '"first": 2'))
    with pytest.raises(ValueError, match=r"have the agents 0, 1, 2, .*; after 1 of them comes index-2\.json, whose first is 2"):
        load_shards(tmp_path)
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"has an index\.json of one network, and index-"):
        load_shards(tmp_path)


def test_owners_columns_must_agree(tmp_path):
    for first, names in enumerate((["a", "b"], ["a", "c"])):
        save_shards(Shards.from_list([(pd.DataFrame(X, columns=names), Y)]), tmp_path, first=first)
    with pytest.raises(ValueError, match=r"columns of all owners in .* must be the same; in index-1\.json they are .*'c'"):
        load_shards(tmp_path)


def owners(folder, agents=3):
    for first, rows in enumerate((slice(0, 5), slice(5, 20), slice(20, 30))):
        save_shards(Shards.from_list([(X[rows], Y[rows])]), folder, first=first, agents=agents)


@pytest.mark.parametrize("missing", [["index-2.json"], ["index-2.json", "agent-2.npz"]])
def test_a_folder_without_its_last_owner_is_no_smaller_network(tmp_path, missing):
    owners(tmp_path)
    assert load_shards(tmp_path).network_size == 3
    for name in missing:
        (tmp_path / name).unlink()
    with pytest.raises(ValueError, match=r"the indexes of 2 agents, and .* says that all owners have 3: index-2\.json is"):
        load_shards(tmp_path)


def test_without_the_number_of_agents_the_last_owners_files_tell_and_the_owner_is_warned(tmp_path):
    with pytest.warns(UserWarning, match="nothing says how many agents all owners have, .*: pass agents= beside first="):
        owners(tmp_path, agents=None)
    assert load_shards(tmp_path).network_size == 3
    (tmp_path / "index-2.json").unlink()
    with pytest.raises(ValueError, match=r"has agent-2\.npz, and no index of its owner"):
        load_shards(tmp_path)


def test_owners_say_one_number_of_agents(tmp_path):
    one = Shards.from_list([(X, Y)])
    for options, words in (
        ({"first": 2, "agents": 2}, "agents must be a whole number >= 3; got 2"),
        ({"agents": 2}, "agents goes with first, .*; got agents=2"),
    ):
        with pytest.raises(ValueError, match=words):
            save_shards(one, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()
    owners(tmp_path)
    save_shards(one, tmp_path, first=3, agents=4)
    with pytest.raises(ValueError, match=r"must say the same number of all agents; got 3 in index-.\.json, 4 in index-3\.json"):
        load_shards(tmp_path)
    (tmp_path / "index-3.json").write_text((tmp_path / "index-3.json").read_text().replace('"network": 4', '"network": 3'))
    with pytest.raises(ValueError, match=r"has 4 agents, and index-.\.json says that all owners have 3"):
        load_shards(tmp_path)
