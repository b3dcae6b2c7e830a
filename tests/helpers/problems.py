"""Small problems with known answers, shared by the tests of solvers."""

import functools

import networkx as nx
import numpy as np
from scipy.optimize import minimize

import consensus
import topologies

AGENTS = 6
GRAPH = topologies.erdos_renyi(AGENTS, 0.5, seed=3)
CIRCLE = nx.DiGraph([(k, (k + 1) % AGENTS) for k in range(AGENTS)] + [(0, 3), (5, 2)])  # masses become unequal
PUSH = topologies.Static(CIRCLE, weights=topologies.push)
SCHEDULES = {
    "static": topologies.Static(GRAPH),
    "random": topologies.RandomEdges(GRAPH, 0.5, seed=1),
    "failing": topologies.LinkFailure(topologies.Static(topologies.ring(AGENTS)), 0.3, seed=2),
    "directed": PUSH,
    "directed, failing": topologies.LinkFailure(PUSH, 0.3, seed=2, symmetric=False),
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


def smooth_optimum(problem):
    """The minimiser of a smooth strongly convex U by SciPy's trust region on its Newton model, to rounding."""

    def total_gradient(point):
        return problem.total_gradient(point) + problem.regularizer.gradient(point)

    def hessian(point):
        steps = np.eye(len(point)) * 1e-6
        return np.array([(total_gradient(point + e) - total_gradient(point - e)) / 2e-6 for e in steps])

    start = np.zeros(problem.parameters)
    point = minimize(problem.objective, start, jac=total_gradient, method="BFGS", options={"gtol": 1e-9}).x
    for _ in range(5):  # Newton's polish
        point = point - np.linalg.solve(hessian(point), total_gradient(point))
    return point
