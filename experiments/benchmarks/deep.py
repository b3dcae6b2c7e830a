"""Rounds of D-PSGD of deep networks over eight agents against the same updates by hand in PyTorch and JAX.

For each network and schedule: the largest difference after ten rounds over the largest parameter; the median ratio of the
time of a round; how many rounds a row of the history costs, measured on a batch of each agent; and the ratio of the most
memory above that of imports and data, with two rows, each in a process of its own. ``taskset -c 0`` measures a single core.
"""

import argparse
import importlib
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import consensus
import topologies
from consensus._arrays.parallel import cores
from consensus.solvers import DGD
from experiments.benchmarks.networks import NETWORKS, Run
from experiments.shared.timing import timed

AGENTS, ROUNDS = 8, 10
SCHEDULES = {
    "ring": lambda agents: topologies.Static(topologies.ring(agents)),
    "exponential": topologies.OnePeerExponential,
    "random pairs": topologies.Matchings,
}
BARS = {"difference": 1e-6, "time": 1.15, "memory": 1.5}


def problem_of(network):
    shards = consensus.Shards.from_list(list(zip(network.features, network.labels, strict=True)))
    return consensus.Problem(network.model, consensus.CrossEntropy(), shards)


def run_of(network, schedule, rounds):
    """Return the common inputs of both: start, matrices, seeds, and batches, which depend on the numbers of samples alone."""
    agents, samples = network.labels.shape[:2]
    shards = consensus.partition(np.zeros((agents * samples, 1)), np.zeros(agents * samples), agents)
    rule, anything = (
        consensus.Minibatches(network.batch),
        consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), shards),
    )
    places = np.stack([rule.at(anything, n).indices for n in range(rounds)])
    matrices = [schedule.weights(schedule.key(n)).toarray().astype(np.float32) for n in range(rounds)]
    seed = getattr(network.model, "draw_seed", lambda agent, draw: 0)
    seeds = np.array([[seed(agent, n) for agent in range(agents)] for n in range(rounds)])
    start = network.model.init(np.random.default_rng(0)).astype(np.float32)
    return Run(places, seeds, np.stack(matrices), np.tile(start, (agents, 1)))


def ours(network, problem, schedule, run):
    """The iterates, the seconds of all rounds, and those of the row at their end."""
    ends = []
    result = consensus.solve(
        problem,
        schedule,
        DGD(network.step, batch=network.batch),
        rounds=len(run.places),
        start=run.start,
        record_every=len(run.places),
        metrics_on=network.batch,
        callbacks=[lambda _: ends.append(time.perf_counter())],
    )
    rounds = np.ptp(result.history["seconds"])
    return result.w, rounds, ends[-1] - ends[0] - rounds


def times(network, problem, schedule, run, repeats):
    """Our time over that by hand, and a row's over a round's: medians of turns, after one to warm up."""
    found = []
    for _ in range(repeats + 1):
        by_hand = min(seconds_by_hand(network, run, threads) for threads in {1, cores()})
        _, rounds, row = ours(network, problem, schedule, run)
        found.append((by_hand, rounds / by_hand, row / rounds * len(run.places)))
    by_hand, ratio, row = np.median(found[1:], axis=0)
    return 1e3 * by_hand / len(run.places), ratio, row


def seconds_by_hand(network, run, threads):
    """The seconds of the loop by hand, whose calls of PyTorch share so many threads: with little in a call one is faster."""
    importlib.import_module("torch").set_num_threads(threads)
    return timed(network.rounds, run)[0]


def memory(name, schedule, small, whose):
    """Print the megabytes at most above those of imports and data, of this process, which does nothing else."""
    for module in ("torch", "jax"):
        importlib.import_module(module)
    network, schedule = NETWORKS[name](AGENTS, small), SCHEDULES[schedule](AGENTS)
    Path("/proc/self/clear_refs").write_text("5")  # the most so far is forgotten
    before = most_memory()
    run = run_of(network, schedule, ROUNDS)
    if whose == "ours":
        ours(network, problem_of(network), schedule, run)
    else:
        network.rounds(run)
    print(most_memory() - before)


def most_memory():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny networks")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        name, schedule, whose = options.memory
        memory(name, schedule, options.quick, whose)
        return
    print(f"Bars: difference {BARS['difference']}, time {BARS['time']}, memory {BARS['memory']}; {cores()} core(s)")
    print(
        f"{'':>8} {'parameters':>10} {'schedule':>12} {'difference':>10} {'ms, hand':>9} {'time':>6} {'a row':>6} {'memory':>7}"
    )
    for name in options.networks:
        network = NETWORKS[name](AGENTS, options.quick)
        problem = problem_of(network)
        for label, make in SCHEDULES.items():
            schedule = make(AGENTS)
            run = run_of(network, schedule, ROUNDS)
            by_hand = network.rounds(run)
            difference = np.abs(ours(network, problem, schedule, run)[0] - by_hand).max() / np.abs(by_hand).max()
            ms, ratio, row = times(network, problem, schedule, run, options.repeats)
            command = [sys.executable, "-m", "experiments.benchmarks.deep", *["--quick"] * options.quick, "--memory"]
            mine, theirs = (float(subprocess.check_output([*command, name, label, whose])) for whose in ("ours", "hand"))
            line = f"{name:>8} {problem.parameters:>10} {label:>12} {difference:>10.1e} {ms:>9.1f} {ratio:>6.2f} {row:>6.2f}"
            print(f"{line} {mine / theirs:>7.2f}   ({mine:.0f} and {theirs:.0f} MB)", flush=True)


if __name__ == "__main__":
    main()
