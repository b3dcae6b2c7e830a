"""Checkpoints in the format safetensors, read back by its own readers."""

import sys

import numpy as np
import pytest

import consensus
from consensus.models import JAX, Torch, save_safetensors
from tests.helpers.frameworks import WIDTHS

pytest.importorskip("safetensors")
X = np.random.default_rng(0).standard_normal((5, 6))


def numbers(count):
    return np.random.default_rng(1).standard_normal(count)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_mlp_is_its_weights_and_biases(dtype, tmp_path):
    from safetensors.numpy import load_file

    model = consensus.MLP(WIDTHS)
    w = numbers((model.parameters, 2)).astype(dtype)[:, 0]  # not contiguous
    save_safetensors(tmp_path / "folder" / "model.safetensors", model, w)
    found = load_file(tmp_path / "folder" / "model.safetensors")
    assert {array.dtype for array in found.values()} == {np.dtype(dtype)}
    outputs = np.tanh(X @ found["0.weight"] + found["0.bias"]) @ found["1.weight"] + found["1.bias"]
    np.testing.assert_allclose(outputs, model.predict(w, X), rtol=0, atol=1e-12 if dtype is np.float64 else 1e-5)


def test_a_pytree_is_its_paths(tmp_path):
    pytest.importorskip("jax")
    from safetensors.numpy import load_file

    model = JAX(lambda parameters, x: x @ parameters["layers"][0]["w"], {"layers": [{"w": np.ones((6, 2))}]})
    save_safetensors(tmp_path / "model.safetensors", model, w := numbers(12))
    found = load_file(tmp_path / "model.safetensors")
    assert list(found) == ["layers.0.w"]
    np.testing.assert_array_equal(found["layers.0.w"], w.reshape(6, 2))


def test_a_module_takes_an_agents_file_as_its_state_dict(tmp_path):
    """With tied weights, frozen ones in bfloat16, and weights in another order of memory."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)
            self.again = self.first
            self.scale = torch.nn.Parameter(torch.full((6,), 0.5, dtype=torch.bfloat16), requires_grad=False)
            self.register_buffer("mixing", torch.arange(12.0).reshape(2, 6).T[:, :1])  # not contiguous

        def forward(self, x):
            return self.last(self.again(torch.tanh(self.first(x) * self.scale)) + self.mixing[:, 0])

    model, w = Torch(Module()), numbers(42 + 21).astype(np.float32)
    model = model.for_samples((6,))
    save_safetensors(tmp_path / "agent.safetensors", model, w)
    module = Module().requires_grad_(False)
    module.load_state_dict(load_file(tmp_path / "agent.safetensors"))
    expected = model.predict(w, X.astype(np.float32))
    np.testing.assert_allclose(module(torch.from_numpy(X.astype(np.float32))).numpy(), expected, rtol=0, atol=1e-5)
    assert module.scale.dtype == torch.bfloat16


def test_buffers_of_batch_normalisation_are_written(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    model = Torch(torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 1)))
    problem = consensus.Problem(model, consensus.SquaredLoss(), consensus.partition(X, np.ones(5), agents=2))
    w = numbers(19)
    buffers = problem.buffers(np.stack([w, w]))[1]
    save_safetensors(tmp_path / "agent.safetensors", problem.model, w, buffers)
    found = load_file(tmp_path / "agent.safetensors")
    np.testing.assert_array_equal(np.concatenate([found["0.running_mean"], found["0.running_var"]]), buffers)
    np.testing.assert_array_equal(found["1.weight"].numpy().ravel(), w[12:18])
    with pytest.raises(ValueError, match="buffers must be given"):
        save_safetensors(tmp_path / "agent.safetensors", problem.model, w)


def test_bad_input_leaves_the_file_from_before(tmp_path, monkeypatch):
    model, path = consensus.Linear(2), tmp_path / "model.safetensors"
    save_safetensors(path, model, np.zeros(3))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"w must have shape \(3,\), such as result.mean; got \(4, 3\)"):
        save_safetensors(path, model, np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"buffers must be None for Linear\(2, outputs=1"):
        save_safetensors(path, model, np.zeros(3), np.zeros(2))
    with pytest.raises(TypeError, match="model must have a layout"):
        save_safetensors(path, object(), np.zeros(3))
    with pytest.raises(ValueError, match="path must be that of a file"):
        save_safetensors("", model, np.zeros(3))
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match=r"^save_safetensors needs safetensors: pip install 'consensus-opt\[safetensors\]'$"):
        save_safetensors(path, model, np.zeros(3))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
