"""Partitions: every sample goes to exactly one agent, padding weighs nothing, and heterogeneity is as asked."""

import itertools
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import consensus
from consensus import partition

SAMPLES, AGENTS = 61, 5
SIZES = [20, 1, 13, 7, 20]
SCHEMES = {
    "iid": {"scheme": "iid"},
    "sorted": {"scheme": "sorted"},
    "dirichlet": {"scheme": "dirichlet", "concentration": 0.3},
    "nearly iid dirichlet": {"scheme": "dirichlet", "concentration": 50.0},
    "sizes": {"scheme": "sizes", "sizes": SIZES},
}
RNG = np.random.default_rng(1)
TARGETS = {
    "classes": RNG.integers(0, 4, SAMPLES),
    "ties": RNG.integers(0, 4, SAMPLES) / 2.0,
    "continuous": RNG.standard_normal(SAMPLES),
    "two outputs": RNG.standard_normal((SAMPLES, 2)),
    "booleans": RNG.random(SAMPLES) < 0.4,
}
X, Y = RNG.standard_normal((SAMPLES, 3)), TARGETS["continuous"]


def counts(classes, agents=AGENTS, **options):
    """How many samples of each class an agent gets by ``dirichlet``, shape (agents, classes), from the original labels."""
    shards = partition(np.ones((len(classes), 1)), classes, agents, "dirichlet", **options)
    return np.array([np.bincount(classes[own[own >= 0]], minlength=classes.max() + 1) for own in shards.indices])


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_sample_goes_to_exactly_one_agent_and_padding_follows(scheme, kind):
    y = TARGETS[kind].reshape(SAMPLES, -1)
    shards = partition(X, TARGETS[kind], AGENTS, **SCHEMES[scheme], seed=3)
    most, real = shards.sizes.max(), shards.indices >= 0
    assert (shards.features.shape, shards.targets.shape) == ((AGENTS, most, 3), (AGENTS, most, y.shape[1]))
    assert (shards.agents, shards.samples, shards.sizes.sum()) == (AGENTS, SAMPLES, SAMPLES)
    assert shards.sizes.min() >= 1
    np.testing.assert_array_equal(real, np.arange(most) < shards.sizes[:, None])
    np.testing.assert_array_equal(shards.weights, np.where(real, 1.0, 0.0))
    np.testing.assert_array_equal(np.sort(shards.indices[real]), np.arange(SAMPLES))
    np.testing.assert_array_equal(shards.features[real], X[shards.indices[real]])
    np.testing.assert_array_equal(shards.targets[real], y[shards.indices[real]])
    for padding in (shards.features[~real], shards.targets[~real], shards.indices[~real] + 1):
        np.testing.assert_array_equal(padding, np.zeros_like(padding))


