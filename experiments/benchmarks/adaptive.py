"""AdaptiveNEXT where its rounds are slowest: a network of 51,000 parameters to a test accuracy, a round of 10,000 agents."""

import numpy as np

import consensus
import topologies
from consensus._arrays.parallel import one_blas_thread
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import AdaptiveNEXT, GradientTracking
from experiments.benchmarks.core import shards
from experiments.benchmarks.stochastic import CASES, FULL, NETWORK, images, ours, problem_of, quickest, start
from experiments.shared.timing import options, timed

LEVEL, BARS = CASES["sorted"][0], {"seconds": 1.0, "MB": 100.0, "epochs": 10, "a round": 40.0}


def megabytes(problem, rounds):
    """Return the megabytes that AdaptiveNEXT has sent after so many rounds."""
    result = consensus.solve(problem, NETWORK, AdaptiveNEXT(), rounds=rounds, start=start(problem), record_every=rounds)
    return result.history["bytes"][-1] / 1e6


def large_model(dtype, repeats):
    train, test = images(dtype)
    problem = problem_of(train, "sorted")
    full = GradientTracking(quickest(problem, test, GradientTracking, FULL, LEVEL, 1000, 10))
    runs = [(AdaptiveNEXT(), LEVEL, 50, 1), (full, LEVEL, 1000, 10)]
    found = np.array([[ours(problem, test, *run) for run in runs] for _ in range(repeats)])
    (mine, theirs), (few, many) = np.median(found[:, :, 0], axis=0), found[0, :, 1].astype(int)
    print(
        f"784-64-10 to {LEVEL:.0%} at every agent, 8,000 images by label, {np.dtype(dtype)}: {mine:.1f} s ({few} rounds), "
        f"gradient tracking {theirs:.1f} s ({many} rounds); ratio {np.median(found[:, 0, 0] / found[:, 1, 0]):.2f}, at most "
        f"{BARS['seconds']:g}; {BARS['epochs']} rounds; sent {megabytes(problem, few):.0f} MB, at most {BARS['MB']:g}",
        flush=True,
    )


def seconds_a_round(problem, network, solver, before, rounds):
    """A function that goes on by so many rounds after ``before`` rounds, and returns the seconds of one."""
    network = StackedNetwork(network, problem.dtype)
    state = solver.init(problem, np.zeros((problem.agents, problem.parameters)))
    for _ in range(before):
        state = solver.step(problem, network, state)

    def go_on():
        nonlocal state
        for _ in range(rounds):
            state = solver.step(problem, network, state)

    return lambda: timed(go_on)[0] / rounds


def many_agents(repeats, agents=10_000):
    data = shards(agents, 10, 20)
    problem = consensus.Problem(consensus.Linear(20), consensus.LogisticLoss(), data, consensus.L2(1e-3))
    network = topologies.Static(topologies.random_regular(agents, 6, seed=0))
    with one_blas_thread:
        mine = seconds_a_round(problem, network, AdaptiveNEXT(), 6, 1)
        theirs = seconds_a_round(problem, network, GradientTracking(0.5), 5, 20)
        found = np.array([(mine(), theirs()) for _ in range(repeats)])
    adaptive, tracking = np.median(found, axis=0)
    print(
        f"{agents:,} agents, random regular graph: {adaptive:.3f} s a round, gradient tracking {tracking:.4f} s; ratio "
        f"{np.median(found[:, 0] / found[:, 1]):.0f}, at most {BARS['a round']:g}"
    )


def main():
    repeats = options(__doc__, repeats=(3, "of which medians are printed")).repeats
    many_agents(5 * repeats)
    for dtype in (np.float64, np.float32):
        large_model(dtype, repeats)


if __name__ == "__main__":
    main()
