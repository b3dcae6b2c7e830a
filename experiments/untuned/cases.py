"""Cases on which no constant of a solver was chosen: data or costs, a network, and shards.

``TREES`` are for sums over trees, ``GOSSIP`` for AdaptiveNEXT, ``DEFAULT`` for no solver at all.
"""

import functools
from dataclasses import replace
from typing import NamedTuple

import networkx as nx
import numpy as np
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.preprocessing import scale

import consensus
import topologies
from consensus.problems import has_model
from experiments.shared.cases import load
from topologies import LinkFailure, Static

WEIGHT = 1e-3  # of the squared norm
ROWS = 1500  # taken of larger sets


class Trained(NamedTuple):
    """Model with so many hidden units, trained on a data set, on a network of so many agents, with a kind of shards."""

    data: str
    hidden: tuple[int, ...]
    network: str
    agents: int
    scheme: str
    seed: int = 0  # of shards and start

    def __str__(self):
        return f"{self.data}, {self.network} of {self.agents}, {self.scheme}"


class Case(NamedTuple):
    """Costs of a kind on a network of so many agents, with targets or parameters in units of that size."""

    costs: str
    network: str
    agents: int
    unit: float = 1.0

    def __str__(self):
        return f"{self.costs}, {self.network} of {self.agents}" + (f", unit {self.unit:g}" if self.unit != 1 else "")


TREES = (
    Trained("friedman 2, draw 1", (25,), "caveman", 16, "iid"),
    Trained("friedman 3", (12,), "grid", 16, "sorted"),
    Trained("cultivars", (10,), "barbell", 12, "sorted"),
    Trained("MNIST, 30 components", (15,), "hypercube", 16, "iid"),
    Trained("two of 20 features", (8,), "star", 12, "sorted"),
    Trained("moons", (20,), "circulant", 14, "sorted"),
    Trained("swiss roll", (10, 10), "wheel", 12, "iid"),
    Trained("iris", (), "regular", 12, "sorted"),
    Trained("sparse regression", (), "binary tree", 15, "iid"),
    Trained("quantiles", (12,), "lollipop", 12, "iid"),
)
GOSSIP = (
    Trained("wine", (10,), "star", 11, "iid", 1),
    Trained("friedman 2", (18,), "small world", 20, "sorted", 1),
    Trained("two classes", (14,), "torus", 18, "sorted", 1),
    Trained("cultivars", (6,), "ring", 9, "iid", 1),
    Trained("four digits", (5,), "lossy ring", 9, "sorted", 1),
    Trained("diabetes", (8,), "random graph", 14, "iid", 1),
    Trained("wine", (12,), "path", 7, "sorted", 1),
    Trained("two classes", (8,), "matchings", 10, "iid", 1),
    Trained("friedman 2", (10,), "lossy directed", 9, "sorted", 1),
    Trained("cultivars", (10,), "lossy directed", 11, "iid", 1),
)
DEFAULT = tuple(
    Case(costs, *place)
    for costs, places in {
        "ridge": [("star", 9, 1e-6), ("path", 16), ("ring", 48, 1e6)],
        "logistic": [("expander", 256), ("path", 24), ("directed", 14)],
        "huber": [("ring", 26), ("lossy", 11, 1e3)],
        "lasso": [("star", 13), ("expander", 32, 1e-3), ("ring", 18)],
        "unlike ridge": [("path", 12)],
        "quadratic": [("ring", 64, 1e4), ("directed", 9, 1e-4), ("lossy", 20), ("path", 2, 1e6)],
        "quartic": [("star", 8, 1e2), ("ring", 14), ("expander", 24, 1e-6)],
        "distances": [("path", 10), ("lossy", 12)],
        "robust mean": [("directed", 16, 1e5)],
        "MLP": [("star", 7), ("path", 9), ("ring", 22), ("expander", 50), ("directed", 10), ("lossy", 13)],
        "MLP of two layers": [("ring", 8), ("expander", 16)],
    }.items()
    for place in places
)
ALL = {"trees": TREES, "gossip": GOSSIP, "default": DEFAULT}
QUICK = {"trees": TREES[7:8], "gossip": (GOSSIP[3], GOSSIP[9]), "default": (DEFAULT[15], DEFAULT[0])}