@pytest.mark.parametrize(("samples", "agents"), [(61, 5), (60, 5), (7, 7), (3, 1), (8, 3)])
@pytest.mark.parametrize("scheme", ["iid", "sorted"])
def test_shards_are_equal_up_to_one_sample(scheme, samples, agents):
    shards = partition(X[:samples], Y[:samples], agents, scheme)
    assert shards.sizes.tolist() == [samples // agents + (agent < samples % agents) for agent in range(agents)]


@pytest.mark.parametrize("sizes", [SIZES, np.array(SIZES, np.uint8), tuple(SIZES)])
def test_sizes_are_as_asked(sizes):
    assert partition(X, Y, AGENTS, "sizes", sizes=sizes).sizes.tolist() == SIZES


@pytest.mark.parametrize("kind", TARGETS)
def test_sorted_follows_the_stable_order_of_the_first_target(kind):
    shards = partition(X, TARGETS[kind], AGENTS, "sorted")
    first = TARGETS[kind].reshape(SAMPLES, -1)[:, 0].tolist()
    assert shards.indices[shards.indices >= 0].tolist() == sorted(range(SAMPLES), key=first.__getitem__)  # which is stable


@pytest.mark.parametrize(
    "scheme", [{}, {"scheme": "sizes", "sizes": [1000] * 4}, {"scheme": "dirichlet", "concentration": 1e12}]
)
def test_shuffled_schemes_do_not_follow_the_order_of_the_data(scheme):
    shards = partition(np.ones((4000, 1)), np.ones(4000), 4, **scheme, seed=0)
    means = [own[own >= 0].mean() for own in shards.indices]
    # Drawn without replacement: the mean of 1000 of 0 .. 3999 has variance (N^2 - 1)/12/n (N - n)/(N - 1).
    spread = np.sqrt((4000**2 - 1) / 12 / 1000 * 3000 / 3999)
    assert np.abs(np.array(means) - 1999.5).max() < 4 * spread


@pytest.mark.parametrize("seed", range(5))
def test_a_small_concentration_is_more_heterogeneous_than_a_large_one(seed):
    classes = np.random.default_rng(seed).integers(0, 4, 2000)

    def heterogeneity(concentration):
        """Mean total variation between an agent's class frequencies and the network's."""
        found = counts(classes, seed=seed, concentration=concentration)
        own, all_agents = found / found.sum(axis=1, keepdims=True), found.sum(axis=0) / found.sum()
        return np.abs(own - all_agents).sum(axis=1).mean() / 2

    levels = [heterogeneity(concentration) for concentration in (0.1, 3.0, 100.0, 1e4)]
    assert all(more > 2 * less for more, less in itertools.pairwise(levels))


def test_dirichlet_shares_have_the_moments_of_the_distribution():
    # The share of a class that one of A agents gets is Beta(c, (A - 1) c): mean 1/A, variance (A - 1)/A^2/(A c + 1).
    agents, c, classes = 4, 0.5, np.repeat(np.arange(10), 400)
    shares = np.concatenate([counts(classes, agents, seed=seed, concentration=c)[0] for seed in range(60)]) / 400  # independent
    variance = (agents - 1) / agents**2 / (agents * c + 1)
    assert abs(shares.mean() - 1 / agents) < 4 * np.sqrt(variance / shares.size)
    fourth = np.mean((shares - 1 / agents) ** 4)
    assert abs(shares.var() - variance) < 4 * np.sqrt((fourth - variance**2) / shares.size)


def test_extreme_concentrations_spread_classes_evenly_or_give_each_to_one_agent():
    classes = TARGETS["classes"]
    assert np.abs(counts(classes, concentration=1e12) - np.bincount(classes) / AGENTS).max() <= 1
    tiny = counts(np.repeat(np.arange(10), 20), agents=2, concentration=1e-6)
    assert np.sort(tiny, axis=0).tolist() == [[0] * 10, [20] * 10]


def test_a_continuous_target_is_spread_decile_by_decile():
    y = np.random.default_rng(3).permutation(1000) / 7.0
    shards = partition(np.ones((1000, 1)), y, AGENTS, "dirichlet", concentration=1e12)
    decile = np.argsort(np.argsort(y)) // 100
    found = [np.bincount(decile[own[own >= 0]], minlength=10) for own in shards.indices]
    assert np.abs(np.array(found) - 20).max() <= 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_seed_fixes_the_partition(scheme):
    first, again, other = (partition(X, Y, AGENTS, **SCHEMES[scheme], seed=seed).indices for seed in (4, 4, 5))
    np.testing.assert_array_equal(first, again)
    assert np.array_equal(first, other) == (scheme == "sorted")


KEPT = {given: given for given in (np.float32, np.float64, np.int32, np.int64)}
KEPT |= {np.uint32: np.float64, bool: np.float64}
KEPT |= dict.fromkeys((np.uint8, np.int8, np.uint16, np.int16, np.float16), np.float32)


@pytest.mark.parametrize(("given", "kept"), KEPT.items())
@pytest.mark.parametrize("kind", TARGETS)
def test_single_precision_and_whole_numbers_stay_and_short_numbers_become_float32(given, kept, kind, caplog):
    with caplog.at_level("INFO", "consensus"):
        shards = partition(X.astype(given), TARGETS[kind], AGENTS)
    assert shards.features.dtype == kept
    assert shards.targets.dtype == shards.weights.dtype == (np.float32 if kept == np.float32 else np.float64)
    assert (f"X in {np.dtype(given)} becomes float32" in caplog.text) == (kept == np.float32 != given)
    assert shards.indices.dtype.kind == "i"


def test_numbers_that_come_as_objects_are_those_numbers():
    decimals = np.array([[Decimal(repr(x)) for x in row] for row in X.tolist()])
    for given in (X.astype(object), decimals, decimals.tolist()):
        np.testing.assert_array_equal(partition(given, Y.astype(object), 2).features, partition(X, Y, 2).features)


def test_remedies_for_other_kinds_of_arrays_work():
    records = np.rec.fromarrays(X.T)
    with pytest.raises(ValueError, match=r"of these records, pandas.DataFrame\(numpy.ravel\(X\)\)"):
        partition(records, Y, 2)
    np.testing.assert_array_equal(partition(pd.DataFrame(np.ravel(records)), Y, 2).features, partition(X, Y, 2).features)
    days = np.datetime64("2020-01-01") + np.arange(SAMPLES)
    with pytest.raises(ValueError, match=r"y must .* such as \(y - start\) / numpy.timedelta64\(1, 'D'\)"):
        partition(X, days, 2)
    with pytest.raises(ValueError, match=r"y must .* such as y / numpy.timedelta64\(1, 'D'\)"):
        partition(X, days - days[0], 2)
    found = partition(X, (days - days[0]) / np.timedelta64(1, "D"), 2, scheme="sorted").targets
    assert found[0, 0, 0] == 0
    np.testing.assert_array_equal(partition(X.astype(str).astype(float), Y, 2).features, partition(X, Y, 2).features)
    np.testing.assert_array_equal(partition(np.reshape(X[:, 0], (-1, 1)), Y, 2).features, partition(X[:, :1], Y, 2).features)


def test_shards_neither_change_nor_share_the_data():
    before = X.copy(), Y.copy()
    shards = partition(X, Y, 1)
    shards.features[...] = shards.targets[...] = 7
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Y, before[1])


