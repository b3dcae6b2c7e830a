"""The rule of ``Auto`` on problems drawn at random, against EXTRA, NIDS and OPAPC with the steps of their theory.

Problems are convex, with linear models on static graphs. Measured are exchanges until the objective at the agents' mean is
within a part of the gap between the start's and the least, and stays there; a miss counts as all exchanges. Runs in which no
method gets there are left out.
"""

import networkx as nx
import numpy as np
from tqdm import tqdm

import consensus
import topologies
from consensus import solvers
from experiments.shared.tables import Table
from experiments.untuned.counting import levels
from experiments.untuned.default import PARTS, least, outcome

EXCHANGES, QUICK = 800, 60
LOSSES = {"squared": consensus.SquaredLoss(), "logistic": consensus.LogisticLoss(), "Huber": consensus.Huber(1.0)}
KINDS = ("complete", "star", "ring", "path", "grid", "regular", "random", "geometric")
RIVALS = {"EXTRA": solvers.EXTRA(), "NIDS": solvers.NIDS(), "OPAPC": solvers.OPAPC()}


def graph(kind, agents, rng):
    """A connected graph of a kind, of about so many agents."""
    rows, density = int(rng.integers(2, 6)), rng.uniform(1.1, 2.5) * np.log(agents) / agents
    regular = {"complete": nx.complete_graph, "ring": nx.cycle_graph, "path": nx.path_graph}
    if kind in regular:
        return regular[kind](agents)
    if kind == "star":
        return nx.star_graph(agents - 1)
    if kind == "grid":
        return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, max(2, round(agents / rows))))
    while True:
        seed = int(rng.integers(1 << 30))
        if kind == "regular":
            found = nx.random_regular_graph(3, agents + agents % 2, seed=seed)
        elif kind == "random":
            found = nx.gnp_random_graph(agents, min(1, density), seed=seed)
        else:
            found = nx.random_geometric_graph(agents, 1.4 * np.sqrt(density / np.pi), seed=seed)
        if nx.is_connected(found):
            return nx.Graph(found.edges)


def drawn(seed, number):
    """The problem and the network of a number: losses, sizes, spreads of features, shards, weights and graphs at random."""
    rng = np.random.default_rng([seed, number])
    network = topologies.Static(graph(KINDS[rng.integers(len(KINDS))], int(rng.integers(6, 51)), rng))
    name, scheme = list(LOSSES)[rng.integers(len(LOSSES))], "sorted" if rng.random() < 2 / 3 else "iid"
    size, weight, spread = int(rng.integers(3, 16)), 10 ** rng.uniform(-4, -1), 30 ** rng.uniform(0, 1)
    X = rng.standard_normal((network.agents * int(rng.integers(5, 26)), size))
    X = X @ (np.eye(size) + 0.3 * rng.standard_normal((size, size))) * np.geomspace(1, spread, size) / np.sqrt(spread)
    y = X @ rng.standard_normal(size) / np.sqrt(size) + 0.3 * rng.standard_normal(len(X))
    if name == "Huber":
        y += 10 * (rng.random(len(X)) < 0.1) * rng.standard_normal(len(X))  # outliers
    y = (y > 0).astype(float) if name == "logistic" else y
    shards = consensus.partition(X, y, network.agents, scheme, seed=3)
    return consensus.Problem(consensus.Linear(size), LOSSES[name], shards, consensus.L2(weight)), network


def run(count, seed=0, *, quick=False):
    """The table of ``count`` problems, by what ``Auto`` takes."""
    most, found = QUICK if quick else EXCHANGES, {}
    for number in tqdm(range(count), disable=None):
        problem, network = drawn(seed, number)
        start = np.zeros(problem.parameters)
        goals = levels(float(problem.objective(start)), least(problem, start), PARTS)

        def needed(solver, problem=problem, network=network, start=start, goals=goals):
            own, _, ran = outcome(problem, network, solver, start, goals, most)
            return own.exchanges, ran

        own, auto = needed(solvers.Auto())
        best = np.min([needed(solver)[0] for solver in RIVALS.values()], axis=0)
        there = np.isfinite(np.minimum(own, best))
        ratios = np.minimum(own, most)[there] / np.minimum(best, most)[there]
        for row in (type(auto.solver).__name__, "all"):
            found.setdefault(row, []).extend(ratios)
    table = Table({"takes": "", "runs": ".0f", "mean": ".2f", "within 1.2": ".0%", "worst": ".1f"})
    for row, ratios in sorted(found.items(), key=lambda item: (item[0] == "all", item[0])):
        if len(x := np.array(ratios)):
            table.add(row, len(x), np.exp(np.log(x).mean()), np.mean(x <= 1.2), x.max())
    return table
