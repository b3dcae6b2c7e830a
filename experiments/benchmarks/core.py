"""A round of gradient tracking and gradients of MLPs, against plain NumPy, the matrix-product rate, JAX and PyTorch.

The round is also timed for a million agents, with the memory that they take.
"""

import itertools
import time
from importlib.util import find_spec

import numpy as np
from scipy.special import expit

import consensus
import topologies
from consensus.solvers import GradientTracking
from experiments.shared.timing import again_without_avx512, dgemm_rate, options, peak_bytes, side_by_side

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


def logistic(agents, samples, dtype):
    data = shards(agents, samples, FEATURES, dtype=dtype)
    return consensus.Problem(consensus.Linear(FEATURES), consensus.LogisticLoss(), data, consensus.L2(RIDGE))


def plain(data, matrix, rounds):
    """``(w, seconds a round)`` of the same rounds as a user would state them, with sparse and batched products."""
    ones = np.ones((*data.features.shape[:2], 1), data.features.dtype)
    x = np.concatenate([data.features, ones], axis=2)
    agents, samples, width = x.shape

    def gradient(w):
        residuals = expit(x @ w[:, :, None]) - data.targets
        return (x.swapaxes(1, 2) @ residuals)[:, :, 0] / samples + RIDGE * w

    w = np.zeros((agents, width), x.dtype)
    y = old = gradient(w)
    since = time.perf_counter()
    for _ in range(rounds):
        w = matrix @ w - STEP * y
        new = gradient(w)
        y = matrix @ y + new - old
        old = new
    return w, (time.perf_counter() - since) / rounds


def ours(problem, network, solver, rounds):
    """``(w, seconds a round)`` on the history's clock, which leaves observation out; the first round makes plans ready."""
    consensus.solve(problem, network, solver, rounds=1)
    result = consensus.solve(problem, network, solver, rounds=rounds + 1, record_every=rounds)
    warm = np.diff(consensus.solve(problem, network, solver, rounds=1).history["seconds"])[0]
    return result.w, (result.history["seconds"][1] - result.history["seconds"][0] - warm) / (rounds - 1)


def against_plain_numpy(repeats):
    print(f"Gradient tracking, logistic loss, 50 samples of 20 features an agent; medians of {repeats} alternating runs")
    print(f"{'agents':>8} {'dtype':>8} {'us a round':>11} {'% of dgemm':>11} {'plain NumPy':>12} {'ratio':>6}")
    for agents, dtype in itertools.product((10, 100), DTYPES):
        network, rounds = topologies.Static(topologies.random_regular(agents, 4)), 20_000 // agents
        problem, matrix = logistic(agents, 50, dtype), network.weights(0).astype(dtype)
        times = []
        for _ in range(repeats):
            w, mine = ours(problem, network, TRACKING, rounds)
            times.append((mine, plain(problem.shards, matrix, rounds)[1]))
        error = np.abs(w - plain(problem.shards, matrix, rounds + 1)[0]).max()
        assert error < 100 * np.finfo(dtype).eps, f"they differ by {error:.1e}"
        mine, theirs = np.median(times, axis=0)
        share = 4 * agents * 50 * FEATURES / mine / dgemm_rate(dtype=dtype)
        name = np.dtype(dtype).name
        print(f"{agents:>8} {name:>8} {mine * 1e6:>11.1f} {share:>11.1%} {theirs * 1e6:>12.1f} {mine / theirs:>6.2f}")


def many_agents():
    import resource  # not on Windows

    problem, network = logistic(100_000, 10, np.float64), topologies.Static(topologies.ring(100_000))
    peak = peak_bytes(lambda: consensus.solve(problem, network, GradientTracking(STEP), rounds=3, record_every=3))
    size = 100_000 * problem.parameters * 8
    print(f"\n100,000 agents: at most {peak / size:.1f} arrays of the state's size above the data")
    print("\nA ring of many agents, 10 samples of 20 features each, float32")
    print(f"{'agents':>10} {'us an agent and round':>22} {'GB at most':>11}")
    for agents, rounds in ((10_000, 100), (1_000_000, 5)):
        seconds = ours(logistic(agents, 10, np.float32), topologies.Static(topologies.ring(agents)), TRACKING, rounds)[1]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        print(f"{agents:>10,} {seconds / agents * 1e6:>22.3f} {peak:>11.2f}")


def by_others(widths, data, w):
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


def gradients():
    print("\nGradients of an MLP")
    print(f"{'widths':>16} {'agents':>8} {'samples':>8} {'dtype':>8} {'ms':>8} {'GFLOP/s':>8} {'% of dgemm':>11}")
    for (widths, agents, samples), dtype in itertools.product(MLPS, DTYPES):
        data = shards(agents, samples, widths[0], dtype=dtype)
        loss = consensus.CrossEntropy() if widths[-1] > 1 else consensus.SquaredLoss()
        problem = consensus.Problem(consensus.MLP(widths), loss, data)
        rng = np.random.default_rng(0)
        w = np.stack([problem.model.init(rng) for _ in range(agents)]).astype(dtype)
        others = by_others(widths, data, w) if widths[-1] > 1 else {}
        mine, *theirs = side_by_side([lambda p=problem, w=w: p.gradient(w), *others.values()])
        products = sum(a * b for a, b in itertools.pairwise(widths))
        # Forward, and backward to every layer's weights and to all inputs but the first.
        rate = 2 * agents * samples * (3 * products - widths[0] * widths[1]) / np.median(mine)
        name = "-".join(map(str, widths))
        print(
            f"{name:>16} {agents:>8} {samples:>8} {np.dtype(dtype).name:>8} {np.median(mine) * 1e3:>8.2f} {rate / 1e9:>8.1f} "
            f"{rate / dgemm_rate(dtype=dtype):>11.0%}"
        )
        for (other, gradient), seconds in zip(others.items(), theirs, strict=True):
            error = np.abs(gradient() - problem.gradient(w)).max()
            note = f"ours takes {np.median(mine / seconds):.2f} of its time; they differ by {error:.1e}"
            print(f"{other:>16} {np.median(seconds) * 1e3:>35.2f}   {note}")


def main():
    against_plain_numpy(options(__doc__, repeats=(21, "runs of either, small networks")).repeats)
    many_agents()
    gradients()
    again_without_avx512("experiments.benchmarks.core")


if __name__ == "__main__":
    main()
