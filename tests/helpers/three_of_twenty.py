"""Three Byzantine agents of twenty, on least squares."""

import functools

import numpy as np

import consensus
import topologies
from consensus.robust import flip_labels

THREE = (2, 11, 17)


OTHERS = np.setdiff1d(np.arange(20), THREE)


@functools.cache
def case(flipped=False, scheme="iid"):
    """Least squares on a random graph: the problem, the network, and the weight of three Byzantine agents."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 10))
    y = X @ rng.standard_normal(10) + rng.standard_normal(600)
    shards = consensus.partition(X, y, agents=20, scheme=scheme)
    shards = flip_labels(shards, THREE) if flipped else shards
    problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    graph = topologies.erdos_renyi(20, 0.7, seed=0)
    return problem, topologies.Static(graph, weights=topologies.max_degree), 3 / (1 + max(dict(graph.degree).values()))


def honest_optimum(scheme="iid"):
    """The minimum of the honest agents' own objective, by the normal equations on their data; and that objective."""
    shards = case(scheme=scheme)[0].shards.restrict(OTHERS)
    real = shards.weights > 0
    X, y = np.pad(shards.features[real], ((0, 0), (0, 1)), constant_values=1), shards.targets[real][:, 0]

    def objective(w):
        return np.mean((X @ w - y) ** 2) / 2 + 0.005 * w @ w

    return objective(np.linalg.solve(X.T @ X / len(X) + 0.01 * np.eye(11), X.T @ y / len(X))), objective
