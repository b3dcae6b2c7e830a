"""Ten cases for gossip, static, changing and directed: no constant of AdaptiveNEXT was chosen on them."""

import functools
from dataclasses import replace
from typing import NamedTuple

import networkx as nx
import numpy as np
from sklearn import datasets
from sklearn.preprocessing import scale

import consensus
import topologies
from experiments.shared.cases import load

WEIGHT = 1e-3  # of the squared norm
ROWS = 1500  # taken of larger sets


class Case(NamedTuple):
    """Model with so many hidden units, trained on a data set, on a network of so many agents, with a kind of shards."""

    data: str
    hidden: int
    network: str
    agents: int
    scheme: str

    def __str__(self):
        return f"{self.data}, {self.network} of {self.agents}, {self.scheme}"


CASES = (
    Case("wine", 10, "star", 11, "iid"),
    Case("friedman 2", 18, "small world", 20, "sorted"),
    Case("two classes", 14, "torus", 18, "sorted"),
    Case("cultivars", 6, "ring", 9, "iid"),
    Case("four digits", 5, "lossy ring", 9, "sorted"),
    Case("diabetes", 8, "random graph", 14, "iid"),
    Case("wine", 12, "path", 7, "sorted"),
    Case("two classes", 8, "matchings", 10, "iid"),
    Case("friedman 2", 10, "lossy directed", 9, "sorted"),
    Case("cultivars", 10, "lossy directed", 11, "iid"),
)
QUICK = (CASES[3], CASES[9])
STATIC = ("star", "small world", "torus", "ring", "random graph", "path")  # and undirected
DIRECTED = ("lossy directed",)


def _data(name):
    """Features, targets and the loss."""
    squared, logistic, classes = consensus.SquaredLoss(), consensus.LogisticLoss(), consensus.CrossEntropy()
    match name:
        case "wine":
            return *load("wine"), squared
        case "friedman 2":
            return *datasets.make_friedman2(1000, noise=50.0, random_state=5), squared
        case "diabetes":
            return *datasets.load_diabetes(return_X_y=True), squared
        case "two classes":
            return *datasets.make_classification(900, 12, n_informative=8, class_sep=0.8, random_state=2), logistic
        case "cultivars":
            return *datasets.load_wine(return_X_y=True), classes
        case "four digits":
            return *datasets.load_digits(n_class=4, return_X_y=True), classes
    raise ValueError(name)


def network(name, agents):
    """The schedule of this name; every draw has seed 7."""
    match name:
        case "star":
            return topologies.Static(topologies.star(agents))
        case "path":
            return topologies.Static(topologies.path(agents))
        case "ring":
            return topologies.Static(topologies.ring(agents))
        case "torus":
            return topologies.Static(topologies.torus(3, agents // 3))
        case "small world":
            return topologies.Static(nx.connected_watts_strogatz_graph(agents, 4, 0.3, seed=7))
        case "random graph":
            graphs = (nx.gnp_random_graph(agents, 0.3, seed=seed) for seed in range(7, 10_000, 100))
            return topologies.Static(next(filter(nx.is_connected, graphs)))
        case "lossy ring":
            return topologies.LinkFailure(topologies.Static(topologies.ring(agents)), 0.3, seed=7)
        case "matchings":
            return topologies.Matchings(agents, seed=7)
        case "lossy directed":
            graph = nx.cycle_graph(agents, create_using=nx.DiGraph)
            graph.add_edges_from((i, (i + 5) % agents) for i in range(0, agents, 2))
            return topologies.LinkFailure(topologies.Static(graph, weights=topologies.push), 0.2, seed=7)
    raise ValueError(name)


@functools.lru_cache(1)
def make(case):
    """The problem, the same in float32, the network and the start."""
    X, y, loss = _data(case.data)
    X = scale(X[:, X.std(axis=0) > 0])
    y = scale(y) if loss.quadratic else y
    if len(X) > ROWS:
        drawn = np.random.default_rng(7).permutation(len(X))[:ROWS]
        X, y = X[drawn], y[drawn]
    outputs = len(np.unique(y)) if isinstance(loss, consensus.CrossEntropy) else 1
    model = consensus.MLP([X.shape[1], case.hidden, outputs])
    y = y if outputs > 1 else y.astype(float)
    shards = consensus.partition(X, y, agents=case.agents, scheme=case.scheme, seed=1)
    parts = {name: getattr(shards, name).astype(np.float32) for name in ("features", "targets", "weights")}
    double, single = (consensus.Problem(model, loss, data, consensus.L2(WEIGHT)) for data in (shards, replace(shards, **parts)))
    return double, single, network(case.network, case.agents), model.init(np.random.default_rng(1))
