"""Partitions: every sample goes to exactly one agent, padding weighs nothing, and heterogeneity is as asked."""

import itertools

import numpy as np
import pytest

import consensus

SAMPLES, AGENTS = 61, 5
SIZES = [20, 1, 13, 7, 20]
SCHEMES = {
    "iid": {"scheme": "iid"},
    "sorted": {"scheme": "sorted"},
    "dirichlet": {"scheme": "dirichlet", "concentration": 0.3},
    "nearly iid dirichlet": {"scheme": "dirichlet", "concentration": 50.0},
    "sizes": {"scheme": "sizes", "sizes": SIZES},
}
TARGETS = ("classes", "ties", "continuous", "two outputs", "booleans")


def features(dtype=np.float64, samples=SAMPLES):
    return np.random.default_rng(0).standard_normal((samples, 3)).astype(dtype)


def targets(kind, samples=SAMPLES):
    rng = np.random.default_rng(1)
    return {
        "classes": rng.integers(0, 4, samples),
        "ties": rng.integers(0, 4, samples) / 2.0,
        "continuous": rng.standard_normal(samples),
        "two outputs": rng.standard_normal((samples, 2)),
        "booleans": rng.random(samples) < 0.4,
    }[kind]


def class_counts(shards, classes):
    """How many samples of each class an agent holds, shape (agents, classes), counted on the original labels."""
    return np.array([np.bincount(classes[own[own >= 0]], minlength=classes.max() + 1) for own in shards.indices])


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_sample_goes_to_exactly_one_agent(scheme, kind):
    X, y = features(), targets(kind)
    shards = consensus.partition(X, y, AGENTS, **SCHEMES[scheme], seed=3)
    real = shards.indices >= 0
    np.testing.assert_array_equal(np.sort(shards.indices[real]), np.arange(SAMPLES))
    np.testing.assert_array_equal(shards.features[real], X[shards.indices[real]])
    np.testing.assert_array_equal(shards.targets[real], y.reshape(SAMPLES, -1)[shards.indices[real]])
    assert (shards.agents, shards.samples) == (AGENTS, SAMPLES)
    assert shards.sizes.min() >= 1
    assert shards.sizes.sum() == SAMPLES


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_padding_follows_the_samples_and_has_zero_weight_and_data(scheme, kind):
    shards = consensus.partition(features(), targets(kind), AGENTS, **SCHEMES[scheme], seed=3)
    most = shards.sizes.max()
    outputs = 2 if kind == "two outputs" else 1
    assert shards.features.shape == (AGENTS, most, 3)
    assert shards.targets.shape == (AGENTS, most, outputs)
    real = np.arange(most) < shards.sizes[:, None]
    np.testing.assert_array_equal(shards.indices >= 0, real)
    np.testing.assert_array_equal(shards.weights, np.where(real, 1.0, 0.0))
    for padding in (shards.features[~real], shards.targets[~real], shards.indices[~real] + 1):
        np.testing.assert_array_equal(padding, np.zeros_like(padding))


