"""A round of gradient tracking and gradients of MLPs, against plain NumPy, the matrix-product rate, JAX and PyTorch.

The round is also timed for a million agents, with the memory that they take.
"""

import itertools
import time
from functools import partial
from importlib.util import find_spec

import numpy as np
from scipy.special import expit

import consensus
import topologies
from consensus.solvers import GradientTracking
from experiments.shared.timing import Rows, again_without_avx512, dgemm_rate, in_turn, options, peak_bytes, side_by_side

MLPS = (([64, 100, 10], 20, 500), ([784, 64, 10], 10, 1000), ([64, 100, 1], 20, 500))  # widths, agents, samples of each
STEP, RIDGE, FEATURES = 0.01, 1e-3, 20
DTYPES = (np.float64, np.float32)
TRACKING = GradientTracking(STEP, order="cta")


def shards(agents, samples, features, outputs=1, dtype=np.float64, seed=0):
    """Random shards, laid out directly: splitting a data set is not what is timed."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((agents, samples, features), dtype=dtype)
    targets = (rng.random((agents, samples, outputs)) < 0.5).astype(dtype)
    indices = np.arange(agents * samples).reshape(agents, samples)
    return consensus.Shards(x, targets, np.ones((agents, samples), dtype), indices, agents * samples)


def layered(agents, samples, *widths):
    """Least squares of a network of these widths, with L2."""
    data = shards(agents, samples, widths[0])
    return consensus.Problem(consensus.MLP(widths), consensus.SquaredLoss(), data, consensus.L2(RIDGE))


def logistic(agents, samples, dtype):
    data = shards(agents, samples, FEATURES, dtype=dtype)
    return consensus.Problem(consensus.Linear(FEATURES), consensus.LogisticLoss(), data, consensus.L2(RIDGE))


def tracking(matrix, data):
    """The iterates of the same rounds as a user would state them, with sparse and batched products."""
    ones = np.ones((*data.features.shape[:2], 1), data.features.dtype)
    x = np.concatenate([data.features, ones], axis=2)
    agents, samples, width = x.shape

    def gradient(w):
        residuals = expit(x @ w[:, :, None]) - data.targets
        return (x.swapaxes(1, 2) @ residuals)[:, :, 0] / samples + RIDGE * w

    w = np.zeros((agents, width), x.dtype)
    y = old = gradient(w)
    while True:
        w = matrix @ w - STEP * y
        new = gradient(w)
        y = matrix @ y + new - old
        old = new
        yield w


def stated(iterates, rounds):
    """``(w, seconds a round)`` of a statement's ``rounds`` after its first one, which makes ready what it needs."""
    w, since = next(iterates), time.perf_counter()
    for w in itertools.islice(iterates, rounds):  # noqa: B007
        pass
    return w, (time.perf_counter() - since) / rounds


def ours(problem, network, solver, rounds):
    """``(w, seconds a round)`` on the history's clock, which leaves observation out; the first round makes plans ready."""
    consensus.solve(problem, network, solver, rounds=1)
    result = consensus.solve(problem, network, solver, rounds=rounds + 1, record_every=rounds)
    warm = np.diff(consensus.solve(problem, network, solver, rounds=1).history["seconds"])[0]
    return result.w, (result.history["seconds"][1] - result.history["seconds"][0] - warm) / (rounds - 1)


def in_rounds(problem, network, solver, statement, rounds, repeats):
    """Median seconds of a round of ours and of ``statement()``, in turn, and by how much the iterates differ."""
    runs = partial(ours, problem, network, solver, rounds), lambda: stated(statement(), rounds)
    (w, _), (theirs, _) = (run() for run in runs)
    times = in_turn([lambda run=run: run()[1] for run in runs], repeats)
    return *np.median(times, axis=0), np.abs(w - theirs).max()


def against_plain_numpy(repeats):
    print(f"Gradient tracking, logistic loss, 50 samples of 20 features an agent; medians of {repeats} alternating runs")
    columns = {"dtype": "", "us a round": ".1f", "% of dgemm": ".1%", "plain NumPy": ".1f", "ratio": ".2f"}
    rows = Rows("agents", 8, columns)
    for agents, dtype in itertools.product((10, 100), DTYPES):
        network, rounds = topologies.Static(topologies.random_regular(agents, 4)), 20_000 // agents
        problem, matrix = logistic(agents, 50, dtype), network.weights(0).astype(dtype)
        statement = partial(tracking, matrix, problem.shards)
        mine, theirs, error = in_rounds(problem, network, TRACKING, statement, rounds, repeats)
        assert error < 100 * np.finfo(dtype).eps, f"they differ by {error:.1e}"
        share = 4 * agents * 50 * FEATURES / mine / dgemm_rate(dtype=dtype)
        rows.add(agents, np.dtype(dtype).name, mine * 1e6, share, theirs * 1e6, mine / theirs)


