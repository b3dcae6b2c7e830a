"""Gradients of PyTorch's and JAX's models, and rounds of D-PSGD, against the same written by hand in the framework.

By hand is vmap, whose last bits depend on the number of agents, and a loop over agents, whose bits do not. ``taskset -c 0``
measures a single core.
"""

import importlib
import time
from importlib.util import find_spec

import numpy as np

import consensus
import topologies
from consensus._arrays.parallel import one_blas_thread
from consensus.solvers import DGD
from experiments.shared.timing import side_by_side

AGENTS, STEP, BATCH, ROUNDS = 10, 0.1, 32, 20
DTYPES = (np.float32, np.float64)


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

    module = module.to(getattr(torch, np.dtype(dtype).name))
    named = dict(module.named_parameters())
    ends = np.cumsum([part.numel() for part in named.values()]).tolist()

    def loss(parameters, x, y):
        return torch.nn.functional.cross_entropy(torch.func.functional_call(module, parameters, (x,)), y)

    one = torch.func.grad(loss)
    all_at_once = torch.func.vmap(one)

    def cut(w):
        """The parameters in w (..., P)."""
        return {
            name: w[..., end - part.numel() : end].reshape(*w.shape[:-1], *part.shape)
            for (name, part), end in zip(named.items(), ends, strict=True)
        }

    def by_vmap(w, x, y):
        return torch.cat([part.flatten(1) for part in all_at_once(cut(w), x, y).values()], dim=1)

    def by_loop(w, x, y):
        return torch.stack([torch.cat([part.ravel() for part in one(cut(w), x, y).values()]) for w, x, y in zip(w, x, y)])

    return by_vmap, by_loop, torch.from_numpy


def jax_by_hand(apply, parameters, dtype):
    import jax
    from jax.flatten_util import ravel_pytree

    _, restore = ravel_pytree(jax.tree.map(lambda part: part.astype(dtype), parameters))

    def loss(w, x, y):
        outputs = jax.nn.log_softmax(apply(restore(w), x))
        return -jax.numpy.take_along_axis(outputs, y[:, None], axis=1).mean()

    one = jax.jit(jax.grad(loss))
    return jax.jit(jax.vmap(one)), lambda w, x, y: [*map(one, w, x, y)], jax.numpy.asarray


def problem(model, shape, samples, dtype):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((AGENTS * samples, *shape)).astype(dtype), rng.integers(0, 10, AGENTS * samples)
    return consensus.Problem(model, consensus.CrossEntropy(), consensus.partition(X, y, AGENTS, seed=0))


def compare(name, network, model, by_hand, dtype):
    """Print the medians of our time over those by hand, all called in turn."""
    shape = (64,) if network == "MLP" else (1, 8, 8)
    whole = problem(model, shape, 150, dtype)
    w = (model.init(np.random.default_rng(0)) + 0.01 * np.random.default_rng(1).standard_normal((AGENTS, 1))).astype(dtype)
    *ways, tensor = by_hand
    x, y = tensor(whole.shards.features), tensor(whole.shards.targets[:, :, 0].astype(np.int64))
    theirs = [lambda way=way: np.asarray(way(tensor(w), x, y)) for way in ways]
    error = max(np.abs(AGENTS * whole.gradient(w) - found()).max() / np.abs(found()).max() for found in theirs)
    with one_blas_thread:  # as in the rounds of a run
        ours, *others = np.median(side_by_side([lambda: whole.gradient(w), *theirs], repeats=31), axis=1)
    rounds = [our_rounds(whole, w), *(rounds_by_hand(whole, w, way, tensor) for way in ways)]
    mine, *hand = np.median([[run() for run in rounds] for _ in range(6)][1:], axis=0)
    ratios = " ".join(f"{ratio:>8.2f}" for pair in zip(ours / others, mine / hand, strict=True) for ratio in pair)
    print(f"{name:>8} {network:>4} {np.dtype(dtype).name:>8} {ours * 1e3:>10.2f} {ratios} {error:>10.1e}", flush=True)


def our_rounds(whole, w):
    """Rounds of D-PSGD by the clock that the history keeps: observation is left out."""

    def run():
        graph = topologies.Static(topologies.ring(AGENTS))
        found = consensus.solve(whole, graph, DGD(STEP, batch=BATCH), start=w, rounds=ROUNDS, record_every=ROUNDS)
        return np.ptp(found.history["seconds"])

    return run


def rounds_by_hand(whole, w, gradients, tensor):
    rng, places, dtype = np.random.default_rng(0), np.arange(AGENTS)[:, None], w.dtype.type
    weights = topologies.Static(topologies.ring(AGENTS)).weights(0).toarray().astype(dtype)
    features, targets = whole.shards.features, whole.shards.targets[:, :, 0].astype(np.int64)

    def run():
        begin, iterate = time.perf_counter(), w
        for _ in range(ROUNDS):
            chosen = places, rng.integers(0, features.shape[1], (AGENTS, BATCH))
            step = gradients(tensor(iterate), tensor(features[chosen]), tensor(targets[chosen]))
            iterate = weights @ iterate - dtype(STEP) * np.asarray(step)
        return time.perf_counter() - begin

    return run


def main():
    there = [name for name in ("torch", "jax") if find_spec(name)]
    if "jax" in there:
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    if "torch" in there:  # one thread, as our calls have it: with more they wait for each other where a machine does other work
        importlib.import_module("torch").set_num_threads(1)
    print("Our time over that by hand: the gradients of ten agents' 150 samples; D-PSGD with batches of 32")
    print(f"{'':>33} {'vmap':>17} {'agent by agent':>17}")
    heads = "gradient   D-PSGD"
    print(f"{'':>8} {'':>4} {'dtype':>8} {'ms, ours':>10} {heads} {heads} {'difference':>10}")
    for dtype in DTYPES:
        if "torch" in there:
            for network, module in torch_networks().items():
                compare("PyTorch", network, consensus.models.Torch(module), torch_by_hand(module, dtype), dtype)
        if "jax" in there:
            for network, (apply, parameters) in jax_networks().items():
                compare("JAX", network, consensus.models.JAX(apply, parameters), jax_by_hand(apply, parameters, dtype), dtype)


if __name__ == "__main__":
    main()
