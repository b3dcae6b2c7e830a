"""Passes over all samples in parts: the same sums, in float64 and in memory that does not grow with the data."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

import consensus
import topologies
from consensus.data import LazyShards
from consensus.models.linearization import PASS_BYTES
from consensus.problems import LazyProblem
from consensus.solvers import DGD

RNG = np.random.default_rng(0)
SIZES = (23, 4, 11)  # one agent with less than a part


def attention(x):
    return nn.functional.softmax(x @ x.transpose(1, 2), dim=2) @ x


class Functional(nn.Module):
    """What its functions keep is no submodule's output: it is seen on the tape alone."""

    def __init__(self, tokens=32, width=4):
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(tokens * width, 2)

    def forward(self, x):
        return self.last(attention(attention(self.first(x))).flatten(1))


def convolutions():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 2))


MODELS = {
    "MLP": (lambda: consensus.MLP([6, 5, 2]), (6,)),
    "ResNet": (lambda: consensus.models.ResNet(6, 4, layers=2, outputs=2), (6,)),
    "Convolutional": (lambda: consensus.models.Convolutional((1, 6, 6), [2], 2), (1, 6, 6)),
    "Torch": (lambda: consensus.models.Torch(convolutions), (1, 6, 6)),
    "Linear": (lambda: consensus.Linear(6, outputs=2), (6,)),
}


def parts_of(shape, outputs=2, sizes=SIZES):
    return [(RNG.standard_normal((size, *shape)), RNG.standard_normal((size, outputs))) for size in sizes]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_sums_of_parts_are_those_of_one_pass(name):
    make, shape = MODELS[name]
    data = parts_of(shape)
    whole = consensus.Problem(make(), consensus.SquaredLoss(), consensus.Shards.from_list(data), consensus.L2(0.1))
    cut = consensus.Problem(make(), consensus.SquaredLoss(), consensus.Shards.from_list(data), consensus.L2(0.1), micro_batch=5)
    lazy = LazyProblem(make(), consensus.SquaredLoss(), LazyShards.from_list(data), consensus.L2(0.1), micro_batch=5)
    w = 0.5 * RNG.standard_normal((3, whole.parameters))
    for problem in (cut, lazy):
        assert_allclose(problem.value(w), whole.value(w), rtol=1e-12)
        assert_allclose(problem.gradient(w), whole.gradient(w), rtol=1e-11, atol=1e-13)
        for found, right in zip(problem.value_and_gradient(w), whole.value_and_gradient(w), strict=True):
            assert_allclose(found, right, rtol=1e-11, atol=1e-13)
        assert_allclose(problem.average_gradient(w), whole.average_gradient(w), rtol=1e-11, atol=1e-12)
        assert_allclose(problem.descended(w, 0.3, w), whole.descended(w, 0.3, w), rtol=1e-11, atol=1e-12)
    assert_array_equal(cut.gradient(w), lazy.gradient(w))
    X, y = parts_of(shape, sizes=(17,))[0]
    found, right = (problem.test_set((X, y)).errors(w) for problem in (cut, whole))
    assert_allclose(found, right, rtol=1e-12)


@pytest.mark.slow
def test_runs_of_parts_have_equal_bits_on_all_engines(forked):
    shards = consensus.Shards.from_list(parts_of((6,)))
    problem = consensus.Problem(consensus.MLP([6, 5, 2]), consensus.SquaredLoss(), shards, micro_batch=4)
    runs = [consensus.solve(problem, topologies.ring(3), DGD(0.05), rounds=4, engine=e) for e in ("stacked", "processes")]
    assert_array_equal(runs[0].w, runs[1].w)
    assert_array_equal(runs[0].history["objective"], runs[1].history["objective"])


def test_batch_normalisation_keeps_its_samples_together():
    data = parts_of((6,), sizes=(8, 8))
    problems = [
        consensus.Problem(
            consensus.models.Torch(nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2))),
            consensus.SquaredLoss(),
            consensus.Shards.from_list(data),
            micro_batch=micro,
        )
        for micro in (None, 3)
    ]
    w = RNG.standard_normal((2, problems[0].parameters))
    assert_array_equal(problems[0].gradient(w), problems[1].gradient(w))
    assert_array_equal(problems[0].buffers(w), problems[1].buffers(w))
    assert_allclose(problems[0].objective(w[0]), problems[1].objective(w[0]), rtol=1e-12)


