"""A whole round of gradient tracking: against plain NumPy for small networks, time and memory for a million agents."""

import argparse
import time

import numpy as np
from scipy.special import expit

import consensus
import topologies
from consensus.solvers import GradientTracking
from experiments.benchmarks.core import shards

STEP, RIDGE = 0.01, 1e-3


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


def ours(problem, network, rounds):
    """``(w, seconds a round)`` on the history's clock, which leaves observation out; the first round makes plans ready."""
    solver = GradientTracking(STEP, order="cta")
    consensus.solve(problem, network, solver, rounds=1)
    seen = []
    result = consensus.solve(
        problem, network, solver, rounds=rounds + 1, record_every=rounds, callbacks=[lambda row: seen.append(row["seconds"])]
    )
    warm = consensus.solve(problem, network, solver, rounds=1).history["seconds"]
    return result.w, (seen[1] - seen[0] - (warm[1] - warm[0])) / (rounds - 1)


def problem_of(data):
    return consensus.Problem(consensus.Linear(20), consensus.LogisticLoss(), data, consensus.L2(RIDGE))


def against_plain_numpy(repeats):
    print(f"Gradient tracking, logistic loss, 50 samples of 20 features an agent; medians of {repeats} alternating runs")
    print(f"{'agents':>8} {'dtype':>8} {'us a round':>11} {'plain NumPy':>12} {'ratio':>6}")
    for agents in (10, 100):
        network = topologies.Static(topologies.random_regular(agents, 4))
        rounds = 20_000 // agents
        for dtype in (np.float64, np.float32):
            data = shards(agents, 50, 20, dtype=dtype)
            problem, matrix = problem_of(data), network.weights(0).astype(dtype)
            times = []
            for _ in range(repeats):
                w, mine = ours(problem, network, rounds)
                times.append((mine, plain(data, matrix, rounds)[1]))
            error = np.abs(w - plain(data, matrix, rounds + 1)[0]).max()
            assert error < 100 * np.finfo(dtype).eps, f"they differ by {error:.1e}"
            mine, theirs = np.median(times, axis=0) * 1e6
            print(f"{agents:>8} {np.dtype(dtype).name:>8} {mine:>11.1f} {theirs:>12.1f} {mine / theirs:>6.2f}")


def many_agents():
    import resource  # not on Windows

    print("\nA ring of many agents, 10 samples of 20 features each, float32")
    print(f"{'agents':>10} {'us an agent and round':>22} {'GB at most':>11}")
    for agents, rounds in ((10_000, 100), (1_000_000, 5)):
        network = topologies.Static(topologies.ring(agents))
        seconds = ours(problem_of(shards(agents, 10, 20, dtype=np.float32)), network, rounds)[1]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        print(f"{agents:>10,} {seconds / agents * 1e6:>22.3f} {peak:>11.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=21, help="runs of either, small networks")
    against_plain_numpy(parser.parse_args().repeats)
    many_agents()


if __name__ == "__main__":
    main()
