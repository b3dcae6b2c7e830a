"""LayerParallel: the gradients of ResNet, how fast and by which laws multigrid comes to them, and what crosses."""

import copy
import gc
import os
import pickle
import signal

import numpy as np
import pytest

import consensus
from consensus.centralized import FedAvg, LayerParallel, SynchronousSGD, solve
from consensus.model_parallel.slab import SlabWork
from consensus.models import ResNet
from tests.helpers.slabs import Given, allowed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked", "pids")]
GIVEN = Given.drawn(ResNet(5, 6, 32, 2, step=0.05))


def relative(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


def near(found, wanted, digits=1e-13):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=digits * np.abs(wanted).max())


@pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid", "softplus", "quadratic"])
@pytest.mark.parametrize(("workers", "coarsening"), [(1, 4), (2, 4), (4, 2)])
def test_two_levels_are_exact_after_half_as_many_iterations_as_corners(activation, workers, coarsening):
    model = ResNet(5, 6, 16, 2, step=0.004 if activation == "quadratic" else 0.3, activation=activation)
    given = Given.drawn(model)
    half = 16 // coarsening // 2
    with LayerParallel(model, workers, coarsening, levels=2, iterations=half) as split:
        near(split.gradient(*given[1:]), model.vjp(*given[1:]))
        assert max(split.residuals.forward[-1], split.residuals.adjoint[-1]) < 1e-13 * split.residuals.forward[0]
    with LayerParallel(model, workers, coarsening, levels=2, iterations=half - 1 or 1) as split:
        if half > 1:  # not any sooner
            assert relative(split.gradient(*given[1:]), model.vjp(*given[1:])) > 1e-12


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_after_layers_over_coarsening_iterations_it_replaces_the_network(levels):
    model = ResNet(3, 4, 16, 2)
    with LayerParallel(model, 2, 2, levels=levels, iterations=8) as split:
        rng = np.random.default_rng(0)
        w, x = rng.standard_normal((3, model.parameters)), rng.standard_normal((3, 7, 3))
        u = rng.standard_normal((3, 7, 2))
        split.most = 3  # samples at a time
        near(split.gradient(w, x, u), model.vjp(w, x, u))
        outputs, linearization = split.linearize(w, x)
        near(outputs, model.predict(w, x))
        near(linearization.vjp(u), model.vjp(w, x, u))
        np.testing.assert_array_equal(linearization.gram(), model.gram(w, x))
        assert split.gradient(*(array.astype("f4") for array in (w, x, u))).dtype == np.float32
        np.testing.assert_array_equal(split.predict(w[0], x[0]), model.predict(w[0], x[0]))


def test_the_bits_are_the_same_on_any_number_of_workers():
    def found(workers):
        with LayerParallel(GIVEN.model, workers, 2, levels=3, iterations=2) as split:
            return [*split.linearize(*GIVEN[1:3])[:1], split.gradient(*GIVEN[1:]), *split.residuals]

    one = found(1)
    for workers in (2, 4, 8):
        for part, other in zip(one, found(workers), strict=True):
            if part.ndim == 1:  # residuals, summed over slabs
                np.testing.assert_allclose(part, other, rtol=1e-14)
            else:
                np.testing.assert_array_equal(part, other)


@pytest.mark.parametrize("iterations", [1, 2, 3, 4])
def test_a_gradients_error_is_bounded_by_the_residuals(iterations):
    with LayerParallel(GIVEN.model, 2, 4, levels=2, iterations=iterations) as split:
        errors = GIVEN.errors(split.gradient(*GIVEN[1:]))
        bounds = allowed(GIVEN, split.residuals, 4)
    assert (errors <= bounds + 1e-14).all()
    if iterations < 3:
        assert bounds[:-1].max() < 5000 * errors.max()  # and it says something


def test_with_means_for_coarse_layers_few_iterations_suffice_at_any_depth():
    """Of levels, too, though W and b change at random from layer to layer."""
    for levels, least in ((2, 40), (3, 40), (4, 30)):
        given = Given.drawn(ResNet(5, 8, 256, 2), rough=0.02)
        with LayerParallel(given.model, 2, 4, levels=levels, iterations=3) as split:
            split.gradient(*given[1:])
            for residuals in split.residuals:
                assert (residuals[:-1] / residuals[1:]).min() > least


def test_a_smooth_network_reduces_residuals_in_proportion_to_its_depth():
    """The same W and b everywhere: coarse steps are those of Euler for an equation, off by O(c h): twice the depth, half."""
    rates = []
    for layers in (256, 512, 1024):
        model = ResNet(3, 4, layers, 2)
        rng = np.random.default_rng(0)
        ends = rng.standard_normal(3 * 4 + 4), rng.standard_normal(4 * 2 + 2)
        w = np.concatenate([ends[0], *[np.random.default_rng(1).standard_normal(20)] * layers, ends[1]])[None]
        with LayerParallel(model, 1, 4, levels=2, iterations=2) as split:
            split.gradient(w, rng.standard_normal((1, 9, 3)), np.ones((1, 9, 2)))
            rates.append(split.residuals.forward[1] / split.residuals.forward[2])
    np.testing.assert_allclose(np.divide(rates[1:], rates[:-1]), 2, rtol=0.1)


