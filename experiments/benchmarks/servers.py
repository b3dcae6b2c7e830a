"""Speed of two workers over one where arithmetic dominates: map-reduce, and a network whose units are split."""

import time

import numpy as np

import consensus
from consensus.centralized import MapReduceGradientDescent, SplitMLP, solve
from experiments.benchmarks.core import shards

REPEATS = 7


def descent(workers, problem, rounds=4):
    """Seconds a round of map-reduce, start left out."""
    history = solve(problem, MapReduceGradientDescent(1e-3, workers), rounds=rounds, record_every=rounds).history
    return history["seconds"][-1] / rounds


def main():
    data = shards(8, 1000, 256)
    problem = consensus.Problem(consensus.MLP([256, 300, 1]), consensus.SquaredLoss(), data, consensus.L2(1e-3))
    ratios = [descent(1, problem) / descent(2, problem) for _ in range(3)]
    print(f"map-reduce, 8 x 1,000 samples, 256-300-1: two workers over one    {np.median(ratios):.2f} x   >= 1.5 x")

    widths, samples, rng = [512, 1024, 1024, 10], 2048, np.random.default_rng(0)
    with SplitMLP(widths, 1) as one, SplitMLP(widths, 2) as two:
        w, x, u = one.init(rng)[None], rng.standard_normal((1, samples, 512)), rng.standard_normal((1, samples, 10))

        def seconds(model):
            since = time.perf_counter()
            model.vjp(w, x, u)
            return time.perf_counter() - since

        ratios = [seconds(one) / seconds(two) for _ in range(REPEATS)][1:]  # the first starts the workers
    print(f"SplitMLP, a pass of 2,048 samples, 512-1024-1024-10: two over one   {np.median(ratios):.2f} x   >= 1.5 x")


if __name__ == "__main__":
    main()
