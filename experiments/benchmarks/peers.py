"""Rounds of decent-bench beside ours: do the iterates agree to rounding, and how long does a round take?

Both packages get the same data, graph, mixing weights and steps, and record only the first and the last iterate. Times are wall
times of whole calls, minus the time of a call with a single round.
"""

import argparse
import datetime
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from scipy import sparse

import consensus
import topologies
from consensus import centralized, solvers
from experiments.shared.environment import shown
from experiments.shared.timing import timed

INSTALL = """decent-bench is missing. It needs Python 3.13 or newer; from the project's folder:
    python3.13 -m venv peers
    peers/bin/pip install -e . decent-bench
    peers/bin/python -m experiments.benchmarks.peers"""
CASES = {"breast_cancer": 10, "diabetes": 20, "digits": 100, "mnist": 10}  # data sets and numbers of agents
DEGREE, RIDGE, LOCAL = 4, 0.1, 4  # of the graph; of L2 for classification; local steps
CHECKED, DIFFERENCE = 100, 1e-11  # rounds, and the largest difference allowed after them, relative to the largest entry


def over_neighbours(graph):
    """Equal weights of the neighbours and none of the agent itself, for penalties that decent-bench has on edges only."""
    return sparse.csr_array(topologies.adjacency(graph) / DEGREE)


class Pair(NamedTuple):
    """A solver, and ``peer(their, s, w)``: decent-bench's algorithm with the settings of s, for edges that all weigh w."""

    solver: solvers.Solver
    peer: Callable
    weights: Callable = topologies.metropolis
    lazy: bool = False  # decent-bench's algorithm mixes by W where ours mixes by (I + W) / 2
    late: int = 0  # rounds in which it only exchanges, at the beginning
    copies: bool = False  # it adds up messages in place: the agents need copies of them
    quadratic: bool = False  # it has local solutions for quadratic costs only


PAIRS = [
    Pair(solvers.DGD(), lambda their, s, w: their.DGD(step_size=s.step_size)),
    Pair(solvers.GradientTracking(), lambda their, s, w: their.AugDGM(step_size=s.step_size)),
    Pair(solvers.EXTRA(), lambda their, s, w: their.EXTRA(step_size=s.step_size)),
    Pair(solvers.ExactDiffusion(), lambda their, s, w: their.ED(step_size=s.step_size)),
    Pair(solvers.WangElia(), lambda their, s, w: their.WangElia(step_size=s.step_size)),
    Pair(
        solvers.KGT(local_steps=LOCAL),
        lambda their, s, w: their.KGT(num_local_steps=LOCAL, step_size=s.step_size, aux_step_size=s.scale),
    ),
    Pair(
        solvers.LED(local_steps=LOCAL),
        lambda their, s, w: their.LED(num_local_steps=LOCAL, step_size=s.step_size, aux_step_size=1 / LOCAL),
        lazy=True,
    ),
    Pair(
        solvers.LTADMM(local_steps=LOCAL),
        lambda their, s, w: their.LT_ADMM(
            num_local_steps=LOCAL, step_size=s.step_size, aux_step_size=s.step_size, penalty=w / (LOCAL * s.step_size)
        ),
    ),
    Pair(
        solvers.ATG(),
        lambda their, s, w: their.ATG(penalty=s.penalty * w, relaxation=s.relaxation, gamma=s.gamma, delta=s.step_size),
        weights=over_neighbours,
    ),
    Pair(solvers.DADMM(), lambda their, s, w: their.ADMM(penalty=2 * s.penalty * w), weights=over_neighbours, quadratic=True),
    Pair(
        solvers.DLM(),
        lambda their, s, w: their.DLM(step_size=s.step_size / (1 + 2 * DEGREE * w), penalty=w / s.step_size),
        late=1,
        copies=True,
    ),
    Pair(
        solvers.DiNNO(local_steps=LOCAL),
        lambda their, s, w: their.DiNNO(num_local_steps=LOCAL, step_size=s.step_size, penalty=w / (4 * s.step_size)),
        copies=True,
    ),
]


def problem_of(name):
    """Logistic regression with L2, of odd digits from even ones or tumours, or least squares; shards of equal sizes."""
    data, agents = consensus.datasets.load(name), CASES[name]
    keep = min(len(data.y), 10_000) // agents * agents
    x, y = data.X[-keep:].astype(float), data.y[-keep:].astype(float)
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)
    model = consensus.Linear(x.shape[1])
    if name not in consensus.datasets.CLASSIFICATION:
        return consensus.Problem(model, consensus.SquaredLoss(), consensus.partition(x, (y - y.mean()) / y.std(), agents))
    shards = consensus.partition(x, y % 2, agents)
    return consensus.Problem(model, consensus.LogisticLoss(), shards, consensus.L2(RIDGE))


