"""Convex problems drawn at random: linear models on static graphs."""

import itertools

import networkx as nx
import numpy as np

import consensus
import topologies
from experiments.untuned.cases import connected

LOSSES = {"squared": consensus.SquaredLoss(), "logistic": consensus.LogisticLoss(), "Huber": consensus.Huber(1.0)}
KINDS = ("complete", "star", "ring", "path", "grid", "regular", "random", "geometric")


def graph(kind, agents, rng):
    """A connected graph of a kind, of about so many agents."""
    rows, density = int(rng.integers(2, 6)), rng.uniform(1.1, 2.5) * np.log(agents) / agents
    drawn = {  # again and again
        "regular": lambda seed: nx.random_regular_graph(3, agents + agents % 2, seed=seed),
        "random": lambda seed: nx.gnp_random_graph(agents, min(1, density), seed=seed),
        "geometric": lambda seed: nx.random_geometric_graph(agents, 1.4 * np.sqrt(density / np.pi), seed=seed),
    }
    if kind in drawn:
        return nx.Graph(connected(drawn[kind](int(rng.integers(1 << 30))) for _ in itertools.count()).edges)
    if kind == "grid":
        return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, max(2, round(agents / rows))))
    return getattr(topologies, kind)(agents)


def problem_of(seed, number):
    """The problem of a number, its network and the start."""
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
    problem = consensus.Problem(consensus.Linear(size), LOSSES[name], shards, consensus.L2(weight))
    return problem, network, np.zeros(problem.parameters)
