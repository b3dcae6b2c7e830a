"""Thirty cases for the default, convex and not, of many networks, sizes, units: no constant of a solver was chosen on them."""

from dataclasses import replace
from typing import NamedTuple

import networkx as nx
import numpy as np

import consensus
import topologies
from consensus.problems import has_model


class Case(NamedTuple):
    """Costs of a kind on a network of so many agents, with targets or parameters in units of that size."""

    costs: str
    network: str
    agents: int
    unit: float = 1.0

    def __str__(self):
        return f"{self.costs}, {self.network} of {self.agents}" + (f", unit {self.unit:g}" if self.unit != 1 else "")


CASES = (
    Case("ridge", "star", 9, 1e-6),
    Case("ridge", "path", 16),
    Case("ridge", "ring", 48, 1e6),
    Case("logistic", "expander", 256),
    Case("logistic", "path", 24),
    Case("logistic", "directed", 14),
    Case("huber", "ring", 26),
    Case("huber", "lossy", 11, 1e3),
    Case("lasso", "star", 13),
    Case("lasso", "expander", 32, 1e-3),
    Case("lasso", "ring", 18),
    Case("unlike ridge", "path", 12),
    Case("quadratic", "ring", 64, 1e4),
    Case("quadratic", "directed", 9, 1e-4),
    Case("quadratic", "lossy", 20),
    Case("quadratic", "path", 2, 1e6),
    Case("quartic", "star", 8, 1e2),
    Case("quartic", "ring", 14),
    Case("quartic", "expander", 24, 1e-6),
    Case("distances", "path", 10),
    Case("distances", "lossy", 12),
    Case("robust mean", "directed", 16, 1e5),
    Case("MLP", "star", 7),
    Case("MLP", "path", 9),
    Case("MLP", "ring", 22),
    Case("MLP", "expander", 50),
    Case("MLP", "directed", 10),
    Case("MLP", "lossy", 13),
    Case("MLP of two layers", "ring", 8),
    Case("MLP of two layers", "expander", 16),
)
QUICK = (CASES[15], CASES[0])


def network(name, agents):
    """The schedule of this name; every draw has seed 11."""
    match name:
        case "star" | "path" | "ring":
            return topologies.Static(getattr(topologies, name)(agents))
        case "expander":
            return topologies.Static(topologies.random_regular(agents, 3 if agents < 100 else 6, seed=11))
        case "directed":
            graph = nx.compose(nx.gnp_random_graph(agents, 0.15, seed=11, directed=True), nx.cycle_graph(agents, nx.DiGraph))
            return topologies.Static(graph, weights=topologies.push)
        case "lossy":
            graph = topologies.random_geometric(agents, 0.6, seed=11)
            return topologies.LinkFailure(topologies.Static(graph), 0.4, seed=11)
    raise ValueError(name)


def make(case):
    """The problem, the same in float32 if it has a model, the network and the start."""
    rng = np.random.default_rng([case.agents, len(case.costs)])
    made = _functions if case.costs in ("quadratic", "quartic", "distances", "robust mean") else _model
    problem, start = made(case, rng)
    return problem, in_single(problem), network(case.network, case.agents), start


def in_single(problem):
    """The problem in float32; itself if its costs are functions, which compute in float64."""
    if not has_model(problem):
        return problem
    parts = {name: getattr(problem.shards, name).astype(np.float32) for name in ("features", "targets", "weights")}
    return consensus.Problem(problem.model, problem.loss, replace(problem.shards, **parts), problem.regularizer)


def _model(case, rng):
    features, rows = 8, max(240, 8 * case.agents)
    X = rng.standard_normal((rows, features)) @ (np.eye(features) + 0.3 * rng.standard_normal((features, features)))
    y = X @ rng.standard_normal(features) / 3 + 0.3 * rng.standard_normal(rows)
    loss, r, model = consensus.SquaredLoss(), consensus.L2(1e-3), consensus.Linear(features)
    match case.costs:
        case "logistic":
            loss, y = consensus.LogisticLoss(), (y > 0).astype(float)
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
