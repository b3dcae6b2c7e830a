"""Rounds of D-PSGD of deep networks over eight agents against the same updates by hand in PyTorch and JAX.

For each network and schedule: the largest difference after ten rounds over the largest parameter; the median ratio of the
time of a round; how many rounds a row of the history costs, measured on a batch of each agent; and the ratio of the most
memory above that of imports and data, with two rows, each in a process of its own. ``taskset -c 0`` measures a single core.
"""

import importlib
import time
from pathlib import Path

import numpy as np

import consensus
import topologies
from consensus._arrays.parallel import cores
from consensus.solvers import DGD
from experiments.benchmarks.networks import NETWORKS, Run
from experiments.shared.timing import Rows, called, in_turn, options, timed

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
    anything = consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), shards)
    places = np.stack([consensus.Minibatches(network.batch).at(anything, n).indices for n in range(rounds)])
    matrices = [schedule.weights(schedule.key(n)).toarray().astype(np.float32) for n in range(rounds)]
    seed = getattr(network.model, "draw_seed", lambda agent, draw: 0)
    seeds = np.array([[seed(agent, n) for agent in range(agents)] for n in range(rounds)])
    start = network.model.init(np.random.default_rng(0)).astype(np.float32)
    return Run(places, seeds, np.stack(matrices), np.tile(start, (agents, 1)))


def ours(network, problem, schedule, run):
    """The iterates, the seconds of all rounds, and those of the row at their end."""
    ends, rounds = [], len(run.places)
    options = {"start": run.start, "rounds": rounds, "record_every": rounds, "metrics_on": network.batch}
    options["callbacks"] = [lambda _: ends.append(time.perf_counter())]
    result = consensus.solve(problem, schedule, DGD(network.step, batch=network.batch), **options)
    seconds = np.ptp(result.history["seconds"])
    return result.w, seconds, ends[-1] - ends[0] - seconds


def times(network, problem, schedule, run, repeats):
    """Milliseconds of a round by hand, our time over it, a row's over a round's: medians of turns, after one to warm up."""

    def turn():
        by_hand = min(seconds_by_hand(network, run, threads) for threads in {1, cores()})
        _, rounds, row = ours(network, problem, schedule, run)
        return by_hand / len(run.places) * 1e3, rounds / by_hand, row / rounds * len(run.places)

    return np.median(in_turn([turn], repeats + 1)[1:, 0], axis=0)


def seconds_by_hand(network, run, threads):
    """The seconds of the loop by hand, whose calls of PyTorch share so many threads: with little in a call one is faster."""
    importlib.import_module("torch").set_num_threads(threads)
    return timed(network.rounds, run)[0]


def memory(name, schedule, small, whose):
    """Return the megabytes at most above those of imports and data, of this process, which does nothing else."""
    for module in ("torch", "jax"):
        importlib.import_module(module)
    network, schedule = NETWORKS[name](AGENTS, small), SCHEDULES[schedule](AGENTS)
    Path("/proc/self/clear_refs").write_text("5")  # the most so far is forgotten
    before = most_memory()
    run = run_of(network, schedule, ROUNDS)
    ours(network, problem_of(network), schedule, run) if whose == "ours" else network.rounds(run)
    return most_memory() - before


def most_memory():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main():
    networks = list(NETWORKS), "of the networks"
    given = options(__doc__, quick=(False, "tiny networks"), repeats=(5, "turns"), networks=networks)
    print(f"Bars: difference {BARS['difference']}, time {BARS['time']}, memory {BARS['memory']}; {cores()} core(s)")
    columns = {"parameters": "", "schedule": ">12", "difference": ".1e", "ms, hand": ".1f", "time": ".2f", "a row": ".2f"}
    rows = Rows("", 8, columns | {"memory": ".2f", "MB": ".0f", "by hand": ".0f"})
    for name in given.networks:
        network = NETWORKS[name](AGENTS, given.quick)
        problem = problem_of(network)
        for label, make in SCHEDULES.items():
            schedule = make(AGENTS)
            run = run_of(network, schedule, ROUNDS)
            by_hand = network.rounds(run)
            difference = np.abs(ours(network, problem, schedule, run)[0] - by_hand).max() / np.abs(by_hand).max()
            took = times(network, problem, schedule, run, given.repeats)
            mine, theirs = (called(memory, name, label, given.quick, whose) for whose in ("ours", "hand"))
            rows.add(name, problem.parameters, label, difference, *took, mine / theirs, mine, theirs)


if __name__ == "__main__":
    main()