SQUARED, LOGISTIC, CLASSES = consensus.SquaredLoss(), consensus.LogisticLoss(), consensus.CrossEntropy()
DATA = {  # the loss, and a function that returns features and targets
    "wine": (SQUARED, lambda: load("wine")),
    "diabetes": (SQUARED, lambda: datasets.load_diabetes(return_X_y=True)),
    "friedman 2": (SQUARED, lambda: datasets.make_friedman2(1000, noise=50.0, random_state=5)),
    "friedman 2, draw 1": (SQUARED, lambda: datasets.make_friedman2(1000, noise=50.0, random_state=1)),
    "friedman 3": (SQUARED, lambda: datasets.make_friedman3(800, noise=0.05, random_state=2)),
    "swiss roll": (SQUARED, lambda: datasets.make_swiss_roll(1000, noise=0.3, random_state=5)),
    "sparse regression": (consensus.Huber(0.5), lambda: datasets.make_sparse_uncorrelated(600, 40, random_state=6)),
    "two classes": (LOGISTIC, lambda: classification(12, class_sep=0.8, random_state=2)),
    "two of 20 features": (LOGISTIC, lambda: classification(20, flip_y=0.05, random_state=3)),
    "moons": (LOGISTIC, lambda: datasets.make_moons(700, noise=0.2, random_state=4)),
    "cultivars": (CLASSES, lambda: datasets.load_wine(return_X_y=True)),
    "iris": (CLASSES, lambda: datasets.load_iris(return_X_y=True)),
    "four digits": (CLASSES, lambda: datasets.load_digits(n_class=4, return_X_y=True)),
    "MNIST, 30 components": (CLASSES, lambda: components(*load("mnist"))),
    "quantiles": (CLASSES, lambda: datasets.make_gaussian_quantiles(n_samples=900, n_features=5, n_classes=4, random_state=7)),
}


def classification(features, **options):
    return datasets.make_classification(900, features, n_informative=8, **options)


def components(images, digits):
    return PCA(30, random_state=0).fit_transform(images[:ROWS].reshape(ROWS, -1)), digits[:ROWS]


GRAPHS = {  # those without agents in their line have one size
    "random_geometric": lambda agents, seed: topologies.random_geometric(agents, 0.45 if agents < 30 else 0.3, seed=seed),
    "erdos_renyi": lambda agents, seed: topologies.erdos_renyi(agents, 0.25, seed=seed),
    "erdos": lambda agents, seed: topologies.erdos_renyi(agents, min(1, 2 * np.log(agents + 1) / agents), seed=seed),
    "random graph": lambda agents, seed: connected(nx.gnp_random_graph(agents, 0.3, seed=k) for k in range(seed, 10_000, 100)),
    "small world": lambda agents, seed: nx.connected_watts_strogatz_graph(agents, 4, 0.3, seed=seed),
    "regular": lambda agents, seed: topologies.random_regular(agents, 3, seed=seed),
    "expander": lambda agents, seed: topologies.random_regular(agents, 3 if agents < 100 else 6, seed=seed),
    "caveman": lambda agents, seed: nx.connected_caveman_graph(4, 4),
    "grid": lambda agents, seed: nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 4)),
    "barbell": lambda agents, seed: nx.barbell_graph(5, 2),
    "hypercube": lambda agents, seed: nx.convert_node_labels_to_integers(nx.hypercube_graph(4)),
    "circulant": lambda agents, seed: nx.circulant_graph(14, [1, 2]),
    "wheel": lambda agents, seed: nx.wheel_graph(12),
    "binary tree": lambda agents, seed: nx.balanced_tree(2, 3),
    "lollipop": lambda agents, seed: nx.lollipop_graph(8, 4),
    "torus": lambda agents, seed: topologies.torus(3, agents // 3),
}
NETWORKS = {  # that are no static undirected graphs
    "lossy ring": lambda agents, seed: LinkFailure(network("ring", agents), 0.3, seed=seed),
    "lossy": lambda agents, seed: LinkFailure(Static(topologies.random_geometric(agents, 0.6, seed=seed)), 0.4, seed=seed),
    "matchings": lambda agents, seed: topologies.Matchings(agents, seed=seed),
    "random_half": lambda agents, seed: topologies.RandomEdges(graph("erdos_renyi", agents, seed), 0.5, seed=seed),
    "directed": lambda agents, seed: pushing(nx.gnp_random_graph(agents, 0.15, seed=seed, directed=True), cycle(agents)),
    "lossy directed": lambda agents, seed: LinkFailure(pushing(cycle(agents), jumps(agents)), 0.2, seed=seed),
}


def connected(graphs):
    return next(filter(nx.is_connected, graphs))


def cycle(agents):
    return nx.cycle_graph(agents, nx.DiGraph)


def jumps(agents):
    return nx.DiGraph((k, (k + 5) % agents) for k in range(0, agents, 2))


def pushing(graph, more):
    return Static(nx.compose(graph, more), weights=topologies.push)


def graph(name, agents, seed=0):
    """The graph of this name, drawn by ``seed`` if it is random."""
    return GRAPHS[name](agents, seed) if name in GRAPHS else getattr(topologies, name)(agents)


def network(name, agents, seed=0):
    """The schedule of this name: a graph's is static."""
    return NETWORKS[name](agents, seed) if name in NETWORKS else Static(graph(name, agents, seed))


@functools.cache
def make(case):
    """The problem, the same in float32, the network and the start."""
    if isinstance(case, Trained):
        (problem, start), seed = _trained(case), 7 if case in GOSSIP else 1
    else:
        made = _functions if case.costs in ("quadratic", "quartic", "distances", "robust mean") else _model
        (problem, start), seed = made(case, np.random.default_rng([case.agents, len(case.costs)])), 11
    return problem, in_single(problem), network(case.network, case.agents, seed), start


