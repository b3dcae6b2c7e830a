"""Names of agents, from owners and groups to shards and their files."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus.data import LazyShards, load_shards, own, save_shards

TOWNS = ("Wien", "Oslo", "Rome")


def towns(count=3):
    """Return a pair (X, y) for each of some towns."""
    return {name: (np.full((k + 1, 2), k), np.arange(k + 1.0)) for k, name in enumerate(TOWNS[:count])}


def test_groups_name_their_agents_in_sorted_order():
    shards = consensus.partition(np.eye(5), np.arange(5.0), groups=["Rome", "Oslo", "Rome", "Bonn", "Rome"])
    assert shards.labels == ("Bonn", "Oslo", "Rome")
    assert shards.restrict([2]).labels == shards.labels  # of the whole network, as its size
    assert consensus.partition(np.eye(5), np.arange(5.0), agents=2, groups=list("abcab")).labels is None
    assert consensus.partition(np.eye(5), np.arange(5.0), agents=5).labels is None


def test_groups_without_weight_have_no_agent():
    groups, weights = ["c", "a", "b", "a", "c"], [1.0, 2.0, 0.0, 1.0, 1.0]
    shards = consensus.partition(np.eye(5), np.arange(5.0), groups=groups, sample_weight=weights)
    assert shards.labels == ("a", "c")
    np.testing.assert_array_equal(shards.indices, [[1, 3], [0, 4]])


@pytest.mark.parametrize(("sort", "said"), [(str, True), (int, False), (float, False), (lambda k: f"{k:02}", False)])
def test_groups_of_digits_are_sorted_as_numbers_and_the_log_says_so(sort, said, caplog):
    ids = [sort(k) for k in (12, 3, 10, 1, 2)]
    with caplog.at_level("INFO", "consensus"):
        shards = consensus.partition(np.eye(5), np.arange(5.0), groups=pd.Series(ids))
    assert shards.labels == tuple(sort(k) for k in (1, 2, 3, 10, 12))
    np.testing.assert_array_equal(shards.indices[:, 0], [3, 4, 1, 2, 0])
    assert ["groups are ordered as numbers" in message for message in caplog.messages] == [True] * said


def test_parts_are_named_by_keys_or_labels():
    parts = towns()
    for shards in (consensus.Shards.from_list(parts), consensus.Shards.from_list(list(parts.values()), labels=TOWNS)):
        assert shards.labels == TOWNS
        np.testing.assert_array_equal(shards.sizes, [1, 2, 3])
    for shards in (LazyShards.from_list(parts), LazyShards.from_list([*parts.values()], labels=list(TOWNS))):
        assert shards.labels == shards.restrict([0, 2]).labels == TOWNS
    assert LazyShards.split((np.eye(4), np.ones(4)), {"b": [0, 1], "a": [3]}).labels == ("b", "a")
    assert consensus.Shards.from_list(list(parts.values())).labels is None


@pytest.mark.parametrize("make", [consensus.Shards.from_list, LazyShards.from_list])
def test_names_that_do_not_name_each_agent_are_rejected(make):
    parts = list(towns().values())
    with pytest.raises(ValueError, match="labels must name each of the 3 agents, got 2"):
        make(parts, labels=["a", "b"])
    with pytest.raises(ValueError, match="must differ from each other; some agents share one: 1 and '1'"):
        make(parts, labels=[1, "b", "1"])
    with pytest.raises(ValueError, match=r"the keys of .* are the names already"):
        make(towns(), labels=TOWNS)
    with pytest.raises(TypeError, match="labels must be a sequence"):
        make(parts, labels=3)


@pytest.mark.parametrize("labels", [TOWNS, (10, "20", 2.5), None])
def test_folders_keep_names(labels, tmp_path):
    shards = consensus.Shards.from_list(list(towns().values()), labels=labels)
    save_shards(shards, tmp_path)
    assert load_shards(tmp_path).labels == load_shards(tmp_path, agents=[1]).labels == labels


def test_owners_who_each_save_their_own_agents_give_names_or_none(tmp_path):
    for first, (name, part) in enumerate(towns().items()):
        save_shards(consensus.Shards.from_list({name: part}), tmp_path, first=first)
    assert load_shards(tmp_path).labels == TOWNS
    save_shards(consensus.Shards.from_list([part]), tmp_path, first=3)
    with pytest.raises(ValueError, match="all or none give them"):
        load_shards(tmp_path)


def tables():
    rng = np.random.default_rng(0)
    return {name: pd.DataFrame({"a": rng.normal(size=6), "y": rng.normal(size=6)}) for name in TOWNS}


def test_owners_are_named_by_the_keys_of_their_tables(capsys):
    owned = own(tables(), "y", test_size=0.3)
    assert owned.shards.labels == owned.test.labels == TOWNS
    assert "names       names of owners: 'Wien', 'Oslo', 'Rome'" in capsys.readouterr().out
    assert owned.revealed.exchange[0] == "names"
    nameless = own([*tables().values()], "y", test_size=0.3)
    assert nameless.shards.labels is None
    assert list(nameless.revealed.exchange) == list(owned.revealed.exchange[1:])
    np.testing.assert_array_equal(nameless.shards.features, owned.shards.features)


def test_test_sets_of_owners_in_another_order_are_rejected():
    owned = own(tables(), "y", test_size=0.3)
    problem = consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), owned.shards)
    other = dataclasses.replace(owned.test, labels=TOWNS[::-1])
    with pytest.raises(ValueError, match="test must have the agents of the problem in the same order"):
        consensus.solve(problem, topologies.ring(3), rounds=1, test=other)
