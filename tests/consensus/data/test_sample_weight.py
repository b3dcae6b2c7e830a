"""Weights of samples: a whole number k is the sample repeated k times, with every loss, engine and way to draw batches."""

import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus import CrossEntropy, Huber, LogisticLoss, Shards, SquaredLoss
from consensus.centralized import FedAvg
from consensus.data import load_shards, save_shards
from consensus.data.digests import digests
from consensus.solvers import DGD, GTSAGA, NEXT, AdaptiveNEXT, TreeNewton
from consensus.surrogates import PartialLinearization
from tests.helpers.problems import data

RNG = np.random.default_rng(0)
N, AGENTS = 40, 4
X, Y = RNG.standard_normal((N, 3)), RNG.standard_normal(N)
OWNERS, WEIGHTS = np.arange(N) % AGENTS, RNG.integers(0, 4, N)
TIMES = np.repeat(np.arange(N), WEIGHTS)  # the rows of the repeated data
NETWORK = topologies.ring(AGENTS)
LOSSES = {
    "squared": (SquaredLoss(), Y, 1),
    "Huber": (Huber(0.3), Y, 1),
    "logistic": (LogisticLoss(), Y > 0, 1),
    "cross-entropy": (CrossEntropy(), np.digitize(Y, [-0.5, 0.5]), 3),
    "weighted cross-entropy": (CrossEntropy([1, 2, 5], 0.1, ignore_index=1), np.digitize(Y, [-0.5, 0.5]), 3),
}
MODELS = {"linear": lambda outputs: consensus.Linear(3, outputs), "mlp": lambda outputs: consensus.MLP([3, 4, outputs])}
every_loss = pytest.mark.parametrize("loss", LOSSES)


def pair(loss="squared", model="linear", reduction="mean", regularizer=None):
    """The problem with weights, and that with repeated samples."""
    loss, y, outputs = LOSSES[loss]
    weighted = consensus.partition(X, y, groups=OWNERS, sample_weight=WEIGHTS)
    repeated = consensus.partition(X[TIMES], y[TIMES], groups=OWNERS[TIMES])
    regularizer = consensus.L2(0.1) if regularizer is None else regularizer
    return [consensus.Problem(MODELS[model](outputs), loss, s, regularizer, reduction) for s in (weighted, repeated)]


