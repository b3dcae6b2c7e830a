"""Gradients of modules on another device: one copy there, one back, the loss on the device.

There is no other device here: the CPU stands for one, and what would cross is counted.
"""

import collections

import numpy as np
import pytest

import consensus
from consensus import CrossEntropy, Huber, LogisticLoss, SquaredLoss
from consensus.frameworks.base import Framework
from consensus.frameworks.torch_draws import generators, seeded
from consensus.losses import PoissonLoss, TorchLoss

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from consensus.models import Torch  # noqa: E402

AGENTS = 4


class Tokens(nn.Module):
    """A row of classes for each of two tokens, from whole numbers."""

    def __init__(self):
        super().__init__()
        self.embedded, self.out = nn.Embedding(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.out(self.embedded(x).tanh())


NETS = {
    "linear layers": lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)),
    "convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    ),
    "norms": lambda: nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 3)),
    "batch norms": lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)),
    "tokens": Tokens,
    "dropout": lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Tanh(), nn.Linear(5, 3)),
}
CLASSES = [
    CrossEntropy(),
    CrossEntropy(weight=[1.0, 2.0, 0.5], label_smoothing=0.1, ignore_index=2),
    CrossEntropy(ignore_index=-100),
    TorchLoss(nn.CrossEntropyLoss(reduction="sum"), labels=True),
]
NUMBERS = [SquaredLoss(), Huber(0.3), PoissonLoss()]


def problem(net, loss, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, (21, 2)) if net == "tokens" else rng.standard_normal((21, 6))
    shape = (21, 2) if net == "tokens" else (21,)
    y = rng.integers(0, 3, shape) if loss in CLASSES else rng.integers(0, 4, (21, 3)).astype(float)
    y = rng.integers(0, 2, (21, 3)).astype(float) if isinstance(loss, LogisticLoss) else y
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = NETS[net]()
    return consensus.Problem(Torch(module.double()), loss, consensus.partition(X, y, agents=AGENTS, seed=0))


def both(monkeypatch, net, loss, batch=None):
    """Gradients here, and those that another device would compute."""
    here, there = problem(net, loss), problem(net, loss)
    w = 0.3 * np.random.default_rng(1).standard_normal((AGENTS, here.parameters))
    batches = [None if batch is None else consensus.Minibatches(batch).at(p, 0) for p in (here, there)]
    expected = here.gradient(w, batches[0])
    monkeypatch.setattr(Framework, "away", True)
    return expected, there.gradient(w, batches[1])


@pytest.mark.parametrize("loss", [*CLASSES, *NUMBERS, LogisticLoss()], ids=str)
@pytest.mark.parametrize("batch", [None, 3])
def test_losses_on_the_device_are_those_of_numpy(loss, batch, monkeypatch):
    expected, found = both(monkeypatch, "linear layers", loss, batch)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("net", NETS)
def test_modules_on_the_device_are_those_here(net, monkeypatch):
    expected, found = both(monkeypatch, net, CrossEntropy(), 4)
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


class Waits(TorchDispatchMode):
    """Counts what would wait for a device: numbers that Python asks for."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += "_local_scalar_dense" in str(function) or "nonzero" in str(function)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(("loss", "copies"), [(CLASSES[0], 2), (CLASSES[1], 2), (SquaredLoss(), 2), (CLASSES[3], 5)], ids=str)
@pytest.mark.parametrize("net", ["convolutions", "norms", "batch norms"])
def test_a_gradient_crosses_once_there_and_once_back(net, loss, copies, monkeypatch):
    """With a loss of the user's own its outputs and slopes cross, too; parameters never one tensor after another."""
    monkeypatch.setattr(Framework, "away", True)
    p = problem(net, loss)
    w = np.zeros((AGENTS, p.parameters))
    p.gradient(w)  # what is found out once
    crossed, to, cpu = collections.Counter(), torch.Tensor.to, torch.Tensor.cpu

    def count_to(self, *args, **options):
        crossed["there"] += bool(args) and isinstance(args[0], str)
        return to(self, *args, **options)

    def count_cpu(self, *args, **options):
        crossed["back"] += 1
        return cpu(self, *args, **options)

    monkeypatch.setattr(torch.Tensor, "to", count_to)
    monkeypatch.setattr(torch.Tensor, "cpu", count_cpu)
    with Waits() as waits:
        p.gradient(w)
    calls = AGENTS if net != "convolutions" else crossed["back"] // (1 if copies == 2 else 2)
    assert crossed["there"] + crossed["back"] == copies * calls
    assert waits.count == 0


def test_agents_share_calls_there():
    model = Torch(NETS["linear layers"](), device="meta")
    assert (model.away, model.agents_per_call) == (True, 64)
    here = Torch(NETS["linear layers"]())
    assert (here.away, here.agents_per_call) == (False, 8)


def test_a_device_draws_from_its_own_generator(monkeypatch):
    """Which begins at the seed, and afterwards goes on as if nothing had been drawn."""
    own = torch.Generator().manual_seed(7)
    monkeypatch.setattr(torch.cuda, "default_generators", (None, own))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert [*generators(torch, "cpu")] == [*generators(torch, "mps")] == ["PyTorch's generator"]
    before, first = [generator.get_state() for generator in generators(torch, "cuda").values()], []
    for device in ("cuda", "cuda:1", "cuda"):
        with seeded(torch, 5, device):
            first.append((torch.rand(3, generator=own), torch.rand(3)))
    expected = torch.rand(3, generator=torch.Generator().manual_seed(5))
    assert all(torch.equal(one, expected) for pair in first for one in pair)
    for generator, state in zip(generators(torch, "cuda").values(), before, strict=True):
        assert torch.equal(generator.get_state(), state)
