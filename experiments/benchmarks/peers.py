"""Rounds of decent-bench beside ours: do the iterates agree to rounding, and how long does a round take?

Both packages get the same data, graph, mixing weights and steps, and record only the first and the last iterate. Times are wall
times of whole calls, minus the time of a call with a single round.
"""

import datetime
import sys
from collections.abc import Callable
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from scipy import sparse

import consensus
import topologies
from consensus import centralized, solvers
from experiments.shared.environment import shown
from experiments.shared.timing import Rows, in_turn, options, timed

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


def steps(s, w=None):
    """The step and local steps of a solver s, as decent-bench calls them."""
    return {"step_size": s.step_size} | ({"num_local_steps": s.local_steps} if hasattr(s, "local_steps") else {})


class Pair(NamedTuple):
    """A solver, decent-bench's algorithm, and its ``settings(s, w)`` with those of the solver s, for edges that all weigh w."""

    solver: solvers.Solver
    peer: str
    settings: Callable = steps
    weights: Callable = topologies.metropolis
    lazy: bool = False  # decent-bench's algorithm mixes by W where ours mixes by (I + W) / 2
    late: int = 0  # rounds in which it only exchanges, at the beginning
    copies: bool = False  # it adds up messages in place: the agents need copies of them
    quadratic: bool = False  # it has local solutions for quadratic costs only


PAIRS = [
    Pair(solvers.DGD(), "DGD"),
    Pair(solvers.GradientTracking(), "AugDGM"),
    Pair(solvers.EXTRA(), "EXTRA"),
    Pair(solvers.ExactDiffusion(), "ED"),
    Pair(solvers.WangElia(), "WangElia"),
    Pair(solvers.KGT(local_steps=LOCAL), "KGT", lambda s, w: steps(s) | {"aux_step_size": s.scale}),
    Pair(solvers.LED(local_steps=LOCAL), "LED", lambda s, w: steps(s) | {"aux_step_size": 1 / LOCAL}, lazy=True),
    Pair(
        solvers.LTADMM(local_steps=LOCAL),
        "LT_ADMM",
        lambda s, w: steps(s) | {"aux_step_size": s.step_size, "penalty": w / (LOCAL * s.step_size)},
    ),
    Pair(
        solvers.ATG(),
        "ATG",
        lambda s, w: {"penalty": s.penalty * w, "relaxation": s.relaxation, "gamma": s.gamma, "delta": s.step_size},
        over_neighbours,
    ),
    Pair(solvers.DADMM(), "ADMM", lambda s, w: {"penalty": 2 * s.penalty * w}, over_neighbours, quadratic=True),
    Pair(
        solvers.DLM(),
        "DLM",
        lambda s, w: {"step_size": s.step_size / (1 + 2 * DEGREE * w), "penalty": w / s.step_size},
        late=1,
        copies=True,
    ),
    Pair(solvers.DiNNO(local_steps=LOCAL), "DiNNO", lambda s, w: steps(s) | {"penalty": w / (4 * s.step_size)}, copies=True),
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
        settings = pair.settings(ready, matrix.max(where=~np.eye(len(matrix), dtype=bool), initial=0))
        getattr(p2p, pair.peer)(**settings).run(network, rounds + pair.late)
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


SERVER, ADAPTIVE = {"server_rate": 0.05, "tau": 1e-3}, {"epsilon": 1e-3, "server_step_size": 0.05}
SERVED = {  # settings of ours, and of decent-bench's
    "FedAvg": ({}, {}),
    "FedProx": ({"coupling": 0.5}, {"penalty": 0.5}),
    "FedDyn": ({"coupling": 0.5}, {"penalty": 0.5}),
    "FedNova": ({}, {}),
    "FedAdam": (SERVER, {"beta_2": 0.99} | ADAPTIVE),
    "FedYogi": (SERVER, {"beta_2": 0.99} | ADAPTIVE),
    "FedAdagrad": (SERVER | {"momentum": 0.9}, {"beta_1": 0.9} | ADAPTIVE),
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
    own, settings = SERVED[name]
    system, kind = getattr(centralized, name)(step, steps, **own), getattr(federated, name)
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


def a_round(run, many):
    """Seconds of a round, from so many."""
    return (timed(run, many + 1)[0] - timed(run, 1)[0]) / many


def compare(name, runs, repeats, seconds):
    """The row of ``runs``, ours and theirs, whose iterates agree."""
    mine, other = (run(CHECKED) for run in runs)
    difference = np.abs(mine - other).max() / np.abs(mine).max()
    assert difference < DIFFERENCE, f"{name}: the iterates differ by {difference:.1e}"
    times = in_turn([partial(a_round, run, enough(run, seconds)) for run in runs], repeats)
    return name, *np.median(times, axis=0) * 1e6, *np.quantile(times[:, 1] / times[:, 0], (0.5, 0, 1)), difference


def pairs(problem):
    """Yield names of methods with both functions ``run(rounds)``."""
    for pair in PAIRS:
        if not pair.quadratic or problem.loss.quadratic:
            ready, run = ours(problem, pair)
            yield type(ready).__name__ + "*" * pair.copies, (run, theirs(problem, pair, ready))
    for name in SERVED:
        yield name, served(problem, name)
    if problem.loss.quadratic:
        yield "LTADMMVR", local_batches(problem)


def main():
    numbers = {"repeats": (7, "runs of either, which take turns"), "seconds": (0.2, "that a run takes at least")}
    given = options(__doc__, cases=(list(CASES), "data sets"), **numbers)
    if not find_spec("decent_bench"):
        raise SystemExit(INSTALL)
    from decent_array import interoperability as arrays

    arrays.set_backend("numpy")
    print(f"{datetime.date.today()}, decent-bench {metadata.version('decent-bench')}, {shown()}")
    print(f"Medians of {given.repeats} alternating runs; local steps: {LOCAL}; *: with copies of received messages")
    columns = dict.fromkeys(("us, ours", "decent-bench", "ratio", "least", "most"), ".1f") | {"differ by": ".1e"}
    for case in given.cases:
        problem = problem_of(case)
        agents, samples, features = problem.shards.features.shape
        loss = type(problem.loss).__name__
        print(f"\n{case}: {agents} agents, {samples} samples of {features} features each, {loss}")
        rows = Rows("method", 20, columns)
        for name, runs in pairs(problem):
            rows.add(*compare(name, runs, given.repeats, given.seconds))


if __name__ == "__main__":
    main()