def network_of(problem, weights=topologies.metropolis):
    return topologies.Static(topologies.random_regular(problem.agents, DEGREE, seed=0), weights)


def ours(problem, pair):
    """``(solver, run)``: the solver with all its settings, and ``run(rounds)``, the iterates (agents, P) after so many."""
    network = network_of(problem, pair.weights)
    ready = pair.solver.prepared(problem, network)
    return ready, lambda rounds: consensus.solve(problem, network, ready, rounds=rounds, record_every=rounds).w


def their_agents(problem, copies=False):
    """decent-bench's agents with the same costs, which record as rarely as they can."""
    from decent_array import interoperability as arrays
    from decent_bench import agents, costs

    class Copying(agents.Agent):
        def messages(self, channel="default"):
            return {sender: arrays.copy(message) for sender, message in super().messages(channel).items()}

    logistic = isinstance(problem.loss, consensus.LogisticLoss)
    kind, found = costs.LogisticRegressionCost if logistic else costs.LinearRegressionCost, []
    for x, d in zip(problem.shards.features, problem.shards.targets, strict=True):
        rows = np.column_stack([x, np.ones(len(x))])
        cost = kind([(arrays.from_numpy(row), arrays.from_numpy(target)) for row, target in zip(rows, d, strict=True)])
        cost = cost + RIDGE * costs.L2RegularizerCost(cost.shape) if logistic else cost
        found.append((Copying if copies else agents.Agent)(cost, state_snapshot_period=sys.maxsize))
    return found


def theirs(problem, pair, ready):
    """``run(rounds)`` of decent-bench, with the settings of our solver."""
    from decent_array import interoperability as arrays
    from decent_bench import networks
    from decent_bench.algorithms import p2p

    schedule = network_of(problem, pair.weights)
    matrix = schedule.weights(0).toarray()
    network = networks.P2PNetwork(schedule.graph(0), their_agents(problem, pair.copies))
    network.weights = arrays.from_numpy((np.eye(problem.agents) + matrix) / 2 if pair.lazy else matrix)

    def run(rounds):
        pair.peer(p2p, ready, matrix.max(where=~np.eye(len(matrix), dtype=bool), initial=0)).run(network, rounds + pair.late)
        return np.stack([arrays.to_numpy(agent.x) for agent in network.agents()])

    return run


def local_batches(problem):
    """LT-ADMM-VR of both on our batches, of half the samples: two functions ``run(rounds)``. It needs costs without L2."""
    from decent_array import interoperability as arrays
    from decent_bench import networks
    from decent_bench.algorithms import p2p

    schedule, size = network_of(problem), problem.shards.features.shape[1] // 2
    step = solvers.ExactDiffusion().prepared(problem, schedule).step_size / 2
    solver, weight = solvers.LTADMMVR(step, LOCAL, size), 1 / (DEGREE + 1)  # Metropolis, on a regular graph

    def run(rounds):
        agents = their_agents(problem)
        for k, agent in enumerate(agents):
            draws = [consensus.Minibatches(size).at(problem, n).indices[k].copy() for n in range(rounds * LOCAL)]
            agent.cost._batch_size, agent.cost._remaining_batch_indices = size, np.concatenate(draws).tolist()
        network = networks.P2PNetwork(schedule.graph(0), agents)
        # Gradients are taken anew in each round, as ours: v2 keeps those of the rounds before.
        p2p.LT_ADMM_VR(LOCAL, step, step, penalty=weight / (LOCAL * step), v2=False).run(network, rounds)
        return np.stack([arrays.to_numpy(agent.x) for agent in network.agents()])

    return lambda rounds: consensus.solve(problem, schedule, solver, rounds=rounds, record_every=rounds).w, run


