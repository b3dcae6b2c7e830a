"""Ten cases: data, graph and model of each in no case on which a constant of a solver was chosen."""

import functools
from typing import NamedTuple

import networkx as nx
import numpy as np
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.preprocessing import scale

import consensus
import topologies
from experiments.shared.cases import load
from experiments.shared.centralised import lowest

WEIGHT = 1e-3  # of the squared norm


class Case(NamedTuple):
    """Model trained on a data set, over a graph, with a kind of shards."""

    data: str
    hidden: tuple[int, ...]
    graph: str
    scheme: str


CASES = (
    Case("friedman 2", (25,), "caveman", "iid"),
    Case("friedman 3", (12,), "grid", "sorted"),
    Case("cultivars", (10,), "barbell", "sorted"),
    Case("MNIST, 30 components", (15,), "hypercube", "iid"),
    Case("two classes", (8,), "star", "sorted"),
    Case("moons", (20,), "circulant", "sorted"),
    Case("swiss roll", (10, 10), "wheel", "iid"),
    Case("iris", (), "regular", "sorted"),
    Case("sparse regression", (), "binary tree", "iid"),
    Case("quantiles", (12,), "lollipop", "iid"),
)


def _data(name):
    """Features, targets and the loss."""
    squared, logistic, classes = consensus.SquaredLoss(), consensus.LogisticLoss(), consensus.CrossEntropy()
    match name:
        case "friedman 2":
            return *datasets.make_friedman2(1000, noise=50.0, random_state=1), squared
        case "friedman 3":
            return *datasets.make_friedman3(800, noise=0.05, random_state=2), squared
        case "cultivars":
            return *datasets.load_wine(return_X_y=True), classes
        case "MNIST, 30 components":
            images = load("mnist")
            X, y = images.X[:1500].reshape(1500, -1), images.y[:1500]
            return PCA(30, random_state=0).fit_transform(X), y, classes
        case "two classes":
            return *datasets.make_classification(900, 20, n_informative=8, flip_y=0.05, random_state=3), logistic
        case "moons":
            return *datasets.make_moons(700, noise=0.2, random_state=4), logistic
        case "swiss roll":
            return *datasets.make_swiss_roll(1000, noise=0.3, random_state=5), squared
        case "iris":
            return *datasets.load_iris(return_X_y=True), classes
        case "sparse regression":
            return *datasets.make_sparse_uncorrelated(600, 40, random_state=6), consensus.Huber(0.5)
        case "quantiles":
            return *datasets.make_gaussian_quantiles(n_samples=900, n_features=5, n_classes=4, random_state=7), classes
    raise ValueError(name)


def graph(name):
    """The networkx graph of this name: 8 to 20 agents."""
    graphs = {
        "caveman": lambda: nx.connected_caveman_graph(4, 4),
        "grid": lambda: nx.grid_2d_graph(4, 4),
        "barbell": lambda: nx.barbell_graph(5, 2),
        "hypercube": lambda: nx.hypercube_graph(4),
        "star": lambda: nx.star_graph(11),
        "circulant": lambda: nx.circulant_graph(14, [1, 2]),
        "wheel": lambda: nx.wheel_graph(12),
        "regular": lambda: nx.random_regular_graph(3, 12, seed=1),
        "binary tree": lambda: nx.balanced_tree(2, 3),
        "lollipop": lambda: nx.lollipop_graph(8, 4),
    }
    return nx.convert_node_labels_to_integers(graphs[name]())


@functools.cache
def make(case):
    """The problem, the graph, the start and the least objective that L-BFGS finds with all data in one place."""
    X, y, loss = _data(case.data)
    y = scale(y) if loss.quadratic or isinstance(loss, consensus.Huber) else y.astype(int)
    outputs = len(np.unique(y)) if isinstance(loss, consensus.CrossEntropy) else 1
    model = consensus.MLP([X.shape[1], *case.hidden, outputs]) if case.hidden else consensus.Linear(X.shape[1], outputs)
    network = graph(case.graph)
    shards = consensus.partition(scale(X), y, agents=len(network), scheme=case.scheme, seed=0)
    problem = consensus.Problem(model, loss, shards, consensus.L2(WEIGHT))
    start = model.init(np.random.default_rng(0))
    least = lowest(problem, start, maxiter=20000, maxfun=40000, gtol=1e-9, ftol=1e-15, maxcor=30)
    return problem, topologies.Static(network), start, least


def levels(problem, start, least, parts=(0.3, 0.1, 0.03, 0.01)):
    """Objectives at these parts of the gap between the start and the least."""
    first = problem.objective(start)
    return [least + part * (first - least) for part in parts]
