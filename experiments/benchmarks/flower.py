"""Rounds of federated averaging in Flower's simulation and ours: the same iterates, and where Flower's time goes.

Logistic regression on breast cancer: ten clients of 56 samples each, four local steps. Flower sends messages between processes
of Ray, and looks for replies at an interval, 0.1 s by default. Ours computes all clients as rows of arrays in one process. So
this measures what a round of messages costs there, not how fast either trains.
"""

import logging
import time
from importlib import metadata
from importlib.util import find_spec

import numpy as np
from scipy.special import expit

from consensus import centralized, solvers
from experiments.benchmarks.peers import LOCAL, RIDGE, a_round, enough, network_of, problem_of
from experiments.shared.environment import shown
from experiments.shared.timing import options

INSTALL = """Flower is missing. From the project's folder, with Python 3.11 or newer:
    pip install -e . "flwr[simulation]"
    python -m experiments.benchmarks.flower"""
INTERVALS = (0.1, 0.001)  # seconds between two looks for replies


def step_of(problem):
    return solvers.ExactDiffusion().prepared(problem, network_of(problem)).step_size  # 1 / L


def locally(w, x, d, step):
    """A client's local steps from w (P,), on samples x (n, features) with labels d (n, 1)."""
    x = np.column_stack([x, np.ones(len(x))])
    for _ in range(LOCAL):
        w = w - step * (x.T @ (expit(x @ w) - d[:, 0]) / len(x) + RIDGE * w)
    return w


def theirs(problem, rounds):
    """``(w, seconds)``: the last iterate (P,), and for every interval the times between beginnings of rounds."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    client, server, found = ClientApp(), ServerApp(), {}
    features, targets, step = problem.shards.features, problem.shards.targets, step_of(problem)

    @client.train()
    def train(message, context):
        me, (w,) = int(context.node_config["partition-id"]), message.content["arrays"].to_numpy_ndarrays()
        w, samples = locally(w, features[me], targets[me], step), {"num-examples": len(features[me])}
        return Message(RecordDict({"arrays": ArrayRecord([w]), "metrics": MetricRecord(samples)}), reply_to=message)

    class Timed(FedAvg):
        def configure_train(self, *arguments, **named):
            begun.append(time.perf_counter())
            return super().configure_train(*arguments, **named)

    @server.main()
    def main(grid, context):
        for interval in INTERVALS:
            begun.clear()
            grid.pull_interval = interval
            strategy = Timed(fraction_evaluate=0.0, min_available_nodes=problem.agents)
            result = strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(problem.parameters)]), num_rounds=rounds)
            found[interval] = np.diff(begun)
            (found["w"],) = result.arrays.to_numpy_ndarrays()

    begun = []
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app=server, client_app=client, num_supernodes=problem.agents, backend_config=resources)
    return found.pop("w"), found


def main():
    given = options(__doc__, rounds=(40, "of either; the first of Flower's starts Ray's processes"))
    if not find_spec("flwr") or not find_spec("ray"):
        raise SystemExit(INSTALL)
    problem = problem_of("breast_cancer")
    system = centralized.FedAvg(step_of(problem), LOCAL)

    def ours(rounds):
        return centralized.solve(problem, system, rounds=rounds, record_every=rounds).w[0]

    w, seconds = theirs(problem, given.rounds)
    difference = np.abs(ours(given.rounds) - w).max() / np.abs(w).max()
    assert difference < 1e-12, f"the iterates differ by {difference:.1e}"
    many = enough(ours, 0.2)
    mine = np.median([a_round(ours, many) for _ in range(7)])
    print(f"Flower {metadata.version('flwr')}, Ray {metadata.version('ray')}, {shown()}")
    print(f"After {given.rounds} rounds the iterates differ by {difference:.1e}. Medians of milliseconds a round:")
    for interval, times in seconds.items():
        print(f"  Flower, replies looked for every {interval} s: {np.median(times) * 1e3:.0f}")
    print(f"  ours: {mine * 1e3:.3f}")


if __name__ == "__main__":
    main()
