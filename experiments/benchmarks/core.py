"""Time of a round and of a gradient, against this machine's matrix-product rate."""

import itertools

import numpy as np

import consensus
import topologies
from consensus.solvers import GradientTracking
from experiments.benchmarks.timing import dgemm_rate, median_seconds, peak_bytes


def shards(agents, samples, features, outputs=1, dtype=np.float64, seed=0):
    """Random shards, laid out directly: splitting a data set is not what is timed."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((agents, samples, features), dtype=dtype)
    targets = (rng.random((agents, samples, outputs)) < 0.5).astype(dtype)
    indices = np.arange(agents * samples).reshape(agents, samples)
    return consensus.Shards(x, targets, np.ones((agents, samples), dtype), indices, agents * samples)


def seconds_a_round(problem, network, rounds):
    """Median over five runs of the clock that the history keeps: rounds alone, observation left out."""
    solver = GradientTracking(0.01, order="cta")
    runs = [consensus.solve(problem, network, solver, rounds=rounds, record_every=rounds).history["seconds"] for _ in range(5)]
    return float(np.median([(seconds[-1] - seconds[0]) / rounds for seconds in runs]))


def rounds_of_gradient_tracking():
    print("Gradient tracking, logistic loss, a whole round but observation")
    print(f"{'agents':>8} {'samples':>8} {'dtype':>8} {'ms a round':>11} {'us an agent':>12} {'% of dgemm':>11}")
    for agents, samples, graph, rounds, dtype in (
        (100, 50, topologies.random_regular(100, 4), 1000, np.float64),
        (100, 50, topologies.random_regular(100, 4), 1000, np.float32),
        (100_000, 10, topologies.ring(100_000), 10, np.float64),
    ):
        problem = consensus.Problem(
            consensus.Linear(20), consensus.LogisticLoss(), shards(agents, samples, 20, dtype=dtype), consensus.L2(1e-3)
        )
        seconds = seconds_a_round(problem, topologies.Static(graph), rounds)
        share = 4 * agents * samples * 20 / seconds / dgemm_rate(dtype=dtype)
        print(
            f"{agents:>8,} {samples:>8} {np.dtype(dtype).name:>8} {seconds * 1e3:>11.3f} "
            f"{seconds / agents * 1e6:>12.3f} {share:>11.1%}"
        )


def memory_of_many_agents():
    problem = consensus.Problem(consensus.Linear(20), consensus.LogisticLoss(), shards(100_000, 10, 20))
    network = topologies.Static(topologies.ring(100_000))
    state = 100_000 * problem.parameters * 8
    peak = peak_bytes(lambda: consensus.solve(problem, network, GradientTracking(0.01), rounds=3, record_every=3))
    print(f"\n100,000 agents: at most {peak / state:.1f} arrays of the state's size above the data")


def gradients():
    print("\nGradients of an MLP, 20 agents x 500 samples")
    print(f"{'widths':>16} {'dtype':>8} {'ms':>8} {'GFLOP/s':>8} {'% of dgemm':>11}")
    for widths, loss in (([64, 100, 10], consensus.CrossEntropy()), ([64, 100, 1], consensus.SquaredLoss())):
        for dtype in (np.float64, np.float32):
            data = shards(20, 500, 64, dtype=dtype)
            problem = consensus.Problem(consensus.MLP(widths), loss, data)
            rng = np.random.default_rng(0)
            w = np.stack([problem.model.init(rng) for _ in range(20)]).astype(dtype)
            seconds = median_seconds(lambda p=problem, w=w: p.gradient(w), repeats=31)
            products = sum(a * b for a, b in itertools.pairwise(widths))
            # Forward, and backward to every layer's weights and to all inputs but the first.
            operations = 2 * 20 * 500 * (3 * products - widths[0] * widths[1])
            share = operations / seconds / dgemm_rate(dtype=dtype)
            name = "-".join(map(str, widths))
            print(
                f"{name:>16} {np.dtype(dtype).name:>8} {seconds * 1e3:>8.2f} {operations / seconds / 1e9:>8.1f} {share:>11.0%}"
            )
            if widths[-1] > 1:
                against_jax(w, data, widths, dtype, seconds)


def against_jax(w, data, widths, dtype, ours):
    """The same gradients by a jitted ``vmap(grad)``, where JAX is installed."""
    try:
        import jax
    except ImportError:
        print(f"{'':>16} (install jax to compare with a jitted vmap(grad))")
        return
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    def cost(w, x, d):
        start, h = 0, x
        for layer, (m, k) in enumerate(itertools.pairwise(widths)):
            h = h @ w[start : start + m * k].reshape(m, k) + w[start + m * k : start + m * k + k]
            start += m * k + k
            h = jnp.tanh(h) if layer < len(widths) - 2 else h
        logits = jax.nn.log_softmax(h)
        return -jnp.take_along_axis(logits, d.astype(int), axis=1).sum() / data.samples

    gradient = jax.jit(jax.vmap(jax.grad(cost)))
    arguments = [jnp.asarray(array) for array in (w, data.features, data.targets)]
    error = np.abs(np.asarray(gradient(*arguments)) - problem_gradient(w, data, widths)).max()
    seconds = median_seconds(lambda: gradient(*arguments).block_until_ready(), repeats=31)
    note = f"ours takes {ours / seconds:.2f} of its time; differ by {error:.1e}"
    print(f"{'jax':>16} {np.dtype(dtype).name:>8} {seconds * 1e3:>8.2f}   {note}")


def problem_gradient(w, data, widths):
    return consensus.Problem(consensus.MLP(widths), consensus.CrossEntropy(), data).gradient(w)


def main():
    rounds_of_gradient_tracking()
    memory_of_many_agents()
    gradients()


if __name__ == "__main__":
    main()
