"""The same networks in PyTorch, JAX and, where there is one, ours: an MLP and a small convolutional one of 8 x 8 images."""

import itertools

import numpy as np

import consensus
from consensus.models import JAX, Torch

WIDTHS = [6, 4, 3]
IMAGE, CLASSES = (1, 8, 8), 3
_FILTERS = (2, 3)


def torch_mlp():
    """The same parameters in every process."""
    import torch
    from torch import nn

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Torch(nn.Sequential(nn.Linear(*WIDTHS[:2]), nn.Tanh(), nn.Linear(*WIDTHS[1:])))


def torch_mlp_in_our_order():
    """The same with weights (inputs, outputs), as ours has them."""
    import torch
    from torch import nn

    class Affine(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.zeros(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

        def forward(self, x):
            return x @ self.weight + self.bias

    return Torch(nn.Sequential(Affine(*WIDTHS[:2]), nn.Tanh(), Affine(*WIDTHS[1:])))


def torch_cnn():
    from torch import nn

    one, two = _FILTERS
    layers = nn.Conv2d(1, one, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(one, two, 3), nn.Tanh(), nn.Flatten()
    return Torch(nn.Sequential(*layers, nn.Linear(4 * two, CLASSES)))


def _jax_mlp(parameters, x):
    import jax.numpy as jnp

    *hidden, (weights, bias) = parameters
    for W, b in hidden:
        x = jnp.tanh(x @ W + b)
    return x @ weights + bias


def _jax_cnn(parameters, x):
    import jax

    for layer, (kernel, bias) in enumerate(parameters[:2]):
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID" if layer else "SAME") + bias[:, None, None]
        x = jax.numpy.tanh(x)
        if not layer:
            x = jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    weights, bias = parameters[2]
    return x.reshape(len(x), -1) @ weights.T + bias


def _zeros(*shapes):
    return [tuple(np.zeros(shape) for shape in pair) for pair in shapes]


def jax_mlp():
    return JAX(_jax_mlp, _zeros(*(((m, k), (k,)) for m, k in itertools.pairwise(WIDTHS))))


def jax_cnn():
    """Its parameters are in PyTorch's order."""
    one, two = _FILTERS
    return JAX(_jax_cnn, _zeros(((one, 1, 3, 3), (one,)), ((two, one, 3, 3), (two,)), ((CLASSES, 4 * two), (CLASSES,))))


def torch_order():
    """Where the numbers of our MLP's parameters are among PyTorch's: ``theirs = ours[torch_order()]``."""
    places, start = [], 0
    for m, k in itertools.pairwise(WIDTHS):
        weights = start + np.arange(m * k).reshape(m, k)
        places += [weights.T.ravel(), start + m * k + np.arange(k)]
        start += (m + 1) * k
    return np.concatenate(places)


def problem(model, samples=30, agents=3, dtype=np.float64):
    """Classes told by random images, or by as many features as the MLP takes; shards of unequal sizes."""
    rng = np.random.default_rng(0)
    shape = IMAGE if model.parameters != consensus.MLP(WIDTHS).parameters else (WIDTHS[0],)
    X, y = rng.standard_normal((samples, *shape)).astype(dtype), rng.integers(0, CLASSES, samples)
    X.reshape(samples, -1)[np.arange(samples), y] += 2
    shards = consensus.partition(X, y, agents, "sizes", sizes=[samples // 2, samples // 3, samples // 6])
    return consensus.Problem(model, consensus.CrossEntropy(), shards, consensus.L2(1e-2))


def assert_close(found, wanted, what="", dtype=None):
    """Equal but for the rounding of products of matrices, by the dtype of the run."""
    tolerance = 1e-12 if (dtype or wanted.dtype) == np.float64 else 1e-5
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max(), err_msg=what)