def test_a_thousand_layers():
    given = Given.drawn(ResNet(6, 8, 1024, 3), rough=0)
    wanted = given.model.vjp(*given[1:])
    with LayerParallel(given.model, 4) as split:  # the usual settings
        assert split.levels == 5
        assert relative(split.gradient(*given[1:]), wanted) < 1e-6
        before = split.residuals
        assert relative(split.gradient(*given[1:]), wanted) < 1e-10  # states are kept
        assert split.residuals.forward[0] == pytest.approx(before.forward[-1], rel=1e-6)
    with LayerParallel(given.model, 4, iterations=1) as split:
        assert relative(split.gradient(*given[1:]), wanted) < 1e-3


@pytest.mark.parametrize(("workers", "levels"), [(1, 2), (2, 2), (4, 3)])
def test_neighbours_alone_send_states_once_a_level_and_iteration(workers, levels):
    w, x, u = GIVEN[1:]
    with LayerParallel(GIVEN.model, workers, 2, levels=levels, iterations=3) as split:
        for cold in (True, False):
            before = split.crossed_messages, split.crossed_bytes
            split.gradient(w, x, u)
            messages = 2 * (workers - 1) * (3 * levels + cold)
            assert (split.crossed_messages - before[0], split.crossed_bytes - before[1]) == (messages, messages * 20 * 6 * 8)
        work = SlabWork(32, 6, workers, 2, levels, 3, 20)
        assert messages == 2 * (workers - 1) * work.messages(cold=False)


def test_simultaneous_training_follows_exact_training():
    """One iteration a step, from the states of the step before: the gradient where training ends is within 2%."""
    network, rng = ResNet(3, 4, 32, 1), np.random.default_rng(2)
    start, x = network.init(rng), rng.standard_normal((60, 3))
    shards = consensus.partition(x, np.tanh(x @ rng.standard_normal(3)), agents=1)

    def trained(model):
        problem = consensus.Problem(model, consensus.SquaredLoss(), shards, consensus.L2(0.01))
        return solve(problem, FedAvg(0.3, 5), rounds=20, record_every=20, start=start), problem

    exact, plain = trained(network)
    assert exact.history["objective"][-1] < 0.8 * exact.history["objective"][0]
    with LayerParallel(network, 2, 4, levels=3, iterations=1) as model:
        run, _ = trained(model)
        warm = model.residuals.forward[0]
        model.close()
        model.linearize(run.w, shards.features)
        assert warm < 0.2 * model.residuals.forward[0]
    assert run.history["objective"][-1] == pytest.approx(exact.history["objective"][-1], rel=1e-4)
    assert relative(plain.total_gradient(run.mean), plain.total_gradient(exact.mean)) < 0.02


def test_states_of_samples_seen_in_the_last_call_alone_are_kept():
    model = GIVEN.model
    rng = np.random.default_rng(0)
    w, x = np.repeat(GIVEN.w, 2, axis=0), rng.standard_normal((2, 20, 5))
    with LayerParallel(model, 2, 4, levels=2) as split:
        split.linearize(w, x)  # two agents
        cold = split.residuals.forward
        split.linearize(w, x)
        warm = split.residuals.forward
        assert warm[0] < 1e-2 * cold[0]
        split.linearize(w[:1], x[:1])
        split.linearize(w[:1], x[1:])
        np.testing.assert_array_equal(split.residuals.forward, cold)  # forgotten: it starts anew, with the same bits


def test_a_dead_slab_is_named_and_nothing_is_left(pids):
    model = LayerParallel(GIVEN.model, 2, 4)
    expected = model.gradient(*GIVEN[1:])
    os.kill(pids[0][1], signal.SIGKILL)
    with pytest.raises(consensus.WorkerError, match=r"slab 1 \(process \d+\) died \(exit code -9\)"):
        model.gradient(*GIVEN[1:])
    np.testing.assert_array_equal(model.gradient(*GIVEN[1:]), expected)  # by new workers
    del model
    gc.collect()  # the fixture sees that they are gone


def test_sent_elsewhere_it_is_the_network(problem):
    model = LayerParallel(ResNet(3, 4, 8, 1), 2)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert repr(other) == repr(model.plain)
    start = model.init(np.random.default_rng(0))
    runs = []
    for each in (model, model.plain):
        same = consensus.Problem(each, problem.loss, problem.shards, problem.regularizer)
        runs.append(solve(same, SynchronousSGD(12, 0.1, workers=2), rounds=3, start=start))
    np.testing.assert_array_equal(runs[0].w, runs[1].w)


@pytest.mark.parametrize(("settings", "kind", "words"), [
    ({"model": consensus.MLP([3, 2])}, TypeError, r"model must be a ResNet, such as .*; got MLP\(\[3, 2\]"),
    ({"workers": 0}, ValueError, "workers must be a whole number >= 1; got 0"),
    ({"coarsening": 1}, ValueError, "coarsening must be a whole number >= 2; got 1"),
    ({"levels": 1}, ValueError, "levels must be a whole number >= 2; got 1"),
    ({"iterations": 0}, ValueError, "iterations must be a whole number >= 1; got 0"),
    ({"workers": 3}, ValueError, r"multiple of workers \* coarsening \*\* \(levels - 1\) = 12, .* 3 workers .*; got 32"),
    ({"levels": 4}, ValueError, r"= 128, so that each of 2 workers has as many on all 4 levels; got 32"),
])  # fmt: skip
def test_bad_settings_are_named(settings, kind, words):
    with pytest.raises(kind, match=words):
        LayerParallel(**{"model": GIVEN.model, "workers": 2} | settings)
    with pytest.raises(ValueError, match="samples must be a whole number >= 1 and <= 1024; got 2000"):
        LayerParallel(GIVEN.model, 2).load(2000)
