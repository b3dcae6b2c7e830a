"""Gradients of PyTorch's and JAX's models, and rounds of D-PSGD, against the same written by hand in the framework.

By hand is vmap, whose last bits depend on the number of agents, and a loop over agents, whose bits do not. ``taskset -c 0``
measures a single core.
"""

import importlib
import time
from functools import partial
from importlib.util import find_spec

import numpy as np

import consensus
import topologies
from consensus._arrays.parallel import one_blas_thread
from consensus.solvers import DGD
from experiments.benchmarks.networks import jax_loss, torch_loss
from experiments.shared.timing import Rows, a_round, in_turn, options, side_by_side

AGENTS, STEP, BATCH, ROUNDS = 10, 0.1, 32, 20
DTYPES = (np.float32, np.float64)
RING = topologies.Static(topologies.ring(AGENTS))


def torch_networks():
    """By name."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = nn.Conv2d(1, 8, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.Tanh(), nn.Flatten()
    return {
        "MLP": nn.Sequential(nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 10)),
        "CNN": nn.Sequential(*layers, nn.Linear(256, 10)),
    }


def jax_networks():
    """By name: a function and its parameters."""
    import jax
    import jax.numpy as jnp

    draw = np.random.default_rng(0).standard_normal

    def mlp(parameters, x):
        return jnp.tanh(x @ parameters[0] + parameters[1]) @ parameters[2] + parameters[3]

    def cnn(parameters, x):
        for layer, kernel in enumerate(parameters[:2]):
            x = jnp.tanh(jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME"))
            if not layer:
                x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return x.reshape(len(x), -1) @ parameters[2]

    return {
        "MLP": (mlp, [0.1 * draw(shape) for shape in ((64, 20), (20,), (20, 10), (10,))]),
        "CNN": (cnn, [0.1 * draw(shape) for shape in ((8, 1, 3, 3), (16, 8, 3, 3), (256, 10))]),
    }


def torch_by_hand(module, dtype):
    """``(w, x, y) -> gradients`` (agents, P) of the mean cross-entropy by vmap and by a loop; what makes tensors of arrays."""
    import torch

    one = torch.func.grad(torch_loss(module.to(getattr(torch, np.dtype(dtype).name))))
    return torch.func.vmap(one), lambda w, x, y: torch.stack([*map(one, w, x, y)]), torch.from_numpy


def jax_by_hand(apply, parameters, dtype):
    import jax

    one = jax.jit(jax.grad(jax_loss(apply, parameters, dtype)))
    return jax.jit(jax.vmap(one)), lambda w, x, y: [*map(one, w, x, y)], jax.numpy.asarray


def compare(rows, name, network, model, by_hand, dtype):
    """Add the medians of our time over those by hand, all called in turn."""
    rng, shape = np.random.default_rng(0), (64,) if network == "MLP" else (1, 8, 8)
    X, y = rng.standard_normal((AGENTS * 150, *shape)).astype(dtype), rng.integers(0, 10, AGENTS * 150)
    whole = consensus.Problem(model, consensus.CrossEntropy(), consensus.partition(X, y, AGENTS, seed=0))
    w = (model.init(np.random.default_rng(0)) + 0.01 * np.random.default_rng(1).standard_normal((AGENTS, 1))).astype(dtype)
    *ways, tensor = by_hand
    x, y = tensor(whole.shards.features), tensor(whole.shards.targets[:, :, 0].astype(np.int64))
    theirs = [lambda way=way: np.asarray(way(tensor(w), x, y)) for way in ways]
    error = max(np.abs(AGENTS * whole.gradient(w) - found()).max() / np.abs(found()).max() for found in theirs)
    with one_blas_thread:  # as in the rounds of a run
        ours, *others = np.median(side_by_side([lambda: whole.gradient(w), *theirs]), axis=1)
    rounds = [partial(our_rounds, whole, w), *(partial(rounds_by_hand, whole, w, way, tensor) for way in ways)]
    mine, *hand = np.median(in_turn(rounds, 6)[1:], axis=0)
    ratios = (ratio for pair in zip(ours / others, mine / hand, strict=True) for ratio in pair)
    rows.add(name, network, np.dtype(dtype).name, ours * 1e3, *ratios, error)


def our_rounds(whole, w):
    """Seconds of rounds of D-PSGD."""
    options = {"start": w, "rounds": ROUNDS, "record_every": ROUNDS}
    return a_round(consensus.solve(whole, RING, DGD(STEP, batch=BATCH), **options).history)


def rounds_by_hand(whole, w, gradients, tensor):
    rng, places, dtype = np.random.default_rng(0), np.arange(AGENTS)[:, None], w.dtype.type
    weights = RING.weights(0).toarray().astype(dtype)
    features, targets = whole.shards.features, whole.shards.targets[:, :, 0].astype(np.int64)
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        chosen = places, rng.integers(0, features.shape[1], (AGENTS, BATCH))
        step = gradients(tensor(w), tensor(features[chosen]), tensor(targets[chosen]))
        w = weights @ w - dtype(STEP) * np.asarray(step)
    return (time.perf_counter() - begin) / ROUNDS


def main():
    options(__doc__)
    there = [name for name in ("torch", "jax") if find_spec(name)]
    if "jax" in there:
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    if "torch" in there:  # one thread, as our calls have it: with more they wait for each other where a machine does other work
        importlib.import_module("torch").set_num_threads(1)
    print(
        "Our time over that by hand, vmap and agent by agent: gradients of ten agents' 150 samples; D-PSGD with batches of 32"
    )
    ratios = [f"{what}, {way}" for way in ("vmap", "loop") for what in ("gradient", "D-PSGD")]
    columns = {"network": "", "dtype": "", "ms, ours": ".2f"} | dict.fromkeys(ratios, ".2f")
    rows = Rows("", 8, columns | {"difference": ".1e"})
    for dtype in DTYPES:
        if "torch" in there:
            for network, module in torch_networks().items():
                compare(rows, "PyTorch", network, consensus.models.Torch(module), torch_by_hand(module, dtype), dtype)
        if "jax" in there:
            for network, given in jax_networks().items():
                compare(rows, "JAX", network, consensus.models.JAX(*given), jax_by_hand(*given, dtype), dtype)


if __name__ == "__main__":
    main()
