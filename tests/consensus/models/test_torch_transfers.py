"""Where a module's arrays are: on the CPU in NumPy's own memory; on another device what is sent, and how often."""

import numpy as np
import pytest

import consensus

torch = pytest.importorskip("torch")
from torch.overrides import TorchFunctionMode  # noqa: E402

SAMPLES, FEATURES, OUTPUTS = 32, 16, 16


class Transfers(TorchFunctionMode):
    """Notes the sizes of what is sent to the device and back: on the CPU these calls do nothing."""

    def __init__(self):
        super().__init__()
        self.to, self.back = [], []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.to:
            self.to.append(args[0].numel())
        elif function is torch.Tensor.cpu:
            self.back.append(args[0].numel())
        return function(*args, **(kwargs or {}))


class Places(torch.nn.Module):
    """A linear layer that notes where in memory its weights and its samples are."""

    seen = []  # noqa: RUF012  # of all copies

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(FEATURES))

    def forward(self, x):
        self.seen.append((self.weight.data_ptr(), x.data_ptr()))
        return x @ self.weight


def at_a_line(array):
    """The same numbers in memory that begins at a line of cache, as products need it for equal bits."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    aligned = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    aligned[...] = array
    return aligned


def test_on_the_cpu_parameters_and_samples_are_lent():
    model, seen = consensus.models.Torch(Places()).for_samples((FEATURES,)), Places.seen
    w = at_a_line(np.random.default_rng(0).standard_normal((1, model.parameters)).astype(np.float32))
    x = at_a_line(np.random.default_rng(1).standard_normal((1, SAMPLES, FEATURES)).astype(np.float32))
    for call in (model.predict, model.linearize):
        seen.clear()
        call(w, x)
        assert seen == [(w.ctypes.data, x.ctypes.data)]
    outputs, linearization = model.linearize(w, x)
    np.testing.assert_allclose(outputs[0], x[0] @ w.reshape(FEATURES, OUTPUTS), rtol=1e-4, atol=1e-5)
    assert linearization.vjp(outputs).shape == w.shape


@pytest.mark.parametrize("agents", [3, 8])
def test_a_gradient_sends_each_array_once(agents):
    module = torch.nn.Sequential(torch.nn.Conv1d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(2 * FEATURES - 4, OUTPUTS))
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((agents * SAMPLES, 1, FEATURES)).astype(np.float32), np.arange(agents * SAMPLES) % OUTPUTS
    model = consensus.models.Torch(module.append(torch.nn.LayerNorm(OUTPUTS)))
    p = consensus.Problem(model, consensus.CrossEntropy(), consensus.partition(X, y, agents))
    w = np.tile(model.init(rng), (agents, 1)).astype(np.float32)
    p.gradient(w)  # what is made once: the module on the device, how many agents share a call
    with Transfers() as sent:
        p.gradient(w)
    assert sum(sent.to) == w.size + X.size + agents * SAMPLES * OUTPUTS  # parameters, samples, slopes of the loss
    assert sum(sent.back) == agents * SAMPLES * OUTPUTS + w.size  # outputs, gradient
    with Transfers() as both:
        p.value_and_gradient(w)
    # Threads that work at agents side by side come in any order.
    assert (sorted(both.to), sorted(both.back)) == (sorted(sent.to), sorted(sent.back))
