"""Methods with minibatches: what they do in a round, where they end, what is counted."""

import itertools

import numpy as np
import pytest
from engine_harness import assert_same
from problems import problem
from steps_by_hand import SCHEDULES, states

import consensus
import topologies
from consensus import Minibatches
from consensus.solvers import DGD, GradientTracking


def pooled():
    """Ridge regression on shards of 4, 16, 9, 11, 7 and 13 samples."""
    return problem("squared", consensus.L2(0.1), scheme="sizes")


def batch_gradients(p, rule, state):
    return p.average_gradient(state.w, rule.at(p, state.round))


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("order", ["atc", "cta"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_trackers_average_to_the_batches_gradients(schedule, order, replacement):
    rule = Minibatches(3, seed=2, replacement=replacement)
    p = pooled()
    for state in states(GradientTracking(0.05, order, batch=rule), p, SCHEDULES[schedule], 20):
        expected = batch_gradients(p, rule, state)
        np.testing.assert_array_equal(state.gradient, expected)
        np.testing.assert_allclose(state.y.mean(axis=0), expected.mean(axis=0), rtol=0, atol=1e-13)


def test_descent_uses_the_batch_of_its_round():
    rule, p = Minibatches(3, seed=2), pooled()
    W = SCHEDULES["static"].weights(0).toarray()
    path = list(states(DGD(0.05, batch=rule), p, SCHEDULES["static"], 9))
    for before, after in itertools.pairwise(path):
        np.testing.assert_allclose(after.w, W @ before.w - 0.05 * batch_gradients(p, rule, before), rtol=1e-12)


@pytest.mark.parametrize("make", [DGD, GradientTracking])
def test_a_number_of_samples_is_a_rule_and_all_of_them_the_method_without(make):
    assert make(0.05, batch=3) == make(0.05, batch=Minibatches(3))
    assert make(0.05).batch is None
    assert "batch=Minibatches(size=3, seed=0, replacement=False)" in repr(make(0.05, batch=3))
    p, network = pooled(), topologies.ring(6)
    whole, batched = (consensus.solve(p, network, make(0.05, batch=size), rounds=9) for size in (None, 16))
    assert_same(batched, whole)


@pytest.mark.slow
def test_tracking_ends_near_the_least_squares_optimum_and_nearer_with_smaller_steps():
    """The mean squared distance in the steady state is of order alpha."""
    p, network = pooled(), topologies.Static(topologies.erdos_renyi(6, 0.6, seed=1))
    real = p.shards.weights > 0
    D, d = np.column_stack([p.shards.features[real], np.ones(60)]), p.shards.targets[real][:, 0]
    best = np.linalg.solve(D.T @ D / 60 + 0.1 * np.eye(5), D.T @ d / 60)
    distances = {}
    for step in (0.08, 0.02):
        solver = GradientTracking(step, batch=Minibatches(4, seed=3, replacement=True))
        path = np.array([state.w for state in states(solver, p, network, int(24 / step))])
        distances[step] = np.square(path[len(path) // 3 :] - best).sum(axis=2).mean()
    assert distances[0.02] < 0.01 * best @ best
    assert 2.5 < distances[0.08] / distances[0.02] < 6.5  # for steps four times as long


def test_the_history_counts_samples():
    """3 of 4, 16, 9, 11, 7 and 13 samples in each of 13 rounds, less in the last round of an epoch."""
    history = consensus.solve(pooled(), topologies.ring(6), DGD(0.05, batch=3), rounds=13).history
    sizes = [4, 16, 9, 11, 7, 13]
    expected = [sum(min(3, n - round % -(-n // 3) * 3) for n in sizes) for round in range(13)]
    assert history["samples"].tolist() == [0, *np.cumsum(expected)]
    assert history["gradients"].tolist() == list(range(14))
    whole = consensus.solve(pooled(), topologies.ring(6), GradientTracking(0.05), rounds=2).history
    assert whole["samples"].tolist() == [60, 120, 180]
    assert history["epochs"].tolist() == (history["samples"] / 60).tolist()
    assert whole["epochs"].tolist() == [1, 2, 3]


def test_another_batch_is_another_run(tmp_path):
    run = lambda solver, rounds, **more: consensus.solve(pooled(), topologies.ring(6), solver, rounds=rounds, **more)  # noqa: E731
    run(DGD(0.05, batch=3), 3, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match=r"solver: DGD\(.*batch=Mini.* there, DGD\(.* here"):
        run(DGD(0.05), 5, resume=tmp_path / "run")