def in_float64(case):
    problem, _, schedule, start = make(case)
    return problem, schedule, start


def in_float32(case):
    _, problem, schedule, start = make(case)
    return problem, schedule, start.astype(problem.dtype)


def in_single(problem):
    """The problem in float32; itself if its costs are functions, which compute in float64."""
    if not has_model(problem):
        return problem
    parts = {name: getattr(problem.shards, name).astype(np.float32) for name in ("features", "targets", "weights")}
    return consensus.Problem(problem.model, problem.loss, replace(problem.shards, **parts), problem.regularizer)


def _trained(case):
    loss, data = DATA[case.data]
    X, y = data()
    X = scale(X[:, X.std(axis=0) > 0] if case in GOSSIP else X)  # without constant features; TREES have none
    classes = loss is CLASSES
    y = y if classes or loss is LOGISTIC else scale(y)
    if len(X) > ROWS:
        drawn = np.random.default_rng(7).permutation(len(X))[:ROWS]
        X, y = X[drawn], y[drawn]
    outputs = len(np.unique(y)) if classes else 1
    model = consensus.MLP([X.shape[1], *case.hidden, outputs]) if case.hidden else consensus.Linear(X.shape[1], outputs)
    shards = consensus.partition(X, y if classes else y.astype(float), case.agents, case.scheme, seed=case.seed)
    return consensus.Problem(model, loss, shards, consensus.L2(WEIGHT)), model.init(np.random.default_rng(case.seed))


def _model(case, rng):
    features, rows = 8, max(240, 8 * case.agents)
    X = rng.standard_normal((rows, features)) @ (np.eye(features) + 0.3 * rng.standard_normal((features, features)))
    y = X @ rng.standard_normal(features) / 3 + 0.3 * rng.standard_normal(rows)
    loss, r, model = SQUARED, consensus.L2(WEIGHT), consensus.Linear(features)
    match case.costs:
        case "logistic":
            loss, y = LOGISTIC, (y > 0).astype(float)
        case "huber":
            loss, y = consensus.Huber(case.unit), y + 10 * (rng.random(rows) < 0.1) * rng.standard_normal(rows)
        case "lasso":
            r = consensus.L1(0.1 * case.unit)
        case "unlike ridge":
            X *= np.logspace(0, 1, features)
        case "MLP" | "MLP of two layers":
            y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] / 3
            model = consensus.MLP([features, 9, 1] if case.costs == "MLP" else [features, 7, 6, 1])
    shards = consensus.partition(
        X, y * case.unit if loss.quadratic or case.costs == "huber" else y, case.agents, "sorted", seed=3
    )
    problem = consensus.Problem(model, loss, shards, r)
    return problem, model.init(rng) if "MLP" in case.costs else np.zeros(problem.parameters)


def _functions(case, rng):
    A, P, unit = case.agents, 6, case.unit
    if case.costs == "distances":  # from anchors to three points in the plane, squared
        anchors, points = rng.uniform(-1, 1, (A, 1, 2)), rng.uniform(-1, 1, (3, 2))
        seen = np.square(anchors - points).sum(axis=2)

        def off(w, rows):
            d = w.reshape(len(w), 3, 2) - anchors[rows]
            return d, np.square(d).sum(axis=2) - seen[rows]

        def value(w, rows):
            return np.square(off(w, rows)[1]).sum(axis=1) / (4 * A)

        def gradient(w, rows):
            d, e = off(w, rows)
            return (e[:, :, None] * d).reshape(len(w), 6) / A

    else:
        R, centres = rng.standard_normal((A, 10, P)) * np.logspace(0, -1, P), rng.standard_normal((A, P))
        b = np.einsum("anp,ap->an", R, centres if case.costs != "quartic" else np.ones((A, P)))

        def inner(w, rows):
            return np.einsum("anp,ap->an", R[rows], w / unit)

        if case.costs == "quadratic":
            h, slope = (lambda t, c: np.square(t - c) / 2), (lambda t, c: t - c)
        elif case.costs == "quartic":
            h, slope = (lambda t, c: np.square(t * t - c * c) / 4), (lambda t, c: t * (t * t - c * c))
        else:
            h, slope = (lambda t, c: np.log1p(np.square(t - c) / 2)), (lambda t, c: (t - c) / (1 + np.square(t - c) / 2))

        def value(w, rows):
            return h(inner(w, rows), b[rows]).sum(axis=1) / (10 * A)

        def gradient(w, rows):
            return np.einsum("an,anp->ap", slope(inner(w, rows), b[rows]), R[rows]) / (10 * A * unit)

    known = {"lipschitz": np.linalg.norm(R, 2, axis=(1, 2)) ** 2 / (10 * A * unit**2)} if case.costs == "quadratic" else {}
    problem = consensus.Problem.from_functions(value, gradient, agents=A, parameters=P, **known)
    return problem, unit * (np.zeros(P) if case.costs in ("quadratic", "robust mean") else rng.standard_normal(P))
