"""SplitMLP on lines, squares and cubes of worker processes: the numbers of MLP, bytes on the wire, and their lives."""

import os
import pickle
import signal

import numpy as np
import pytest

import consensus
from consensus.centralized import FedAvg, ShardedMLP, SplitMLP, solve
from consensus.model_parallel.costs import Sent, maps_of
from consensus.models import MLP

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked", "pids")]
WIDTHS = [8, 16, 24, 8]
PLAIN = MLP(WIDTHS)
_rng = np.random.default_rng(0)
W, X, U = (_rng.standard_normal((2, *shape)) for shape in ((PLAIN.parameters,), (11, 8), (11, 8)))


@pytest.mark.parametrize(("split", "workers"), [("1d", 2), ("2d", 4), ("3d", 8)])
def test_its_numbers_are_those_of_mlp(split, workers):
    with SplitMLP(WIDTHS, workers, split=split) as model:
        np.testing.assert_allclose(model.predict(W, X), PLAIN.predict(W, X), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(model.vjp(W, X, U), PLAIN.vjp(W, X, U), rtol=1e-12, atol=1e-12)
        assert model.predict(W.astype("f4"), X.astype("f4")).dtype == np.float32


@pytest.mark.parametrize(("split", "workers"), [("1d", 4), ("2d", 4), ("3d", 8)])
def test_bytes_on_the_wire_are_those_of_the_formulas(split, workers):
    maps = maps_of(tuple(WIDTHS), split, workers, 12)
    with SplitMLP(WIDTHS, workers, split=split) as model:
        _, linearization = model.linearize(W[:1], np.zeros((1, 12, 8)))
        forward = sum((each.forward() for each in maps), Sent()).numbers
        assert model.crossed_bytes == 8 * workers * forward
        assert {sent.numbers for sent in model.passed} == {forward}
        linearization.vjp(np.ones((1, 12, 8)))
        backward = sum((each.backward() for each in maps), Sent()).numbers
        assert model.crossed_bytes == 8 * workers * (forward + backward)
        assert sum(sent.parameters for sent in model.passed) == 8 * PLAIN.parameters


def test_messages_that_do_not_fit_in_pipes(monkeypatch):
    model, samples = MLP([64, 64]), 3000  # blocks of 750 kB
    w, x = model.init(np.random.default_rng(0)), np.random.default_rng(1).standard_normal((samples, 64))
    with SplitMLP([64, 64], 8, split="3d") as split:
        np.testing.assert_allclose(split.predict(w, x), model.predict(w, x), rtol=0, atol=1e-12)


def test_it_trains_as_an_mlp_does():
    x = np.random.default_rng(0).standard_normal((40, 4))
    shards = consensus.partition(x, np.tanh(x[:, :2]), agents=2, seed=0)

    def trained(model):
        return solve(consensus.Problem(model, consensus.SquaredLoss(), shards), FedAvg(0.2, 2), rounds=4, seed=0).mean

    with SplitMLP([4, 8, 2], 4, split="2d") as model:
        np.testing.assert_allclose(trained(model), trained(MLP([4, 8, 2])), rtol=1e-11, atol=1e-12)
    assert repr(pickle.loads(pickle.dumps(model))) == "MLP([4, 8, 2], activation='tanh')"


def test_a_dead_worker_is_an_error_and_the_next_call_starts_new_ones(pids):
    with SplitMLP(WIDTHS, 8, split="3d") as model:
        expected = model.predict(W, X)
        os.kill(pids[0][5], signal.SIGKILL)
        with pytest.raises(consensus.WorkerError, match=r"worker 5 .* died \(exit code -9\)"):
            model.predict(W, X)
        np.testing.assert_array_equal(model.predict(W, X), expected)


def test_a_worker_that_dies_while_others_wait_for_it(monkeypatch):
    backward = ShardedMLP.backward

    def dying(self, u):
        if self.grid.ranks.me == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return backward(self, u)

    monkeypatch.setattr(ShardedMLP, "backward", dying)
    with SplitMLP(WIDTHS, 4, split="2d") as model, pytest.raises(consensus.WorkerError, match=r"worker 2 .* died"):
        model.vjp(W, X, U)