ADAPTIVE = {"epsilon": 1e-3, "server_step_size": 0.05}
SERVED = {  # ours by its step, and settings of decent-bench's
    "FedAvg": (lambda step: centralized.FedAvg(step, LOCAL), {}),
    "FedProx": (lambda step: centralized.FedProx(step, LOCAL, coupling=0.5), {"penalty": 0.5}),
    "FedDyn": (lambda step: centralized.FedDyn(step, LOCAL, coupling=0.5), {"penalty": 0.5}),
    "FedNova": (lambda step: centralized.FedNova(step, LOCAL), {}),
    "FedAdam": (lambda step: centralized.FedAdam(step, LOCAL, server_rate=0.05, tau=1e-3), {"beta_2": 0.99} | ADAPTIVE),
    "FedYogi": (lambda step: centralized.FedYogi(step, LOCAL, server_rate=0.05, tau=1e-3), {"beta_2": 0.99} | ADAPTIVE),
    "FedAdagrad": (
        lambda step: centralized.FedAdagrad(step, LOCAL, server_rate=0.05, momentum=0.9, tau=1e-3),
        {"beta_1": 0.9} | ADAPTIVE,
    ),
}


def from_the_paper(kind):
    """decent-bench's adaptive server with squares that start at epsilon^2, as in the paper, and not at 0."""

    class Started(kind):
        def initialize(self, network):
            super().initialize(network)
            state = network.server().aux_vars
            state["v"] = state["v"] + self.epsilon**2

    return Started


def served(problem, name="FedAvg", steps=LOCAL):
    """A federated method of both: two functions ``run(rounds)``, the server's iterate (1, P); ``steps``: each client's."""
    from decent_array import interoperability as arrays
    from decent_bench import networks
    from decent_bench.algorithms import federated

    network = networks.FedNetwork(their_agents(problem))
    step = solvers.ExactDiffusion().prepared(problem, network_of(problem)).step_size  # 1 / L
    make, settings = SERVED[name]
    system, kind = replace(make(step), local_steps=steps), getattr(federated, name)
    kind = from_the_paper(kind) if "epsilon" in settings else kind
    each = steps if isinstance(steps, int) else dict(zip(network.clients(), steps, strict=True))

    def run(rounds):
        kind(step_size=step, num_local_steps=each, **settings).run(network, rounds)
        return arrays.to_numpy(network.server().x)[None]

    return lambda rounds: centralized.solve(problem, system, rounds=rounds, record_every=rounds).w, run


def enough(run, seconds):
    """So many rounds that they take about these seconds."""
    rounds = 1
    while timed(run, rounds)[0] < seconds:
        rounds *= 2
    return rounds


def compare(name, runs, repeats, seconds):
    """Check the iterates of ``runs``, ours and theirs, and print a row."""
    mine, other = (run(CHECKED) for run in runs)
    difference = np.abs(mine - other).max() / np.abs(mine).max()
    assert difference < DIFFERENCE, f"{name}: the iterates differ by {difference:.1e}"
    rounds = [enough(run, seconds) for run in runs]
    times = np.array([
        [(timed(run, many + 1)[0] - timed(run, 1)[0]) / many for run, many in zip(runs, rounds, strict=True)]
        for _ in range(repeats)
    ])  # fmt: skip
    a, b = np.median(times, axis=0) * 1e6
    low, middle, high = np.quantile(times[:, 1] / times[:, 0], (0, 0.5, 1))
    print(f"{name:<20} {a:>9.1f} {b:>13.1f} {middle:>7.1f} {low:>8.1f} - {high:<7.1f} {difference:>9.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="runs of either, which take turns")
    parser.add_argument("--seconds", type=float, default=0.2, help="that a run takes at least")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    given = parser.parse_args()
    if not find_spec("decent_bench"):
        raise SystemExit(INSTALL)
    from decent_array import interoperability as arrays

    arrays.set_backend("numpy")
    print(f"{datetime.date.today()}, decent-bench {metadata.version('decent-bench')}, {shown()}")
    print(f"Medians of {given.repeats} alternating runs; local steps: {LOCAL}; *: with copies of received messages")
    for case in given.cases:
        problem = problem_of(case)
        agents, samples, features = problem.shards.features.shape
        loss = type(problem.loss).__name__
        print(f"\n{case}: {agents} agents, {samples} samples of {features} features each, {loss}")
        print(f"{'method':<20} {'us, ours':>9} {'decent-bench':>13} {'ratio':>7} {'least - most':>18} {'differ by':>9}")
        for pair in PAIRS:
            if not pair.quadratic or problem.loss.quadratic:
                ready, run = ours(problem, pair)
                name = type(ready).__name__ + "*" * pair.copies
                compare(name, (run, theirs(problem, pair, ready)), given.repeats, given.seconds)
        for name in SERVED:
            compare(name, served(problem, name), given.repeats, given.seconds)
        if problem.loss.quadratic:
            compare("LTADMMVR", local_batches(problem), given.repeats, given.seconds)


if __name__ == "__main__":
    main()
