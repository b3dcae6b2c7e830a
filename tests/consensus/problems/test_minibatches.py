"""Minibatches: every sample once an epoch, unbiased gradients, the same draws in every block of agents."""

import itertools
import timeit

import numpy as np
import pytest

import consensus
import topologies
from consensus import Minibatches
from consensus._arrays.streams import stream
from consensus.problems import Batch
from consensus.solvers import DGD, GradientTracking
from tests.helpers.refusals import refusals

SIZES = [2, 9, 5, 7]
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((23, 4)), RNG.standard_normal(23)
LABELS = RNG.integers(0, 3, 23)
PROBLEMS = {
    "linear squared": (consensus.Linear(4), consensus.SquaredLoss(), Y, consensus.L2(0.1)),
    "mlp classes, nonconvex": (consensus.MLP([4, 5, 3]), consensus.CrossEntropy(), LABELS, consensus.SCAD(0.1)),
}
every = pytest.mark.parametrize("name", PROBLEMS)


class OwnL2(consensus.L2):
    """A smooth regularizer that is not the package's own."""


def problem(name="linear squared", reduction="mean", dtype=float):
    model, loss, y, regularizer = PROBLEMS[name]
    shards = consensus.partition(X.astype(dtype), y, 4, "sizes", sizes=SIZES, seed=1)
    return consensus.Problem(model, loss, shards, regularizer, reduction)


