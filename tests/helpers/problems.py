"""Small problems with known answers, shared by the tests of solvers."""

import functools

import cvxpy as cp
import networkx as nx
import numpy as np
from scipy.optimize import minimize

import consensus
import topologies

AGENTS = 6
GRAPH = topologies.erdos_renyi(AGENTS, 0.5, seed=3)
RING = nx.DiGraph([(k, (k + 1) % AGENTS) for k in range(AGENTS)])
CIRCLE = nx.DiGraph([*RING.edges, (0, 3), (5, 2)])  # masses become unequal
PUSH = topologies.Static(CIRCLE, weights=topologies.push)
SCHEDULES = {
    "static": topologies.Static(GRAPH),
    "random": topologies.RandomEdges(GRAPH, 0.5, seed=1),
    "failing": topologies.LinkFailure(topologies.Static(topologies.ring(AGENTS)), 0.3, seed=2),
    "directed": PUSH,
    "directed, failing": topologies.LinkFailure(PUSH, 0.3, seed=2, symmetric=False),
}


def digraph(seed):
    """A directed ring and some random arcs."""
    arcs = np.random.default_rng(seed).integers(0, AGENTS, (5, 2)).tolist()
    return nx.DiGraph([*RING.edges, *((a, b) for a, b in arcs if a != b)])


def parts(seed):
    """Digraphs that are not strongly connected, but whose union is a directed ring."""
    chosen = np.array_split(np.random.default_rng(seed).permutation(AGENTS), 3)
    graphs = [nx.empty_graph(AGENTS, create_using=nx.DiGraph) for _ in chosen]
    for graph, tails in zip(graphs, chosen, strict=True):
        graph.add_edges_from((int(k), (int(k) + 1) % AGENTS) for k in tails)
    return graphs


DIRECTED = {
    "ring": topologies.Static(RING, weights=topologies.push),
    "digraph": topologies.Static(digraph(0), weights=topologies.push),
    "changing": topologies.Periodic([digraph(seed) for seed in range(4)], weights=topologies.push),
    "parts": topologies.Periodic(parts(0), weights=topologies.push),
    "loss": topologies.LinkFailure(topologies.Static(digraph(1), weights=topologies.push), 0.3, seed=2, symmetric=False),
}


@functools.cache
def data(agents=6, samples=60, features=4, seed=0):
    """X, and targets of a noisy linear model; shards of unequal size are made of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((samples, features))
    y = X @ rng.standard_normal(features) + 0.5 * rng.standard_normal(samples)
    return X, y


def problem(loss="squared", regularizer=None, model=None, scheme="sorted", agents=6, reduction="mean"):
    """A problem on that data: ``squared``, ``logistic``, ``huber`` or ``classes``; heterogeneous shards by default."""
    X, y = data()
    losses = {
        "squared": (consensus.SquaredLoss(), y),
        "huber": (consensus.Huber(0.5), y),
        "logistic": (consensus.LogisticLoss(), (y > 0.2).astype(float)),
        "classes": (consensus.CrossEntropy(), np.digitize(y, [-1.0, 1.0])),
    }
    loss, targets = losses[loss]
    extra = {"sizes": [4, 16, 9, 11, 7, 13]} if scheme == "sizes" else {}
    shards = consensus.partition(X, targets, agents, scheme, seed=0, **extra)
    if model is None:
        model = consensus.Linear(4, outputs=3 if isinstance(loss, consensus.CrossEntropy) else 1)
    return consensus.Problem(model, loss, shards, regularizer, reduction)


def smooth_optimum(problem, start=None):
    """The minimiser of a smooth U, strongly convex around it, by SciPy's trust region on its Newton model, to rounding."""

    def total_gradient(point):
        return problem.total_gradient(point) + problem.regularizer.gradient(point)

    def hessian(point):
        steps = np.eye(len(point)) * 1e-6
        return np.array([(total_gradient(point + e) - total_gradient(point - e)) / 2e-6 for e in steps])

    start = np.zeros(problem.parameters) if start is None else start
    point = minimize(problem.objective, start, jac=total_gradient, method="BFGS", options={"gtol": 1e-9}).x
    for _ in range(5):  # Newton's polish
        point = point - np.linalg.solve(hessian(point), total_gradient(point))
    return point


@functools.cache
def nonsmooth_optimum(loss, regularizer):
    """The minimiser (P,) and the least value of U by CVXPY, for ``squared`` and ``logistic``."""
    (X, y), w = data(), cp.Variable(5)
    outputs, d = X @ w[:4] + w[4], y if loss == "squared" else y > 0.2
    costs = cp.square(outputs - d) / 2 if loss == "squared" else cp.logistic(outputs) - cp.multiply(d, outputs)
    cost = cp.sum(costs) / len(y) + regularizer.expression(w)
    tight = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}
    objective = cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL", **tight)
    return w.value, objective