@every_loss
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_costs_are_those_of_repeated_samples(loss, model, reduction):
    weighted, repeated = pair(loss, model, reduction)
    w = np.random.default_rng(1).standard_normal((AGENTS, weighted.parameters))
    np.testing.assert_allclose(weighted.value(w), repeated.value(w), rtol=1e-12)
    np.testing.assert_allclose(weighted.gradient(w), repeated.gradient(w), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(weighted.lipschitz(w), repeated.lipschitz(w), rtol=1e-10)
    assert weighted.objective(w[0]) == pytest.approx(repeated.objective(w[0]), rel=1e-12)


@pytest.mark.parametrize("loss", ["Huber", "weighted cross-entropy"])
@pytest.mark.parametrize(
    "solver", [DGD(0.2), NEXT(PartialLinearization(0.5), 0.3), AdaptiveNEXT(), TreeNewton()], ids=lambda s: type(s).__name__
)
def test_runs_are_those_of_repeated_samples(loss, solver):
    results = [consensus.solve(problem, NETWORK, solver, rounds=5) for problem in pair(loss)]
    np.testing.assert_allclose(results[0].history["objective"], results[1].history["objective"], rtol=1e-9)
    np.testing.assert_allclose(results[0].w, results[1].w, rtol=1e-6, atol=1e-7)


def test_federated_averaging_weighs_clients_by_their_samples_weights():
    runs = [consensus.centralized.solve(problem, FedAvg(0.1, local_steps=3), rounds=4) for problem in pair()]
    np.testing.assert_allclose(runs[0].mean, runs[1].mean, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [DGD(0.2, batch=3), GTSAGA(0.1), NEXT(PartialLinearization(0.5), 0.3, batch=3)], ids=repr)
def test_processes_have_the_bits_of_one_process(solver, forked):
    problem = pair("weighted cross-entropy", "mlp")[0]
    one, two = (consensus.solve(problem, NETWORK, solver, rounds=4, engine=e).w for e in ("stacked", "processes"))
    np.testing.assert_array_equal(one, two)


def test_batches_of_an_epoch_add_up_to_the_gradient():
    problem = pair("logistic", "mlp")[0]
    w, rule = np.random.default_rng(2).standard_normal((AGENTS, problem.parameters)), consensus.Minibatches(3)
    for agent, size in enumerate(problem.shards.sizes):
        parts = []
        for round in range(-(-size // 3)):
            batch = rule.at(problem, round)
            count = np.count_nonzero(batch.weights[agent])
            parts.append(count / size * problem.gradient(w, batch)[agent])
            np.testing.assert_allclose(problem.sampled(batch).gradient(w), problem.gradient(w, batch), atol=1e-14)
        np.testing.assert_allclose(np.sum(parts, axis=0), problem.gradient(w)[agent], atol=1e-13)


def test_the_test_error_has_no_weights():
    problem = pair("logistic")[0]
    start, test = np.array([1.0, 0, 0, 0]), (X, LOSSES["logistic"][1])
    history = consensus.solve(problem, NETWORK, DGD(0.1), rounds=1, start=start, test=test).history
    assert history["test_error"][0] == pytest.approx(((X[:, 0] > 0) != test[1]).mean(), abs=1e-15)


def test_weights_of_one_change_no_bit_and_no_checkpoint():
    plain = consensus.partition(X, Y, agents=AGENTS, seed=3)
    ones = consensus.partition(X, Y, agents=AGENTS, seed=3, sample_weight=np.ones(N))
    problems = [consensus.Problem(consensus.Linear(3), SquaredLoss(), shards) for shards in (plain, ones)]
    w = np.random.default_rng(1).standard_normal((AGENTS, 4))
    np.testing.assert_array_equal(problems[0].gradient(w), problems[1].gradient(w))
    assert digests(plain) == digests(ones)
    other = consensus.partition(X, Y, agents=AGENTS, seed=3, sample_weight=np.full(N, 2.0))
    assert not set(digests(other)) & set(digests(plain))


@pytest.mark.parametrize("scheme", ["iid", "sorted", "dirichlet", "sizes"])
def test_samples_of_weight_zero_belong_to_nobody(scheme):
    weights, labels = (np.arange(N) % 4 > 0) * 2.5, np.arange(N) % 3
    sizes = {"sizes": [5, 5, 10, 10]} if scheme == "sizes" else {}
    shards = consensus.partition(X.astype(np.float32), labels, AGENTS, scheme, sample_weight=pd.Series(weights), **sizes)
    held = shards.indices[shards.indices >= 0]
    assert sorted(held) == np.flatnonzero(weights).tolist()
    assert (shards.samples, shards.total_weight, shards.weights.dtype) == (30, 75.0, np.float32)
    np.testing.assert_array_equal(shards.weights, 2.5 * (shards.indices >= 0))
    np.testing.assert_array_equal(shards.features[shards.indices >= 0], X.astype(np.float32)[held])


def test_owners_give_weights_of_their_own_and_files_keep_them(tmp_path):
    parts = [(X[k == OWNERS], Y[k == OWNERS], WEIGHTS[k == OWNERS]) for k in range(AGENTS)]
    whole, listed = consensus.partition(X, Y, groups=OWNERS, sample_weight=WEIGHTS), Shards.from_list(parts)
    for shards in (whole, listed):
        folder = tmp_path / str(id(shards))
        for block in (shards.restrict([0, 1]), shards.restrict([2, 3])):
            save_shards(block, folder)
        back, some = load_shards(folder), load_shards(folder, [1, 3])
        np.testing.assert_array_equal(back.weights, shards.weights)
        np.testing.assert_array_equal(back.weights, whole.weights)
        assert back.total_weight == some.total_weight == WEIGHTS.sum()
        w = np.ones((AGENTS, 4))
        problems = [consensus.Problem(consensus.Linear(3), SquaredLoss(), one) for one in (whole, back, some)]
        np.testing.assert_array_equal(problems[0].value(w), problems[1].value(w))
        np.testing.assert_array_equal(problems[0].value(w)[[1, 3]], problems[2].value(w[:2]))
    half = Shards.from_list([parts[0], parts[1][:2]])  # an owner without weights has ones
    assert half.total_weight == parts[0][2].sum() + len(parts[1][1])
    for first, part in enumerate(parts):
        save_shards(Shards.from_list([part]), tmp_path / "owners", first=first)
    assert load_shards(tmp_path / "owners").total_weight == WEIGHTS.sum()
    save_shards(Shards.from_list([parts[0][:2]]), tmp_path / "owners", first=AGENTS)
    with pytest.raises(ValueError, match="weights of some owners, and without of others"):
        load_shards(tmp_path / "owners")


@pytest.mark.parametrize(("weights", "words"), [
    (np.ones(3), r"sample_weight must have shape \(40,\), a weight for each row of X; got \(3,\)"),
    (np.ones((40, 1)), r"got \(40, 1\)"),
    (np.r_[1.0, -2.0, np.ones(38)], r"sample_weight must be 0, or above 0 and finite in float64; in row 1 it is -2.0"),
    (np.r_[1.0, np.nan, np.ones(38)], r"in row 1 it is nan"),
    (np.zeros(40), r"sample_weight must be above zero for some samples; all are zero"),
    (np.eye(40)[0], r"agents must be at most the number of samples, 1"),
])  # fmt: skip
def test_wrong_weights_are_named(weights, words):
    with pytest.raises(ValueError, match=words):
        consensus.partition(X, Y, agents=4, sample_weight=weights)
    with pytest.raises(ValueError, match=r"groups must have shape \(40,\)"):
        consensus.partition(X, Y, groups=[0, 1], sample_weight=np.ones(40))


def test_weights_of_agents_multiply_their_costs_in_blocks_too():
    shards = consensus.partition(*data(), agents=6, scheme="sizes", sizes=[4, 16, 9, 11, 7, 13])
    c, w = np.array([2.0, 1.0, 0.5, 3.0, 1.0, 0.1]), np.random.default_rng(0).standard_normal((6, 5))
    plain, weighted = (problem_of(found) for found in (shards, shards.weighted(c)))
    np.testing.assert_allclose(weighted.value(w), c * plain.value(w), rtol=1e-14)
    np.testing.assert_allclose(weighted.gradient(w), c[:, None] * plain.gradient(w), rtol=1e-13)
    block = problem_of(shards.restrict([1, 3]).weighted(c))
    np.testing.assert_array_equal(block.gradient(w[[1, 3]]), weighted.gradient(w)[[1, 3]])
    even = problem_of(shards.weighted(60 / (6 * shards.sizes)))  # each agent's mean loss counts alike
    means = [problem_of(consensus.Shards.from_list([pair])).value(row[None])[0] for pair, row in zip(parts(shards), w)]
    np.testing.assert_allclose(6 * even.value(w), means, rtol=1e-13)
    for odd in (np.ones(5), [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, np.nan]):
        with pytest.raises(ValueError, match="agents must be 6 finite weights > 0"):
            shards.weighted(odd)


def problem_of(shards):
    return consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards)


def parts(shards):
    return [(X[:size], y[:size]) for X, y, size in zip(shards.features, shards.targets, shards.sizes, strict=True)]