def used(batch, agent):
    return batch.indices[agent][batch.weights[agent] > 0].tolist()


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_every_sample_comes_once_an_epoch(size):
    p, rule, orders = problem(), Minibatches(size, seed=5), {}
    for agent, n in enumerate(SIZES):
        rounds = -(-n // size)
        for epoch in range(3):
            batches = [rule.at(p, epoch * rounds + k) for k in range(rounds)]
            taken = [used(batch, agent) for batch in batches]
            assert [len(part) for part in taken] == [min(size, n - k * size) for k in range(rounds)]
            assert sorted(place for part in taken for place in part) == list(range(n))
            for batch, part in zip(batches, taken, strict=True):
                assert batch.indices.shape == batch.weights.shape == (4, min(size, 9))
                weights = np.where(np.arange(min(size, 9)) < len(part), n / len(part), 0)
                np.testing.assert_allclose(batch.weights[agent], weights, rtol=1e-15)
            orders[agent, epoch] = taken
    if size < 9:
        assert orders[1, 0] != orders[1, 1] != orders[1, 2]
        assert len({str(order) for order in orders.values()}) > 8


def test_streams_are_those_of_philox_whatever_was_drawn_before():
    """Of one generator that is set anew: nothing of another stream is left, such as half a number of 64 bits."""
    for key, counter in itertools.product([(0, 0), (7, 3), (2**62, 2**40)], [(0, 0, 0, 0), (0, 0, 1, 9), (5, 0, 2, 2**62)]):
        fresh = np.random.Generator(np.random.Philox(key=key, counter=counter))
        for draw in (
            lambda rng: rng.integers(5, size=3, dtype=np.int32),
            lambda rng: rng.random(3),
            lambda rng: rng.permutation(9),
        ):
            expected = draw(np.random.Generator(np.random.Philox(key=key, counter=counter)))
            np.testing.assert_array_equal(draw(stream(key, counter)), expected)
        np.testing.assert_array_equal(stream(key, counter).standard_normal(11), fresh.standard_normal(11))


def test_an_epoch_makes_no_generator(monkeypatch):
    p, rule = problem(), Minibatches(2)
    expected = [rule.at(problem(), round).indices for round in range(12)]
    rule.at(p, 0)
    monkeypatch.setattr(np.random, "Philox", None)
    for round, indices in enumerate(expected):
        np.testing.assert_array_equal(rule.at(p, round).indices, indices)


def test_with_replacement_all_samples_are_as_likely():
    p, rule, rounds, counts, repeats = problem(), Minibatches(4, seed=2, replacement=True), 2000, np.zeros(9), 0
    for round in range(rounds):
        own = used(rule.at(p, round), 1)
        assert len(own) == 4
        repeats += len(set(own)) < 4
        np.add.at(counts, own, 1)
        assert used(rule.at(p, round), 0) == [0, 1]  # fewer than the size: all of them
    mean, spread = rounds * 4 / 9, np.sqrt(rounds * 4 / 9 * 8 / 9)
    assert np.abs(counts - mean).max() < 4 * spread
    assert repeats / rounds == pytest.approx(1 - 9 * 8 * 7 * 6 / 9**4, abs=0.03)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@every
@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_gradients_of_an_epoch_add_up_to_the_whole_one(name, size, reduction):
    p, rule = problem(name, reduction), Minibatches(size, seed=3)
    w = RNG.standard_normal((4, p.parameters))
    whole, rounds = p.gradient(w), [-(-n // size) for n in SIZES]
    gradients = [(batch := rule.at(p, k), p.gradient(w, batch)) for k in range(max(rounds))]
    for agent, n in enumerate(SIZES):
        parts = [len(used(batch, agent)) / n * gradient[agent] for batch, gradient in gradients[: rounds[agent]]]
        np.testing.assert_allclose(sum(parts), whole[agent], rtol=0, atol=1e-12)


@every
def test_a_batch_s_gradient_is_that_of_a_problem_with_these_samples_alone(name):
    model, loss, y, regularizer = PROBLEMS[name]
    p, rule = problem(name), Minibatches(3, seed=1)
    w = RNG.standard_normal((4, p.parameters))
    for batch in (rule.at(p, round) for round in range(4)):
        gradient = p.gradient(w, batch)
        for agent, n in enumerate(SIZES):
            chosen, own = p.shards.indices[agent][used(batch, agent)], w[agent : agent + 1]
            alone = consensus.Problem(model, loss, consensus.partition(X[chosen], y[chosen], 1))
            expected = n / 23 * alone.gradient(own)[0]
            if p.nonconvex is not None:  # its share is whole
                expected -= regularizer.smooth_gradient(own)[0] / 4
            np.testing.assert_allclose(gradient[agent], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("replacement", [False, True])
def test_the_expectation_is_the_whole_gradient(replacement):
    p, w = problem(), RNG.standard_normal((4, 5))
    draws = np.array([p.gradient(w, Minibatches(4, seed, replacement).at(p, 2)) for seed in range(500)])
    error = np.abs(draws.mean(axis=0) - p.gradient(w))
    assert (error <= 5 * draws.std(axis=0) / np.sqrt(500) + 1e-14).all()  # round 2: the short last batch of agent 1


@pytest.mark.parametrize("replacement", [False, True])
@every
def test_all_samples_at_once_give_the_bits_of_the_whole_gradient(name, replacement):
    p = problem(name)
    w = RNG.standard_normal((4, p.parameters))
    np.testing.assert_array_equal(p.gradient(w, Minibatches(9, replacement=replacement).at(p, 4)), p.gradient(w))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every
@pytest.mark.parametrize("regularizer", [None, consensus.L2(0.1), OwnL2(0.1)], ids=lambda r: type(r).__name__)
def test_average_form_and_descent(name, regularizer, dtype):
    p = problem(name, dtype=dtype)
    p = consensus.Problem(p.model, p.loss, p.shards, regularizer)
    x, w = RNG.standard_normal((2, 4, p.parameters)).astype(dtype)
    for batch in (None, Minibatches(3).at(p, 1)):
        average = p.average_gradient(w, batch)
        expected, rounding = 4 * p.gradient(w, batch) + (0.1 * w if regularizer else 0), 64 * np.finfo(dtype).eps
        np.testing.assert_allclose(average, expected, rtol=rounding, atol=rounding)
        assert average.dtype == dtype
        before = vars(p.work).copy()
        for step in (0.3, np.float64(0.3)):
            assert p.descended(x, step, w, batch).tobytes() == (x - 0.3 * average).tobytes()
        assert p.work.gradients == before["gradients"] + 2
        assert p.work.samples == before["samples"] + 2 * (23 if batch is None else np.count_nonzero(batch.weights))


def test_samples_between_padding_are_found():
    p = problem()
    turned = {name: getattr(p.shards, name)[:, ::-1].copy() for name in ("features", "targets", "weights", "indices")}
    back = consensus.Problem(p.model, p.loss, consensus.Shards(**turned, samples=23), p.regularizer)
    batch = Minibatches(3).at(back, 0)
    assert (np.take_along_axis(turned["indices"], batch.indices, axis=1)[batch.weights > 0] >= 0).all()


@pytest.mark.parametrize("rows", [slice(1, 3), np.array([3, 0]), slice(1, 2)])  # the last: all in a block have as many batches
@pytest.mark.parametrize("replacement", [False, True])
def test_an_agent_draws_the_same_in_every_block_and_order_of_rounds(rows, replacement):
    rule, p = Minibatches(2, seed=7, replacement=replacement), problem("mlp classes, nonconvex")
    whole = [rule.at(p, round) for round in range(12)]
    block, w = p.restrict(rows), RNG.standard_normal((4, p.parameters))
    for round, part in [(round, rule.at(block, round)) for round in (11, 3, 4, 0, 11, 7)]:  # those of earlier epochs stay
        for field, expected in zip(part, whole[round], strict=True):
            np.testing.assert_array_equal(field, expected[rows])
        np.testing.assert_array_equal(block.gradient(w[rows], part), p.gradient(w, whole[round])[rows])


def test_work_counts_the_samples_used():
    p, w = problem().restrict(slice(1, 4)), np.zeros((3, 5))
    p.gradient(w)
    assert (p.work.gradients, p.work.samples) == (1, 21)
    for round in range(3):  # 4 + 4 + 1 of nine, 4 + 1 + 4 of five, 4 + 3 + 4 of seven
        p.gradient(w, Minibatches(4).at(p, round))
    assert (p.work.gradients, p.work.samples) == (4, 21 + 9 + 9 + 11)


def test_a_batch_takes_a_fraction_of_the_time():
    """32 of 1,000 samples: a thirtieth of the arithmetic; the rest is for finding them."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10_000, 30)), rng.standard_normal(10_000)
    p = consensus.Problem(consensus.MLP([30, 20, 1]), consensus.SquaredLoss(), consensus.partition(X, y, 10))
    w, rule = 0.3 * rng.standard_normal((10, p.parameters)), Minibatches(32)

    rounds = itertools.count()
    batch = min(timeit.repeat(lambda: p.gradient(w, rule.at(p, next(rounds))), number=1, repeat=15))
    assert batch < min(timeit.repeat(lambda: p.gradient(w), number=1, repeat=15)) / 4


def solve(p=None, solver=DGD, batch=2):
    return consensus.solve(p or problem(), topologies.ring(p.agents if p else 4), solver(0.1, batch=batch), rounds=1)


def gradient(batch):
    return problem().gradient(np.zeros((4, 5)), batch)


def test_functions_have_no_samples():
    p = consensus.Problem.from_functions(lambda w: w[:, 0], np.ones_like, agents=3, parameters=1)
    for call in (
        lambda: p.gradient(np.zeros((3, 1)), Minibatches(2).at(problem(), 0)),
        lambda: p.average_gradient(np.zeros((3, 1)), Minibatches(2).at(problem(), 0)),
        lambda: Minibatches(2).at(p, 0),
        lambda: solve(p),
        lambda: solve(p, GradientTracking),
    ):
        with pytest.raises(TypeError, match=r"samples.*leave batch out"):
            call()


test_refusals = refusals(
    (lambda: Minibatches(0), ValueError, "size of Minibatches must be a whole number >= 1; got 0"),
    (lambda: solve(batch=10), ValueError, "size .* must be at most 9, the samples of the largest shard; got 10"),
    (lambda: Minibatches(2, seed=-1), ValueError, "seed of Minibatches must be a whole number >= 0; got -1"),
    (lambda: Minibatches(2, replacement=1), ValueError, "replacement.*got 1"),
    (lambda: DGD(0.1, batch=0), ValueError, "batch must be a whole number >= 1; got 0"),
    (lambda: DGD(0.1, batch="all"), TypeError, r"batch must be a number of samples or a rule.*got 'all'"),
    (lambda: Minibatches(2).at(problem(), -1), ValueError, "round must be a whole number >= 0; got -1"),
    (lambda: gradient(3), TypeError, r"batch must be a Batch, as.*got 3"),
    (lambda: gradient(Minibatches(2).at(problem().restrict([0]), 0)), ValueError, "a row for each of the 4 agents.*; got 1"),
    (lambda: gradient(Batch(np.full((4, 1), 9), np.ones((4, 1)))), ValueError, "be places in a shard, 0 .. 8; got 9 of"),
    (lambda: gradient(Batch(np.full((4, 1), -1), np.ones((4, 1)))), ValueError, "be places in a shard, .*; got -1 of"),
    (lambda: gradient(Batch(np.zeros((4, 1), int), np.ones(4))), ValueError, r"one shape .*; got \(4, 1\), \(4,\)"),
)