def test_the_estimate_sees_what_functions_keep():
    model = consensus.models.Torch(Functional()).for_samples((32, 4))
    kept = 4 * (2 * 32 * 32)  # two attentions' matrices alone, in single precision
    assert 1 < model.samples_at_once(np.float32) < PASS_BYTES // kept
    assert consensus.MLP([3, 1000, 1]).samples_at_once(np.float64) == PASS_BYTES // (2 * 1001 * 8)


def test_predictions_of_many_samples_are_those_of_few():
    model, X = consensus.MLP([3, 4096, 1]), RNG.standard_normal((2000, 3))
    w = model.init(RNG)
    assert model.samples_at_once(w.dtype) < len(X)
    few = np.concatenate([model.predict(w, X[start : start + 100]) for start in range(0, len(X), 100)])
    assert_allclose(model.predict(w, X), few, rtol=1e-12)


def test_micro_batch_out_of_range():
    shards = consensus.partition(np.eye(6), np.ones(6), agents=2)
    with pytest.raises(ValueError, match="micro_batch must be a whole number >= 1; got 0"):
        consensus.Problem(consensus.Linear(6), consensus.SquaredLoss(), shards, micro_batch=0)


MEMORY = """
import re, sys, numpy as np, consensus, topologies
from torch import nn
net = lambda: nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
X, y = np.random.default_rng(0).standard_normal((3000, 1, 16, 16)).astype("float32"), np.arange(3000) % 10
problem = consensus.Problem(consensus.models.Torch(net), consensus.CrossEntropy(), consensus.partition(X, y, agents=2))
memory = lambda: int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
run = (problem, topologies.complete(2), consensus.solvers.DGD(0.01, batch=16))
consensus.solve(*run, rounds=1, metrics_on=16)
rounds = memory()
consensus.solve(*run, rounds=1, test=(X, y))
consensus.solve(problem, topologies.complete(2), consensus.solvers.DGD(0.01), rounds=1)
print(memory() - rounds)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_rows_take_hardly_more_memory_than_rounds():
    found = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 150  # MB; it varies from 90 to 115, and passes of all samples at once take 300 more


# Objectives of many samples in float32 are added up in float64: they are right to the precision of a number.


W = np.array([0.3, 0.1], dtype="float32")


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1 << 21, 1), dtype="float32")
    return X, (X[:, 0] + rng.standard_normal(len(X), dtype="float32") > 0).astype("float32")


@pytest.mark.slow
def test_objectives_of_millions_of_samples(samples):
    X, Y = samples
    shards, z, d = consensus.partition(X, Y, agents=1), X[:, 0] * W[0].astype(float) + W[1].astype(float), Y.astype(float)
    for loss, right in (
        (consensus.SquaredLoss(), ((z - d) ** 2).mean() / 2),
        (consensus.LogisticLoss(), (np.logaddexp(0, z) - d * z).mean()),
        (consensus.Huber(), np.where(abs(z - d) <= 1, (z - d) ** 2 / 2, abs(z - d) - 0.5).mean()),
    ):
        assert consensus.Problem(consensus.Linear(1), loss, shards).objective(W) == pytest.approx(right, rel=5e-7)


@pytest.mark.slow
def test_a_network_without_a_kernel(samples):
    X, Y = samples
    problem = consensus.Problem(consensus.MLP([1, 2, 1]), consensus.SquaredLoss(), consensus.partition(X, Y, agents=1))
    w = problem.model.init(np.random.default_rng(0)).astype("float32")
    outputs = problem.model.predict(w.astype(float), X.astype(float))[:, 0]
    assert problem.objective(w) == pytest.approx(((outputs - Y.astype(float)) ** 2).mean() / 2, rel=5e-7)
