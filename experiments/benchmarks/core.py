"""Time of a round and of a gradient, against this machine's matrix-product rate, JAX and PyTorch (if installed)."""

import itertools

import numpy as np

import consensus
import topologies
from consensus.solvers import GradientTracking
from experiments.benchmarks import rivals
from experiments.benchmarks.timing import again_without_avx512, dgemm_rate, peak_bytes, side_by_side

MLPS = (([64, 100, 10], 20, 500), ([784, 64, 10], 10, 1000), ([64, 100, 1], 20, 500))  # widths, agents, samples of each


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
    print("\nGradients of an MLP")
    print(f"{'widths':>16} {'agents':>8} {'samples':>8} {'dtype':>8} {'ms':>8} {'GFLOP/s':>8} {'% of dgemm':>11}")
    for (widths, agents, samples), dtype in itertools.product(MLPS, (np.float64, np.float32)):
        data = shards(agents, samples, widths[0], dtype=dtype)
        loss = consensus.CrossEntropy() if widths[-1] > 1 else consensus.SquaredLoss()
        problem = consensus.Problem(consensus.MLP(widths), loss, data)
        rng = np.random.default_rng(0)
        w = np.stack([problem.model.init(rng) for _ in range(agents)]).astype(dtype)
        others = rivals.gradients(widths, data, w) if widths[-1] > 1 else {}
        ours, *theirs = side_by_side([lambda p=problem, w=w: p.gradient(w), *others.values()])
        products = sum(a * b for a, b in itertools.pairwise(widths))
        # Forward, and backward to every layer's weights and to all inputs but the first.
        rate = 2 * agents * samples * (3 * products - widths[0] * widths[1]) / np.median(ours)
        name = "-".join(map(str, widths))
        print(
            f"{name:>16} {agents:>8} {samples:>8} {np.dtype(dtype).name:>8} {np.median(ours) * 1e3:>8.2f} {rate / 1e9:>8.1f} "
            f"{rate / dgemm_rate(dtype=dtype):>11.0%}"
        )
        for (other, gradient), seconds in zip(others.items(), theirs, strict=True):
            error = np.abs(gradient() - problem.gradient(w)).max()
            note = f"ours takes {np.median(ours / seconds):.2f} of its time; they differ by {error:.1e}"
            print(f"{other:>16} {np.median(seconds) * 1e3:>35.2f}   {note}")


def main():
    rounds_of_gradient_tracking()
    memory_of_many_agents()
    gradients()
    again_without_avx512("experiments.benchmarks.core")


if __name__ == "__main__":
    main()