@pytest.mark.parametrize(("samples", "agents"), [(61, 5), (60, 5), (7, 7), (3, 1), (8, 3)])
@pytest.mark.parametrize("scheme", ["iid", "sorted"])
def test_shards_are_equal_up_to_one_sample(scheme, samples, agents):
    shards = consensus.partition(features(samples=samples), targets("continuous", samples), agents, scheme)
    expected = [samples // agents + (agent < samples % agents) for agent in range(agents)]
    assert shards.sizes.tolist() == expected


@pytest.mark.parametrize("sizes", [SIZES, np.array(SIZES), np.array(SIZES, np.uint8), tuple(SIZES)])
def test_sizes_are_as_asked(sizes):
    shards = consensus.partition(features(), targets("continuous"), AGENTS, "sizes", sizes=sizes)
    assert shards.sizes.tolist() == SIZES


@pytest.mark.parametrize("kind", TARGETS)
def test_sorted_hands_out_the_stable_order_of_the_first_target(kind):
    y = targets(kind)
    shards = consensus.partition(features(), y, AGENTS, "sorted")
    handed = shards.indices[shards.indices >= 0]
    first = y.reshape(SAMPLES, -1)[:, 0].tolist()
    assert handed.tolist() == sorted(range(SAMPLES), key=first.__getitem__)  # Python's sort is stable


@pytest.mark.parametrize(
    "scheme",
    [{"scheme": "iid"}, {"scheme": "sizes", "sizes": [1000] * 4}, {"scheme": "dirichlet", "concentration": 1e12}],
)
def test_shuffled_schemes_do_not_follow_the_order_of_the_data(scheme):
    shards = consensus.partition(features(samples=4000), np.ones(4000), 4, **scheme, seed=0)
    means = [own[own >= 0].mean() for own in shards.indices]
    # Drawn without replacement: the mean of 1000 of 0 .. 3999 has variance (N^2 - 1)/12/n (N - n)/(N - 1).
    spread = np.sqrt((4000**2 - 1) / 12 / 1000 * 3000 / 3999)
    assert np.abs(np.array(means) - 1999.5).max() < 4 * spread


@pytest.mark.parametrize("seed", range(5))
def test_a_small_concentration_is_more_heterogeneous_than_a_large_one(seed):
    classes = np.random.default_rng(seed).integers(0, 4, 2000)
    X = features(samples=2000)

    def heterogeneity(concentration):
        """Mean total variation between an agent's class frequencies and the network's."""
        shards = consensus.partition(X, classes, AGENTS, "dirichlet", seed=seed, concentration=concentration)
        counts = class_counts(shards, classes)
        own, all_agents = counts / counts.sum(axis=1, keepdims=True), counts.sum(axis=0) / counts.sum()
        return np.abs(own - all_agents).sum(axis=1).mean() / 2

    levels = [heterogeneity(concentration) for concentration in (0.1, 3.0, 100.0, 1e4)]
    assert all(more > 2 * less for more, less in itertools.pairwise(levels))


def test_dirichlet_shares_have_the_moments_of_the_distribution():
    # The share of a class that one of A agents gets is Beta(c, (A - 1) c): mean 1/A, variance (A - 1)/A^2/(A c + 1).
    agents, concentration, classes = 4, 0.5, np.repeat(np.arange(10), 400)
    X = features(samples=4000)
    shares = (
        np.array(
            [
                class_counts(consensus.partition(X, classes, agents, "dirichlet", seed, concentration=concentration), classes)
                for seed in range(60)
            ]
        )[:, 0].ravel()
        / 400
    )  # agent 0's: the 600 draws are independent
    variance = (agents - 1) / agents**2 / (agents * concentration + 1)
    assert abs(shares.mean() - 1 / agents) < 4 * np.sqrt(variance / shares.size)
    fourth = np.mean((shares - 1 / agents) ** 4)
    assert abs(shares.var() - variance) < 4 * np.sqrt((fourth - variance**2) / shares.size)


def test_a_huge_concentration_spreads_every_class_evenly():
    classes = np.random.default_rng(2).integers(0, 4, SAMPLES)
    shards = consensus.partition(features(), classes, AGENTS, "dirichlet", concentration=1e12)
    even = np.bincount(classes) / AGENTS
    assert np.abs(class_counts(shards, classes) - even).max() <= 1


def test_a_tiny_concentration_gives_every_class_to_one_agent():
    classes = np.repeat(np.arange(10), 20)
    shards = consensus.partition(features(samples=200), classes, 2, "dirichlet", concentration=1e-6)
    assert np.sort(class_counts(shards, classes), axis=0).tolist() == [[0] * 10, [20] * 10]


def test_a_continuous_target_is_spread_decile_by_decile():
    y = np.random.default_rng(3).permutation(1000) / 7.0
    shards = consensus.partition(features(samples=1000), y, AGENTS, "dirichlet", concentration=1e12)
    decile = np.argsort(np.argsort(y)) // 100
    assert np.abs(class_counts(shards, decile) - 20).max() <= 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_seed_fixes_the_partition(scheme):
    X, y = features(), targets("classes")

    def indices(seed):
        return consensus.partition(X, y, AGENTS, **SCHEMES[scheme], seed=seed).indices

    np.testing.assert_array_equal(indices(4), indices(4))
    assert np.array_equal(indices(4), indices(5)) == (scheme == "sorted")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.int32, np.int32),
        (np.int64, np.int64),
        (np.uint32, np.float64),
        (bool, np.float64),
        *((small, np.float32) for small in (np.uint8, np.int8, np.uint16, np.int16, np.float16)),
    ],
)
@pytest.mark.parametrize("kind", TARGETS)
def test_single_precision_and_whole_numbers_stay_and_short_numbers_become_float32(given, kept, kind, caplog):
    with caplog.at_level("INFO", "consensus"):
        shards = consensus.partition(features().astype(given), targets(kind), AGENTS)
    assert shards.features.dtype == kept
    assert shards.targets.dtype == shards.weights.dtype == (np.float32 if kept == np.float32 else np.float64)
    shorter = kept == np.float32 != given
    assert (f"X in {np.dtype(given)} becomes float32" in caplog.text) == shorter
    assert shards.indices.dtype.kind == "i"


