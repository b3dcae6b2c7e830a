"""Models of PyTorch that are made and tried in several threads, which have one generator together."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import consensus
from consensus.losses import TorchLoss
from consensus.models import Torch

torch = pytest.importorskip("torch")
nn = torch.nn
X = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)


class Slow(nn.Module):
    """A module without random numbers, in whose calls other threads have their turn."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        time.sleep(0.0001)
        self.second = nn.Linear(4, 1)

    def forward(self, x):
        time.sleep(0.0001)
        return self.second(torch.tanh(self.first(x)))


class Noisy(Slow):
    def forward(self, x):
        return super().forward(nn.functional.dropout(x, training=self.training))


def slowly(outputs, targets):
    time.sleep(0.0001)
    return ((outputs - targets) ** 2).sum(1)


def test_threads_share_one_generator():
    made = Torch(Slow)
    starts = {seed: made.init(np.random.default_rng(seed)) for seed in range(3)}
    torch.manual_seed(7)
    before = torch.get_rng_state()

    def job(number):
        seed = number % 3
        start = made.init(np.random.default_rng(seed))
        module, loss = (Slow, consensus.SquaredLoss()) if number % 2 else (Noisy, TorchLoss(slowly))
        problem = consensus.Problem(Torch(module), loss, consensus.partition(X, X[:, 0], 2))
        return np.array_equal(start, starts[seed]), problem.model.stochastic

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(job, range(4)))
    assert found == [(True, not number % 2) for number in range(4)]
    assert torch.equal(before, torch.get_rng_state())
