"""Gradients of PyTorch's modules by their own calls."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import consensus
from consensus.frameworks.torch_derivatives import slopes
from consensus.frameworks.torch_draws import runs_python
from consensus.models import Torch

torch = pytest.importorskip("torch")
nn = torch.nn
X = np.random.default_rng(0).standard_normal((24, 3, 8)).astype(np.float32)


class Last(nn.Module):
    """A recurrent layer, of which a part has no influence on the outputs."""

    def __init__(self):
        super().__init__()
        self.inner, self.unused, self.head = nn.GRU(8, 5, batch_first=True), nn.Linear(2, 2), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.inner(x)[0][:, -1])


class Repeated(nn.Module):
    """A block that is computed again on the way back, as large networks do to save memory."""

    def __init__(self):
        super().__init__()
        self.block, self.head = nn.Sequential(nn.Linear(24, 6), nn.Dropout(0.5)), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.utils.checkpoint.checkpoint(self.block, x.flatten(1), use_reentrant=False))


def problem(module):
    torch.manual_seed(0)
    return consensus.Problem(Torch(module()), consensus.CrossEntropy(), consensus.partition(X, np.arange(24) % 3, agents=4))


def test_the_bits_are_those_of_the_linearization():
    p = problem(Last)
    w = np.random.default_rng(1).standard_normal((4, p.parameters)).astype(np.float32)
    outputs, linearization = p.linearize(w, slice(None))
    slopes = p.loss.gradient(outputs, p.shards.targets) * p.weights[:, :, None]
    gradient = p.gradient(w)
    np.testing.assert_array_equal(gradient, linearization.vjp(slopes))
    unused = next(array for array in p.model.layout if array.name == "unused.weight")
    assert not gradient[:, unused.start : unused.start + 6].any()


def test_python_on_the_way_back_may_draw_and_has_the_generator_to_itself():
    def backward(module, hook=False):
        outputs = module(torch.ones(2, 24))
        if hook:
            outputs.register_hook(lambda slopes: slopes * torch.rand(()))
        return lambda: torch.autograd.grad(outputs.sum(), list(module.parameters()))

    assert not runs_python(backward(nn.Sequential(nn.Linear(24, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))))
    assert runs_python(backward(Repeated()))
    assert runs_python(backward(nn.Linear(24, 3), hook=True))
    assert runs_python(lambda: None)  # unknown


@pytest.mark.parametrize("module", [Repeated, lambda: nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(24, 3))])
def test_threads_do_not_share_random_numbers(module, monkeypatch):
    p = problem(module)
    w, batch = np.ones((4, p.parameters), np.float32), consensus.Minibatches(4).at(p, 5)
    one_by_one = p.gradient(w, batch)  # by one thread, as nothing is known of how long it takes
    monkeypatch.setattr("consensus.frameworks.torch_gradients._THREAD", 0.0)
    monkeypatch.setattr("consensus._arrays.parallel._WORTH_BYTES", 0)
    with threadpool_limits(2):
        for _ in range(20):
            np.testing.assert_array_equal(p.gradient(w, batch), one_by_one)


def test_threads_are_worth_it_if_an_agents_quickest_gradient_of_no_more_samples_took_long():
    model = consensus.models.Torch(torch.nn.Linear(3, 1))
    model._seconds.clear()
    assert not model.worth_a_thread(10**6)  # nothing is known
    model._note(100, 5e-3)
    assert [model.worth_a_thread(samples) for samples in (99, 100, 1000)] == [False, True, True]
    model._note(100, 1e-4)  # the first call took long for reasons of its own
    model._note(100, 5e-3)
    assert not model.worth_a_thread(1000)
    model._note(10, 1.0)
    assert model.worth_a_thread(10)


def test_sparse_slopes_of_an_embedding_are_those_of_a_dense_one():
    """Where they are taken of several agents at once, and where a model is linearised."""
    rows = torch.arange(6).reshape(2, 3)
    table = torch.arange(20.0).reshape(10, 2)
    found = []
    for sparse in (True, False):
        leaf = table.clone().requires_grad_()
        outputs = torch.nn.functional.embedding(rows, leaf, sparse=sparse)
        found.append(slopes([outputs], [torch.ones_like(outputs)], [leaf])[0])
    assert not found[0].is_sparse
    assert torch.equal(*found)
