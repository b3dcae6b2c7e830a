"""Seconds of an event of a solver without rounds on the simulated clock, beside the arithmetic alone."""

import argparse
import time

import numpy as np

import consensus
from consensus.asynchronous import ASYSONATA, Simulated
from consensus.surrogates import FullLinearization
from experiments.benchmarks.core import FEATURES, shards
from experiments.benchmarks.timing import again_without_avx512
from experiments.shared.cases import graph

AGENTS, SAMPLES, STEP = 8, 20, 0.01
CLOCKS = {
    "agents in turn": Simulated(),
    "random computing": Simulated((0.5, 1.5)),
    "late and lost": Simulated((0.5, 1.5), (0.0, 10.0), 0.3),
}


def main():
    parser = argparse.ArgumentParser(prog="python -m experiments.benchmarks.events", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="events of a run; default: 100000")
    parser.add_argument("--repeats", type=int, default=5, help="runs, of which the median counts; default: 5")
    options = parser.parse_args()
    problem = consensus.Problem(
        consensus.Linear(FEATURES), consensus.SquaredLoss(), shards(AGENTS, SAMPLES, FEATURES), consensus.L2(1e-3)
    )
    network, solver = graph(AGENTS, 0), ASYSONATA(FullLinearization(float(AGENTS)), STEP)
    floor = np.median([arithmetic(AGENTS, problem.parameters, network) for _ in range(options.repeats)])
    print(f"linear model of {FEATURES} features, {SAMPLES} samples an agent, {options.events:,} events")
    print(f"{'the arithmetic in NumPy, agents in turn':42} {floor * 1e6:6.1f} us an event")
    for name, clock in CLOCKS.items():
        seconds = []
        for _ in range(options.repeats):
            rounds = options.events // AGENTS
            result = consensus.solve(problem, network, solver, rounds=rounds, engine=clock, record_every=rounds)
            seconds.append(result.history["seconds"][-1] / (rounds * AGENTS))
        each = np.median(seconds)
        print(f"{name:42} {each * 1e6:6.1f} us an event, {each / floor:.2f} of that; {each * 1e6:.1f} s for 10^6")
    again_without_avx512("experiments.benchmarks.events")


def arithmetic(agents, parameters, network, wakes=20_000):
    """Seconds of a wake: two products with an agent's data, sums over its neighbours, and the updates of its rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((agents, SAMPLES, parameters))
    targets = rng.standard_normal((agents, SAMPLES))
    neighbours = [np.array(sorted(network.neighbors(i))) for i in range(agents)]
    shares = np.array([1 / (1 + len(near)) for near in neighbours])
    w, z, rho, gradients, v = np.zeros((5, agents, parameters))
    seen = [np.zeros((len(near), parameters)) for near in neighbours]
    since = time.perf_counter()
    for k in range(wakes):
        i = k % agents
        near = neighbours[i]
        gradient = x[i].T @ (x[i] @ w[i] - targets[i])
        sums = rho[near]
        h = z[i] + shares[near] @ (sums - seen[i]) + gradient - gradients[i]
        seen[i], gradients[i] = sums, gradient
        rho[i] += h
        z[i] = shares[i] * h
        v[i] = w[i] - 1e-4 * z[i]
        w[i] = shares[i] * (v[i] + v[near].sum(axis=0))
    return (time.perf_counter() - since) / wakes


if __name__ == "__main__":
    main()
