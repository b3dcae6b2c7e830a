"""Data with owners: no group of samples is split over agents."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold

import consensus
from tests.helpers.refusals import refusals

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((40, 3)), RNG.standard_normal((40, 2))
TOWNS = RNG.choice(["Rome", "Oslo", "Bonn", "Lima", "Wien"], 40, p=[0.4, 0.3, 0.1, 0.1, 0.1])
NUMBERS = 1.5 * np.unique(TOWNS, return_inverse=True)[1]


def owners(shards, groups):
    """The groups of every agent's samples."""
    return [set(np.asarray(groups)[own[own >= 0]].tolist()) for own in shards.indices]


@pytest.mark.parametrize(
    "groups",
    [TOWNS, TOWNS.tolist(), pd.Series(TOWNS, index=range(40, 80)), pd.Categorical(TOWNS), NUMBERS],
    ids=["text", "list", "Series", "Categorical", "numbers"],
)
def test_one_agent_per_group(groups):
    shards = consensus.partition(X, Y, groups=groups)
    assert owners(shards, groups) == [{name} for name in np.unique(np.asarray(groups)).tolist()]
    for agent, own in enumerate(shards.indices):
        own = own[own >= 0]
        assert (np.diff(own) > 0).all()  # in the order given
        np.testing.assert_array_equal(shards.features[agent, : len(own)], X[own])
        np.testing.assert_array_equal(shards.targets[agent, : len(own)], Y[own])
    assert shards.sizes.sum() == shards.samples == shards.weights.sum() == 40


@pytest.mark.parametrize("agents", [1, 2, 3, 4, 5])
def test_groups_are_dealt_whole_as_scikit_learn_deals_them_to_folds(agents):
    shards = consensus.partition(X, Y, agents, groups=TOWNS)
    assert sorted(name for own in owners(shards, TOWNS) for name in own) == sorted({*TOWNS.tolist()})
    if agents > 1:
        folds = GroupKFold(agents).split(X, groups=TOWNS)
        assert sorted(shards.sizes) == sorted(len(test) for _, test in folds)


def test_of_equal_groups_the_first_goes_first_and_to_the_first_agent():
    groups = np.repeat([*"abcde"], 4)
    shards = consensus.partition(np.arange(20.0)[:, None], np.zeros(20), agents=3, groups=groups)
    assert owners(shards, groups) == [{"a", "d"}, {"b", "e"}, {"c"}]


def test_shards_from_a_list_are_those_that_each_agent_brings():
    parts = [(X[:4], Y[:4]), (X[4:5].tolist(), Y[4:5]), (pd.DataFrame(X[5:25]), pd.DataFrame(Y[5:25])), (X[25:], Y[25:])]
    shards = consensus.Shards.from_list(iter(parts))
    reference = consensus.partition(X, Y, groups=np.repeat(range(4), [4, 1, 20, 15]))
    for name in ("features", "targets", "weights", "indices", "rows", "samples", "network_size"):
        np.testing.assert_array_equal(getattr(shards, name), getattr(reference, name))


def test_shards_from_a_list_are_single_precision_if_all_are():
    half = [(part.astype(np.float32), y) for part, y in ((X[:9, :, None], Y[:9, 0]), (X[9:, :, None], Y[9:, 0]))]
    shards = consensus.Shards.from_list(half)
    assert shards.features.shape == (2, 31, 3, 1)
    assert shards.features.dtype == shards.targets.dtype == shards.weights.dtype == np.float32
    mixed = consensus.Shards.from_list([half[0], (X[9:, :, None], Y[9:, 0])])
    assert mixed.features.dtype == mixed.targets.dtype == mixed.weights.dtype == np.float64


test_refusals = refusals(
    (lambda: consensus.partition(X, Y, groups=TOWNS[:-1]), ValueError,
     r"groups must have shape \(40,\), a group for each row of X; got \(39,\)"),
    (lambda: consensus.partition(X, Y, groups=TOWNS, agents=6), ValueError,
     r"agents must be at most the number of groups, 5.*got 6"),
    (lambda: consensus.partition(X, Y, groups=TOWNS, agents=0), ValueError, r"agents must be a whole number >= 1; got 0"),
    (lambda: consensus.partition(X, Y, groups=TOWNS, scheme="sorted"), ValueError,
     r"groups .* no scheme or sizes; got scheme='sorted'"),
    (lambda: consensus.partition(X, Y, groups=TOWNS, sizes=[40, 20, 20]), ValueError,
     r"groups .* no scheme or sizes; got scheme='iid', sizes=\[40, 20, 20\]"),
    (lambda: consensus.partition(X, Y, groups=TOWNS, scheme="sizes", sizes=[40]), ValueError, r"groups .* no scheme"),
    (lambda: consensus.partition(X, Y, groups=[None, *TOWNS[1:]]), ValueError, r"groups .* in row 0 it is missing"),
    (lambda: consensus.partition(X, Y, groups=[*range(39), np.nan]), ValueError, r"groups .* in row 39 it is missing"),
    (lambda: consensus.partition(X, Y, groups=pd.Series([*range(39), None], dtype="Int64")), ValueError,
     r"groups .* in row 39 it is missing"),
    (lambda: consensus.partition(X, Y, groups=np.array([1, "b"] * 20, object)), TypeError,
     r"groups must be all numbers or all text"),
    (lambda: consensus.partition(X, Y, groups=None), ValueError, r"^agents must be given, or groups, which .*; got neither$"),
    (lambda: consensus.Shards.from_list([]), ValueError, r"parts must be pairs \(X, y\), one for every agent; got none"),
    (lambda: consensus.Shards.from_list(None), TypeError, r"parts must be pairs \(X, y\), one for every agent; got None"),
    (lambda: consensus.Shards.from_list([(X, Y), X]), TypeError, r"parts must be pairs \(X, y\)"),
    (lambda: consensus.Shards.from_list([(X, Y), (X[:, :2], Y)]), ValueError,
     r"agent 0's features \(3,\) and .* \(2,\); those of agent 1 have \(2,\)"),
    (lambda: consensus.Shards.from_list([(X, Y), (X, Y[:, 0])]), ValueError, r"those of agent 1 have \(3,\) and \(1,\)"),
    (lambda: consensus.Shards.from_list([(X, Y), (X, Y[:3])]), ValueError,
     r"y of parts\[1\] must have shape \(40,\) or \(40, outputs\)"),
    (lambda: consensus.Shards.from_list([(X, Y), (X[:0], Y[:0])]), ValueError,
     r"X of parts\[1\] must have shape .* at least one of each"),
    (lambda: consensus.Shards.from_list([(X, Y), (X, np.inf * Y)]), ValueError, r"y of parts\[1\] must be finite"),
)  # fmt: skip