def many_agents():
    import resource  # not on Windows

    problem, network = logistic(100_000, 10, np.float64), topologies.Static(topologies.ring(100_000))
    peak = peak_bytes(lambda: consensus.solve(problem, network, GradientTracking(STEP), rounds=3, record_every=3))
    size = 100_000 * problem.parameters * 8
    print(f"\n100,000 agents: at most {peak / size:.1f} arrays of the state's size above the data")
    print("\nA ring of many agents, 10 samples of 20 features each, float32")
    rows = Rows("agents", 10, {"us an agent and round": ".3f", "GB at most": ".2f"})
    for agents, rounds in ((10_000, 100), (1_000_000, 5)):
        seconds = ours(logistic(agents, 10, np.float32), topologies.Static(topologies.ring(agents)), TRACKING, rounds)[1]
        rows.add(f"{agents:,}", seconds / agents * 1e6, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9)


def by_others(widths, data, w):
    """``{name: function}``, of no arguments, for the mean loss on ``data`` at the parameters w (agents, P)."""
    rivals = {"jax": in_jax, "torch": in_torch}
    return {name: prepare(widths, data, w) for name, prepare in rivals.items() if find_spec(name)}


def in_jax(widths, data, w):
    """A jitted ``vmap(grad)``."""
    import jax

    jax.config.update("jax_enable_x64", True)

    def cost(w, x, d):
        *hidden, (last, biases) = layers(widths, w)
        for weights, shifts in hidden:
            x = jax.numpy.tanh(x @ weights + shifts)
        logits = jax.nn.log_softmax(x @ last + biases)
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
        h, (*hidden, (last, biases)) = x, layers(widths, w)
        for weights, shifts in hidden:
            h = torch.tanh(torch.baddbmm(shifts, h, weights))
        logits = torch.baddbmm(biases, h, last).flatten(0, 1)
        cost = torch.nn.functional.cross_entropy(logits, classes.flatten(), reduction="sum") / data.samples
        return torch.autograd.grad(cost, w)[0].numpy()

    return gradient


def layers(widths, w):
    """Yield the weights (..., inputs, outputs) and biases (..., 1, outputs) of each layer in w (..., P)."""
    start = 0
    for m, k in itertools.pairwise(widths):
        middle = start + m * k
        yield w[..., start:middle].reshape(*w.shape[:-1], m, k), w[..., None, middle : middle + k]
        start = middle + k


def gradients():
    print("\nGradients of an MLP")
    columns = {"agents": "", "samples": "", "dtype": "", "ms": ".2f", "GFLOP/s": ".1f", "% of dgemm": ".0%"}
    rows = Rows("widths", 16, columns)
    for (widths, agents, samples), dtype in itertools.product(MLPS, DTYPES):
        data = shards(agents, samples, widths[0], dtype=dtype)
        loss = consensus.CrossEntropy() if widths[-1] > 1 else consensus.SquaredLoss()
        problem = consensus.Problem(consensus.MLP(widths), loss, data)
        rng = np.random.default_rng(0)
        w = np.stack([problem.model.init(rng) for _ in range(agents)]).astype(dtype)
        others = by_others(widths, data, w) if widths[-1] > 1 else {}
        mine, *theirs = side_by_side([partial(problem.gradient, w), *others.values()])
        products = sum(a * b for a, b in itertools.pairwise(widths))
        # Forward, and backward to every layer's weights and to all inputs but the first.
        rate = 2 * agents * samples * (3 * products - widths[0] * widths[1]) / np.median(mine)
        setting = agents, samples, np.dtype(dtype).name
        rows.add("-".join(map(str, widths)), *setting, np.median(mine) * 1e3, rate / 1e9, rate / dgemm_rate(dtype=dtype))
        for (other, gradient), seconds in zip(others.items(), theirs, strict=True):
            error = np.abs(gradient() - problem.gradient(w)).max()
            note = f"ours takes {np.median(mine / seconds):.2f} of its time; they differ by {error:.1e}"
            rows.add(other, *setting, np.median(seconds) * 1e3, None, None, f"   {note}")


def main():
    against_plain_numpy(options(__doc__, repeats=(21, "runs of either, small networks")).repeats)
    many_agents()
    gradients()
    again_without_avx512("experiments.benchmarks.core")


if __name__ == "__main__":
    main()
