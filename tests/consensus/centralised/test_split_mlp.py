"""SplitMLP: the numbers of MLP, the bytes that cross, and its workers' lives."""

import copy
import gc
import os
import pickle
import signal

import numpy as np
import pytest

import consensus
from consensus.centralised import FedAvg, SplitMLP, solve, split_mlp
from consensus.models import MLP

pytestmark = pytest.mark.usefixtures("forked")
WIDTHS = [5, 7, 6, 2]


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(0)
    plain = MLP(WIDTHS)
    return rng.standard_normal((3, plain.parameters)), rng.standard_normal((3, 11, 5)), rng.standard_normal((3, 11, 2))


def pids(model):
    return model._team.pool.pids


def gone(found):
    for pid in found:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    return True


@pytest.mark.parametrize(("workers", "activation"), [(1, "tanh"), (3, "relu"), (3, "sigmoid"), (7, "quadratic")])
def test_its_numbers_are_those_of_mlp(inputs, workers, activation):
    (w, x, u), plain = inputs, MLP(WIDTHS, activation)
    values, products = plain.predict(w, x), plain.vjp(w, x, u)
    with SplitMLP(WIDTHS, workers, activation) as model:
        np.testing.assert_allclose(model.predict(w, x), values, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(model.vjp(w, x, u), products, rtol=1e-12, atol=1e-13)
        linearization = model.linearize(w[:1], x[:1])[1]
        found = pids(model)
        np.testing.assert_allclose(linearization.vjp(u[:1]), products[:1], rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(linearization.jacobian(), plain.jacobian(w[:1], x[:1]))
    assert gone(found)


def test_a_pass_sends_each_hidden_layer_to_the_others_once_each_way(inputs):
    w, x, u = (array[:1] for array in inputs)
    with SplitMLP(WIDTHS, 3) as model:
        model.vjp(w, x, u)
        assert model.crossed_messages == 2 * 2 * 3 * 2  # ways, hidden layers, workers, others
        assert model.crossed_bytes == 2 * 11 * (7 + 6) * 2 * 8
        linearization = model.linearize(w, x)[1]
        before = model.crossed_bytes
        linearization.vjp(u)
        assert model.crossed_bytes - before == 11 * 13 * 2 * 8  # backward alone: they remember the pass
        model.predict(w[0], x[0])
        np.testing.assert_allclose(linearization.vjp(u), MLP(WIDTHS).vjp(w, x, u), rtol=1e-12)  # and know that it is another


def test_more_samples_than_pass_at_a_time(inputs, monkeypatch):
    monkeypatch.setattr(split_mlp, "_SAMPLES", 4)
    w, x, u = inputs
    with SplitMLP(WIDTHS, 2) as model:
        np.testing.assert_allclose(model.predict(w, x), MLP(WIDTHS).predict(w, x), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(model.vjp(w, x, u), MLP(WIDTHS).vjp(w, x, u), rtol=1e-12, atol=1e-13)
        assert model.predict(w.astype("f4"), x.astype("f4")).dtype == np.float32


def test_it_trains_as_an_mlp_does(problem, start):
    def trained(model):
        other = consensus.Problem(model, problem.loss, problem.shards, problem.regularizer)
        return solve(other, FedAvg(0.2, 2), rounds=4, start=start).mean

    with SplitMLP([3, 4, 1], 2) as model:
        np.testing.assert_allclose(trained(model), trained(problem.model), rtol=1e-11, atol=1e-13)


def test_workers_end_with_the_model_and_a_dead_one_is_an_error(inputs):
    w, x, _ = inputs
    model = SplitMLP(WIDTHS, 2)
    expected = model.predict(w, x)
    os.kill(pids(model)[1], signal.SIGKILL)
    with pytest.raises(consensus.WorkerError, match=r"worker 1 .* died"):
        model.predict(w, x)
    np.testing.assert_array_equal(model.predict(w, x), expected)
    found = pids(model)
    del model
    gc.collect()
    assert gone(found)


def test_sent_elsewhere_it_is_an_mlp():
    model = SplitMLP(WIDTHS, 2, "relu")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert repr(other) == "MLP([5, 7, 6, 2], activation='relu')"
    with pytest.raises(TypeError, match="Derived cannot be copied: workers would take it for an MLP"):
        pickle.dumps(type("Derived", (SplitMLP,), {})(WIDTHS, 2))


def test_wrong_settings_are_refused_by_name():
    with pytest.raises(ValueError, match="workers must be a whole number >= 1 and <= 7; got 8"):
        SplitMLP(WIDTHS, 8)
    with pytest.raises(ValueError, match="activation must be"):
        SplitMLP(WIDTHS, 2, "step")
