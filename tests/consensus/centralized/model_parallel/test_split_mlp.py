"""SplitMLP: the numbers of MLP, the bytes that cross, and its workers' lives."""

import copy
import gc
import os
import pickle
import signal

import numpy as np
import pytest

import consensus
from consensus.centralized import FedAvg, SplitMLP, solve
from consensus.models import MLP

pytestmark = pytest.mark.usefixtures("forked", "pids")
WIDTHS = [5, 7, 6, 2]
_rng = np.random.default_rng(0)
W, X, U = (_rng.standard_normal((3, *shape)) for shape in ((MLP(WIDTHS).parameters,), (11, 5), (11, 2)))


def assert_equals(model, plain, tolerance=1e-13):
    np.testing.assert_allclose(model.predict(W, X), plain.predict(W, X), rtol=1e-12, atol=tolerance)
    np.testing.assert_allclose(model.vjp(W, X, U), plain.vjp(W, X, U), rtol=1e-12, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "activation"), [(1, "tanh"), (3, "relu"), (3, "sigmoid"), (7, "quadratic")])
def test_its_numbers_are_those_of_mlp(workers, activation):
    plain = MLP(WIDTHS, activation)
    with SplitMLP(WIDTHS, workers, activation) as model:
        assert_equals(model, plain)
        linearization = model.linearize(W[:1], X[:1])[1]
        np.testing.assert_allclose(linearization.vjp(U[:1]), plain.vjp(W[:1], X[:1], U[:1]), rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(linearization.jacobian(), plain.jacobian(W[:1], X[:1]))


def test_a_pass_sends_each_hidden_layer_to_the_others_once_each_way():
    w, x, u = W[:1], X[:1], U[:1]
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


def test_more_samples_than_pass_at_a_time(monkeypatch):
    monkeypatch.setattr(SplitMLP, "most", 4)
    with SplitMLP(WIDTHS, 2) as model:
        assert_equals(model, MLP(WIDTHS))
        assert model.predict(W.astype("f4"), X.astype("f4")).dtype == np.float32


@pytest.mark.slow
def test_it_trains_as_an_mlp_does(problem, start):
    def trained(model):
        other = consensus.Problem(model, problem.loss, problem.shards, problem.regularizer)
        return solve(other, FedAvg(0.2, 2), rounds=4, start=start).mean

    with SplitMLP([3, 4, 1], 2) as model:
        np.testing.assert_allclose(trained(model), trained(problem.model), rtol=1e-11, atol=1e-13)


@pytest.mark.slow
def test_workers_end_with_the_model_and_a_dead_one_is_an_error(pids):
    model = SplitMLP(WIDTHS, 2)
    expected = model.predict(W, X)
    os.kill(pids[0][1], signal.SIGKILL)
    with pytest.raises(consensus.WorkerError, match=r"worker 1 .* died"):
        model.predict(W, X)
    np.testing.assert_array_equal(model.predict(W, X), expected)
    del model
    gc.collect()  # the fixture sees that they are gone


def test_sent_elsewhere_it_is_an_mlp():
    model = SplitMLP(WIDTHS, 2, "relu")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert repr(other) == "MLP([5, 7, 6, 2], activation='relu')"
    with pytest.raises(TypeError, match="Derived cannot be copied: workers would take it for an MLP"):
        pickle.dumps(type("Derived", (SplitMLP,), {})(WIDTHS, 2))