def spoiled(array, index, value):
    array = array.copy()
    array[index] = value
    return array


SHAPE = r"y must have shape \(61,\) or \(61, outputs\)"
SINGLE, DIRICHLET = X.astype(np.float32), {"scheme": "dirichlet"}


@pytest.mark.parametrize(("bad", "words"), [
    ({"X": X[:, 0]}, r"X must have shape \(samples, features\).*got \(61,\)"),
    ({"X": X[None]}, r"y must have shape \(1,\) or \(1, outputs\), as X has 1 rows; got \(61,\)"),
    ({"X": X[:0], "y": Y[:0]}, r"X must have shape \(samples, features\), .* at least one of each; got \(0, 3\)"),
    ({"X": X[:, :0]}, r"X must have shape .* at least one of each; got \(61, 0\)"),
    ({"X": X[:, 0]}, r"got \(61,\); numpy.reshape\(X, \(-1, 1\)\) has one feature"),
    ({"X": X.astype(complex)}, r"X must hold real numbers; got dtype complex128: numpy.real\(X\) and numpy.imag\(X\)"),
    ({"X": spoiled(X.astype(object), (3, 1), "2")}, r"X must .*; got dtype object, such as '2': X.astype\(float\) if"),
    ({"X": spoiled(X, (3, 1), -1e155)}, r"X must be finite in float64; X\[3, 1\] is -1e\+155, whose square is not: take ano"),
    ({"X": SINGLE, "y": spoiled(Y, 5, 1e20)}, r"y must be finite in float32; y\[5\] is 1e\+20, whose square is not"),
    ({"X": spoiled(X, (3, 1), np.nan)}, r"X must be finite.*X\[3, 1\] is nan"),
    ({"X": spoiled(SINGLE, (60, 2), -np.inf)}, r"X must be finite.*X\[60, 2\] is -inf"),
    ({"y": Y[:-1]}, rf"{SHAPE}, as X has 61 rows; got \(60,\)"),
    ({"y": Y[:, None, None]}, rf"{SHAPE}.*got \(61, 1, 1\)"),
    ({"y": 1.0}, r"y must have shape .*got \(\)"),
    ({"y": np.empty((SAMPLES, 0))}, r"y must have shape .*got \(61, 0\)"),
    ({"y": spoiled(Y, 7, np.inf)}, r"y must be finite.*y\[7\] is inf"),
    ({"y": spoiled(TARGETS["two outputs"], (9, 1), np.nan)}, r"y must be finite.*y\[9, 1\] is nan"),
    ({"X": SINGLE, "y": spoiled(Y, 5, 1e39)}, r"y must be finite in float32; y\[5\] is 1e\+39"),
    ({"y": np.where(Y > 0, "1.5", "2.5")}, r"y is text that looks like numbers, such as '.*': convert it to numbers"),
    *(({"agents": bad}, rf"agents must be a whole number >= 1; got {bad}") for bad in (0, 2.0, True)),
    ({"agents": 62}, r"agents must be at most the number of samples, 61.*got 62"),
    ({"scheme": "random"}, r"scheme must be one of 'iid', 'sorted', 'dirichlet', 'sizes'; got 'random'"),
    ({"scheme": "sizes"}, r"sizes goes with scheme='sizes'.*got scheme='sizes', sizes=None"),
    ({"sizes": SIZES}, r"sizes goes with scheme='sizes' and with no other; got scheme='iid'"),
    ({"scheme": "sizes", "sizes": [30, 31]}, r"sizes must be 5 whole numbers that sum to .*61; got \[30, 31\]"),
    ({"scheme": "sizes", "sizes": [20, 1, 13, 7, 19]}, r"sizes must be 5 whole numbers that sum to .*61; got"),
    ({"scheme": "sizes", "sizes": [20.0, 1, 13, 7, 20]}, r"sizes must be 5 whole numbers"),
    ({"scheme": "sizes", "sizes": [20, 0, 14, 7, 20]}, r"every agent a sample; agent 1 would get 0"),
    ({"scheme": "sizes", "sizes": [20, 1, 15, -5, 30]}, r"every agent a sample; agent 3 would get -5"),
    (DIRICHLET | {"concentration": 0}, r"concentration must be a finite number > 0; got 0"),
    (DIRICHLET | {"concentration": np.inf}, r"concentration must be a finite number > 0; got inf"),
    # Two classes cannot fill five agents.
    (DIRICHLET | {"y": TARGETS["booleans"], "concentration": 1e-6}, r"5 agents .*: raise concentration \(got 1e-06\)"),
])  # fmt: skip
def test_bad_arguments(bad, words):
    with pytest.raises(ValueError, match=words):
        consensus.partition(**{"X": X, "y": Y, "agents": AGENTS, **bad})


