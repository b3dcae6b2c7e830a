"""Minibatches: every sample once an epoch, unbiased gradients, the same draws in every block of agents."""

import time

import numpy as np
import pytest

import consensus
import topologies
from consensus import Minibatches
from consensus.problems import Batch
from consensus.solvers import DGD, GradientTracking

SIZES = [2, 9, 5, 7]
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((23, 4)), RNG.standard_normal(23)
LABELS = RNG.integers(0, 3, 23)
SHARDS = {"sizes": SIZES, "seed": 1}
PROBLEMS = {
    "linear squared": (consensus.Linear(4), consensus.SquaredLoss(), Y, consensus.L2(0.1)),
    "mlp classes, nonconvex": (consensus.MLP([4, 5, 3]), consensus.CrossEntropy(), LABELS, consensus.SCAD(0.1)),
}


class OwnL2(consensus.L2):
    """A smooth regularizer that is not the package's own."""


def problem(name="linear squared", reduction="mean"):
    model, loss, y, regularizer = PROBLEMS[name]
    return consensus.Problem(model, loss, consensus.partition(X, y, 4, "sizes", **SHARDS), regularizer, reduction)


def used(batch, agent):
    return batch.indices[agent][batch.weights[agent] > 0].tolist()


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_every_sample_comes_once_an_epoch(size):
    p, rule = problem(), Minibatches(size, seed=5)
    orders = {}
    for agent, n in enumerate(SIZES):
        rounds = -(-n // size)
        for epoch in range(3):
            batches = [rule.at(p, epoch * rounds + k) for k in range(rounds)]
            taken = [used(batch, agent) for batch in batches]
            assert [len(part) for part in taken] == [min(size, n - k * size) for k in range(rounds)]
            assert sorted(place for part in taken for place in part) == list(range(n))
            for batch, part in zip(batches, taken, strict=True):
                assert batch.weights[agent].sum() == pytest.approx(n, rel=1e-15)
                assert batch.indices.shape == batch.weights.shape == (4, min(size, 9))
                np.testing.assert_allclose(batch.weights[agent][: len(part)], n / len(part), rtol=1e-15)
            orders[agent, epoch] = taken
    if size in (1, 3, 4):
        assert orders[1, 0] != orders[1, 1] != orders[1, 2]
        assert len({str(order) for order in orders.values()}) > 8


def test_with_replacement_all_samples_are_as_likely():
    p, rule = problem(), Minibatches(4, seed=2, replacement=True)
    counts, rounds = np.zeros(9), 2000
    repeats = 0
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
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_gradients_of_an_epoch_add_up_to_the_whole_one(name, size, reduction):
    p, rule = problem(name, reduction), Minibatches(size, seed=3)
    w = RNG.standard_normal((4, p.parameters))
    whole = p.gradient(w)
    rounds = [-(-n // size) for n in SIZES]
    gradients = [(batch := rule.at(p, k), p.gradient(w, batch)) for k in range(max(rounds))]
    for agent, n in enumerate(SIZES):
        parts = [len(used(batch, agent)) / n * gradient[agent] for batch, gradient in gradients[: rounds[agent]]]
        np.testing.assert_allclose(sum(parts), whole[agent], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_batch_s_gradient_is_that_of_a_problem_with_these_samples_alone(name):
    model, loss, y, regularizer = PROBLEMS[name]
    p, rule = problem(name), Minibatches(3, seed=1)
    w, own = RNG.standard_normal((4, p.parameters)), p.shards.indices
    for round in range(4):
        batch = rule.at(p, round)
        gradient = p.gradient(w, batch)
        for agent, n in enumerate(SIZES):
            chosen = own[agent][used(batch, agent)]
            alone = consensus.Problem(model, loss, consensus.partition(X[chosen], np.asarray(y)[chosen], 1))
            expected = n / 23 * alone.gradient(w[agent : agent + 1])[0]
            if p.nonconvex is not None:  # its share is whole
                expected -= regularizer.smooth_gradient(w[agent : agent + 1])[0] / 4
            np.testing.assert_allclose(gradient[agent], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("replacement", [False, True])
def test_the_expectation_is_the_whole_gradient(replacement):
    p = problem()
    w = RNG.standard_normal((4, p.parameters))
    draws = np.array([p.gradient(w, Minibatches(4, seed, replacement).at(p, 2)) for seed in range(500)])
    error = np.abs(draws.mean(axis=0) - p.gradient(w))
    assert (error <= 5 * draws.std(axis=0) / np.sqrt(500) + 1e-14).all()  # round 2: the short last batch of agent 1


@pytest.mark.parametrize("name", PROBLEMS)
def test_all_samples_at_once_give_the_bits_of_the_whole_gradient(name):
    p = problem(name)
    w = RNG.standard_normal((4, p.parameters))
    for replacement in (False, True):
        batch = Minibatches(9, replacement=replacement).at(p, 4)
        np.testing.assert_array_equal(p.gradient(w, batch), p.gradient(w))


def test_the_average_form_of_a_batch():
    p = problem()
    w, batch = RNG.standard_normal((4, 5)), Minibatches(3).at(p, 1)
    np.testing.assert_allclose(p.average_gradient(w, batch), 4 * p.gradient(w, batch) + 0.1 * w, rtol=1e-14)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("regularizer", [None, OwnL2(0.1)])
def test_descent_has_the_bits_of_its_gradient(name, regularizer):
    p = problem(name)
    p = consensus.Problem(p.model, p.loss, p.shards, regularizer)
    x, w = RNG.standard_normal((2, 4, p.parameters))
    for batch in (None, Minibatches(3).at(p, 1)):
        expected = x - 0.3 * p.average_gradient(w, batch)
        work = vars(p.work).copy()
        assert p.descended(x, 0.3, w, batch).tobytes() == expected.tobytes()
        again = p.descended(x, np.float64(0.3), w, batch)
        assert again.tobytes() == expected.tobytes()
        assert p.work.gradients == work["gradients"] + 2
        assert p.work.samples == work["samples"] + 2 * (23 if batch is None else np.count_nonzero(batch.weights))


def test_samples_between_padding_are_found():
    p = problem()
    names = ("features", "targets", "weights", "indices")
    turned = {name: np.ascontiguousarray(getattr(p.shards, name)[:, ::-1]) for name in names}
    back = consensus.Problem(p.model, p.loss, consensus.Shards(**turned, samples=23), p.regularizer)
    batch = Minibatches(3).at(back, 0)
    assert (np.take_along_axis(turned["indices"], batch.indices, axis=1)[batch.weights > 0] >= 0).all()


@pytest.mark.parametrize("rows", [slice(1, 3), np.array([3, 0]), slice(1, 2)])  # the last: all in a block have as many batches
@pytest.mark.parametrize("replacement", [False, True])
def test_an_agent_draws_the_same_in_every_block_and_order_of_rounds(rows, replacement):
    rule, p = Minibatches(2, seed=7, replacement=replacement), problem("mlp classes, nonconvex")
    whole = [rule.at(p, round) for round in range(12)]
    block = p.restrict(rows)
    w = RNG.standard_normal((4, p.parameters))
    for round, part in [(round, rule.at(block, round)) for round in (11, 3, 4, 0, 11, 7)]:  # those of earlier epochs stay
        for field, expected in zip(part, whole[round], strict=True):
            np.testing.assert_array_equal(field, expected[rows])
        np.testing.assert_array_equal(block.gradient(w[rows], part), p.gradient(w, whole[round])[rows])


def test_work_counts_the_samples_looked_at():
    p = problem().restrict(slice(1, 4))
    w = np.zeros((3, 5))
    p.gradient(w)
    assert (p.work.gradients, p.work.samples) == (1, 21)
    for round in range(3):  # 4 + 4 + 1 of nine, 4 + 1 + 4 of five, 4 + 3 + 4 of seven
        p.gradient(w, Minibatches(4).at(p, round))
    assert (p.work.gradients, p.work.samples) == (4, 21 + 9 + 9 + 11)


def test_float32_stays_float32():
    shards = consensus.partition(X.astype(np.float32), Y, 4, "sizes", **SHARDS)
    p = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards)
    assert p.gradient(np.zeros((4, 5), np.float32), Minibatches(3).at(p, 0)).dtype == np.float32


def test_a_batch_takes_a_fraction_of_the_time():
    """32 of 1,000 samples: some thirtieth of the arithmetic, the rest is for finding them."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10_000, 30)), rng.standard_normal(10_000)
    p = consensus.Problem(consensus.MLP([30, 20, 1]), consensus.SquaredLoss(), consensus.partition(X, y, 10))
    w, rule = 0.3 * rng.standard_normal((10, p.parameters)), Minibatches(32)

    def fastest(call):
        times = []
        for round in range(15):
            begin = time.perf_counter()
            call(round)
            times.append(time.perf_counter() - begin)
        return min(times)

    whole, part = fastest(lambda _: p.gradient(w)), fastest(lambda round: p.gradient(w, rule.at(p, round)))
    print(f"whole {1e6 * whole:.0f} us, batch {1e6 * part:.0f} us, ratio {whole / part:.1f}")
    assert part < whole / 4


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: Minibatches(0), ValueError, "size of Minibatches must be a whole number >= 1; got 0"),
        (lambda: Minibatches(2.5), ValueError, "size of Minibatches.*2.5"),
        (
            lambda: consensus.solve(problem(), topologies.ring(4), DGD(0.1, batch=10), rounds=1),
            ValueError,
            "size of Minibatches must be at most 9, the samples of the largest shard; got 10",
        ),
        (lambda: Minibatches(2, seed=-1), ValueError, "seed of Minibatches must be a whole number >= 0; got -1"),
        (lambda: Minibatches(2, replacement=1), ValueError, "replacement.*got 1"),
        (lambda: DGD(0.1, batch=0), ValueError, "batch must be a whole number >= 1; got 0"),
        (lambda: DGD(0.1, batch="all"), TypeError, r"batch must be a number of samples or a rule.*got 'all'"),
        (lambda: Minibatches(2).at(problem(), -1), ValueError, "round must be a whole number >= 0; got -1"),
        (lambda: problem().gradient(np.zeros((4, 5)), 3), TypeError, r"batch must be a Batch, as.*got 3"),
        (
            lambda: problem().gradient(np.zeros((4, 5)), Minibatches(2).at(problem().restrict([0]), 0)),
            ValueError,
            "batch must have a row for each of the 4 agents held here; got 1",
        ),
        (
            lambda: problem().gradient(np.zeros((4, 5)), Batch(np.full((4, 1), 100), np.ones((4, 1)))),
            ValueError,
            "indices of batch must be places in a shard, 0 .. .*got .*100",
        ),
        (
            lambda: problem().gradient(np.zeros((4, 5)), Batch(np.zeros((4, 1), int), np.ones(4))),
            ValueError,
            r"one shape \(agents, size\); got \(4, 1\), \(4,\)",
        ),
    ],
)
def test_bad_input(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_functions_have_no_samples():
    p = consensus.Problem.from_functions(lambda w: w[:, 0], np.ones_like, agents=3, parameters=1)
    for call in (
        lambda: p.gradient(np.zeros((3, 1)), Minibatches(2).at(problem(), 0)),
        lambda: p.average_gradient(np.zeros((3, 1)), Minibatches(2).at(problem(), 0)),
        lambda: Minibatches(2).at(p, 0),
        lambda: consensus.solve(p, topologies.ring(3), DGD(0.1, batch=2), rounds=1),
        lambda: consensus.solve(p, topologies.ring(3), GradientTracking(0.1, batch=2), rounds=1),
    ):
        with pytest.raises(TypeError, match=r"samples.*leave batch out"):
            call()