def test_shards_neither_change_nor_share_the_data():
    X, y = features(), targets("continuous")
    before = X.copy(), y.copy()
    shards = consensus.partition(X, y, 1)
    shards.features[...] = shards.targets[...] = 7
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])


def spoiled(array, index, value):
    array = array.copy()
    array[index] = value
    return array


X, Y = features(), targets("continuous")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"X": X[:, 0]}, r"X must have shape \(samples, features\).*got \(61,\)"),
        ({"X": X[None]}, r"y must have shape \(1,\) or \(1, outputs\), as X has 1 rows; got \(61,\)"),
        ({"X": X[:0], "y": Y[:0]}, r"X must have shape \(samples, features\), .* at least one of each; got \(0, 3\)"),
        ({"X": X[:, :0]}, r"X must have shape .* at least one of each; got \(61, 0\)"),
        ({"X": X.astype(complex)}, r"X must hold real numbers; got dtype complex128"),
        ({"X": X.astype(object)}, r"X must hold real numbers; got dtype object"),
        ({"X": spoiled(X, (3, 1), np.nan)}, r"X must be finite.*X\[3, 1\] is nan"),
        ({"X": spoiled(X.astype(np.float32), (60, 2), -np.inf)}, r"X must be finite.*X\[60, 2\] is -inf"),
        ({"y": Y[:-1]}, r"y must have shape \(61,\) or \(61, outputs\), as X has 61 rows; got \(60,\)"),
        ({"y": Y[:, None, None]}, r"y must have shape \(61,\) or \(61, outputs\).*got \(61, 1, 1\)"),
        ({"y": 1.0}, r"y must have shape .*got \(\)"),
        ({"y": np.empty((SAMPLES, 0))}, r"y must have shape .*got \(61, 0\)"),
        ({"y": spoiled(Y, 7, np.inf)}, r"y must be finite.*y\[7\] is inf"),
        ({"y": spoiled(targets("two outputs"), (9, 1), np.nan)}, r"y must be finite.*y\[9, 1\] is nan"),
        ({"X": X.astype(np.float32), "y": spoiled(Y, 5, 1e39)}, r"y must be finite in float32; y\[5\] is 1e\+39"),
        ({"y": np.where(Y > 0, "cat", "dog")}, r"y must hold real numbers; got dtype <U3.*encode labels as 0, 1"),
        ({"agents": 0}, r"agents must be a whole number >= 1; got 0"),
        ({"agents": 2.0}, r"agents must be a whole number >= 1; got 2\.0"),
        ({"agents": True}, r"agents must be a whole number >= 1; got True"),
        ({"agents": 62}, r"agents must be at most the number of samples, 61.*got 62"),
        ({"scheme": "random"}, r"scheme must be one of 'iid', 'sorted', 'dirichlet', 'sizes'; got 'random'"),
        ({"scheme": None}, r"scheme must be one of 'iid'.*got None"),
        ({"scheme": "sizes"}, r"sizes goes with scheme='sizes'.*got scheme='sizes', sizes=None"),
        ({"sizes": SIZES}, r"sizes goes with scheme='sizes' and with no other; got scheme='iid'"),
        ({"scheme": "sizes", "sizes": [30, 31]}, r"sizes must be 5 whole numbers that sum to .*61; got \[30, 31\]"),
        ({"scheme": "sizes", "sizes": [20, 1, 13, 7, 19]}, r"sizes must be 5 whole numbers that sum to .*61; got"),
        ({"scheme": "sizes", "sizes": [20.0, 1, 13, 7, 20]}, r"sizes must be 5 whole numbers"),
        ({"scheme": "sizes", "sizes": [20, 0, 14, 7, 20]}, r"every agent a sample; agent 1 would get 0"),
        ({"scheme": "sizes", "sizes": [20, 1, 15, -5, 30]}, r"every agent a sample; agent 3 would get -5"),
        ({"scheme": "dirichlet", "concentration": 0}, r"concentration must be a finite number > 0; got 0"),
        ({"scheme": "dirichlet", "concentration": np.inf}, r"concentration must be a finite number > 0; got inf"),
        (
            {"scheme": "dirichlet", "y": targets("booleans"), "concentration": 1e-6},  # two classes cannot fill five agents
            r"over 5 agents all left one without samples: raise concentration \(got 1e-06\) or use fewer agents",
        ),
    ],
)
def test_bad_arguments_are_named(bad, words):
    arguments = {"X": X, "y": Y, "agents": AGENTS, **bad}
    with pytest.raises(ValueError, match=words):
        consensus.partition(**arguments)