def test_many_integer_classes_are_warned_of_and_spread_as_is_said():
    y = np.arange(6200) % 62
    options = {"agents": 5, "scheme": "dirichlet", "concentration": 0.1, "seed": 0}
    with pytest.warns(UserWarning, match=r"y has 62 different whole numbers.*classes=True spreads each of them"):
        deciles = partition(np.zeros((6200, 1)), y, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_class = partition(np.zeros((6200, 1)), y, **options, classes=True)
        same = partition(np.zeros((6200, 1)), y, **options, classes=False)
        named = partition(np.zeros((6200, 1)), np.char.add("c", np.char.zfill(y.astype(str), 2)), **options)
        partition(np.zeros((6200, 1)), y + 0.5 * (y == 3), **options)  # numbers
    np.testing.assert_array_equal(same.indices, deciles.indices)
    np.testing.assert_array_equal(named.indices, by_class.indices)

    def changes(shards):  # of the agent with most of a class, along the codes
        share = np.array([np.bincount(y[own[own >= 0]], minlength=62) for own in shards.indices])
        return np.count_nonzero(np.diff(share.argmax(axis=0)))

    assert changes(deciles) < 15 < 35 < changes(by_class)
    with pytest.raises(ValueError, match="classes goes with scheme='dirichlet'"):
        partition(np.zeros((6200, 1)), y, agents=2, classes=True)
