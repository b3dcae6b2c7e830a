"""Strongly convex quadratics whose Hessians and optimum are written down, for networks of any size."""

import functools

import numpy as np

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from tests.reference.least_squares import Costs

NETWORKS = {
    "ring of 8": topologies.Static(topologies.ring(8)),
    "geometric of 8": topologies.Static(topologies.random_geometric(8, 0.5, seed=1)),
    "ring of 30": topologies.Static(topologies.ring(30)),
    "geometric of 30": topologies.Static(topologies.random_geometric(30, 0.35, seed=1)),
}
WEIGHT = 0.2  # of the L2 regularizer


@functools.cache
def quadratic(agents, parameters=3, samples=12):
    """Least squares with L2 on shards that differ; a problem with a model."""
    rng = np.random.default_rng(agents)
    X = rng.standard_normal((agents * samples, parameters - 1))
    y = (
        X @ rng.standard_normal(parameters - 1)
        + 1
        + rng.standard_normal(len(X))
        + np.repeat(rng.standard_normal(agents), samples)
    )
    shards = consensus.partition(X, y, agents, "sizes", sizes=[samples] * agents)
    return consensus.Problem(consensus.Linear(parameters - 1), consensus.SquaredLoss(), shards, consensus.L2(WEIGHT))


def costs(problem):
    """The same costs in plain NumPy."""
    return Costs(problem.shards.features, problem.shards.targets, problem.weights, WEIGHT)


def hessians(problem):
    """Of the f_i = A g_i + r (agents, P, P), and their gradients at zero (agents, P), from the data themselves."""
    own = costs(problem)
    return own.hessians(), own.gradient(np.zeros((problem.agents, problem.parameters)))


def optimum(problem):
    H, b = hessians(problem)
    return -np.linalg.solve(H.mean(axis=0), b.mean(axis=0))


def dense(network):
    return network.weights(network.key(0)).toarray()


def times(matrices, x):
    """``M_i x_i`` for every agent."""
    return (matrices @ x[:, :, None])[:, :, 0]


def linear_part(step, *shapes):
    """The matrix of an affine map ``step(*arrays) -> arrays`` of arrays of these shapes."""
    sizes = [int(np.prod(shape)) for shape in shapes]

    def flat(vector):
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return np.concatenate([array.ravel() for array in step(*(p.reshape(s) for p, s in zip(parts, shapes, strict=True)))])

    origin = flat(np.zeros(sum(sizes)))
    return np.column_stack([flat(row) - origin for row in np.eye(sum(sizes))])


def iteration_matrix(solver, problem, network):
    """That of the affine map from a state's arrays to those of the next one, in the order of its fields."""
    exchange = StackedNetwork(network, problem.dtype)
    first = solver.init(problem, np.zeros((problem.agents, problem.parameters)))
    names = [name for name in first._fields if isinstance(getattr(first, name), np.ndarray)]

    def after(*arrays):
        state = solver.step(problem, exchange, first._replace(**{name: a.copy() for name, a in zip(names, arrays)}))
        return [getattr(state, name) for name in names]

    return linear_part(after, *(getattr(first, name).shape for name in names))


def rate(matrix):
    """The largest modulus of an eigenvalue below one: those at one belong to what the method never changes."""
    moduli = np.abs(np.linalg.eigvals(matrix))
    assert moduli.max() < 1 + 1e-9
    return moduli[moduli < 1 - 1e-7].max()


def fitted(errors):
    """The factor a round, from the straight part of the logarithm: between 1e-4 and 1e-12 of the first error."""
    errors = np.asarray(errors) / errors[0]
    part = np.flatnonzero((errors < 1e-4) & (errors > 1e-12))
    return np.exp(np.polyfit(part, np.log(errors[part]), 1)[0])
