"""Gradients of an MLP with the cross-entropy as others compute them, each where it is installed."""

import itertools
from importlib.util import find_spec

import numpy as np


def gradients(widths, data, w):
    """``{name: function}``, of no arguments, for the mean loss on ``data`` at the parameters w (agents, P)."""
    rivals = {"jax": in_jax, "torch": in_torch}
    return {name: prepare(widths, data, w) for name, prepare in rivals.items() if find_spec(name)}


def in_jax(widths, data, w):
    """A jitted ``vmap(grad)``."""
    import jax

    jax.config.update("jax_enable_x64", True)

    def cost(w, x, d):
        h = x
        for layer, (start, middle, end, m, k) in enumerate(spans(widths)):
            h = h @ w[start:middle].reshape(m, k) + w[middle:end]
            h = jax.numpy.tanh(h) if layer < len(widths) - 2 else h
        logits = jax.nn.log_softmax(h)
        return -jax.numpy.take_along_axis(logits, d, axis=1).sum() / data.samples

    gradient = jax.jit(jax.vmap(jax.grad(cost)))
    arguments = [jax.numpy.asarray(array) for array in (w, data.features, data.targets.astype(int))]
    return lambda: np.asarray(gradient(*arguments).block_until_ready())


def in_torch(widths, data, w):
    """Batched products over agents, and backward through them."""
    import torch

    w, x = (torch.from_numpy(array.copy()) for array in (w, data.features))
    classes = torch.from_numpy(data.targets[..., 0].astype(int))
    w.requires_grad_()

    def gradient():
        h = x
        for layer, (start, middle, end, m, k) in enumerate(spans(widths)):
            h = torch.baddbmm(w[:, None, middle:end], h, w[:, start:middle].reshape(-1, m, k))
            h = torch.tanh(h) if layer < len(widths) - 2 else h
        cost = torch.nn.functional.cross_entropy(h.flatten(0, 1), classes.flatten(), reduction="sum") / data.samples
        return torch.autograd.grad(cost, w)[0].numpy()

    return gradient


def spans(widths):
    """Yield the start of each layer's weights, the start and end of its biases, and its numbers of inputs and outputs."""
    start = 0
    for m, k in itertools.pairwise(widths):
        yield start, start + m * k, start + m * k + k, m, k
        start += m * k + k
