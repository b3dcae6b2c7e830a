"""Local problems of every loss and regularizer, and their objective from the docstrings of the surrogates."""

from typing import NamedTuple

import cvxpy as cp
import numpy as np

import consensus
from consensus.local import Exact
from consensus.regularizers import L1, L2, Box, ElasticNet, GroupL1, L2Ball, NonNegative
from consensus.surrogates import FullLinearization

SIZES = [1, 12, 5]  # one sample, more numbers than parameters, fewer; the rest of each shard is padding
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
TAU = 0.1
MODELS = {"MLP": lambda outputs: consensus.MLP([3, 4, outputs]), "Linear": lambda outputs: consensus.Linear(3, outputs)}


class LossCase(NamedTuple):
    """A loss, the model's outputs, targets made of noisy outputs z, and the sum over samples in CVXPY."""

    loss: object
    outputs: int
    targets: object
    stated: object


class Case(NamedTuple):
    """A regularizer for P parameters; in CVXPY its expression and constraints; the nearest point of its set."""

    make: object
    expression: object
    constraints: object = lambda w: []
    nearest: object = lambda point: point


LOSSES = {
    "squared": LossCase(consensus.SquaredLoss(), 1, lambda z: z, lambda f, d: cp.sum_squares(f - d) / 2),
    "huber": LossCase(consensus.Huber(0.5), 1, lambda z: z, lambda f, d: cp.sum(cp.huber(f - d, 0.5)) / 2),
    "logistic": LossCase(consensus.LogisticLoss(), 1, lambda z: z > 0, lambda f, d: cp.sum(cp.logistic(f) - cp.multiply(d, f))),
    "classes": LossCase(
        consensus.CrossEntropy(),
        3,
        lambda z: z.argmax(axis=1),
        lambda f, d: cp.sum(cp.log_sum_exp(f, axis=1)) - cp.sum(cp.multiply(np.eye(3)[d[:, 0].astype(int)], f)),
    ),
}


def groups(parameters):
    """Threes of neighbouring coordinates; what is left is in no group."""
    return [[first, first + 1, first + 2] for first in range(0, parameters - 3, 3)]


def norms(w):
    return sum(cp.norm2(w[group]) for group in groups(w.size))


REGULARIZERS = {
    "none": Case(lambda P: None, lambda w: 0),
    "L2": Case(lambda P: L2(0.2), lambda w: 0.1 * cp.sum_squares(w)),
    "L1": Case(lambda P: L1(0.1), lambda w: 0.1 * cp.norm1(w)),
    "strong L1": Case(lambda P: L1(0.35), lambda w: 0.35 * cp.norm1(w)),  # stronger than any linear term
    "ElasticNet": Case(lambda P: ElasticNet(0.08, 0.1), lambda w: 0.08 * cp.norm1(w) + 0.05 * cp.sum_squares(w)),
    "GroupL1": Case(lambda P: GroupL1(0.12, groups(P), P), lambda w: 0.12 * np.sqrt(3) * norms(w)),
    "Box": Case(
        lambda P: Box(-0.3, np.linspace(0.1, 0.5, P)),
        lambda w: 0,
        lambda w: [w >= -0.3, w <= np.linspace(0.1, 0.5, w.size)],
        lambda point: np.clip(point, -0.3, np.linspace(0.1, 0.5, point.size)),
    ),
    "NonNegative": Case(lambda P: NonNegative(), lambda w: 0, lambda w: [w >= 0], lambda point: np.maximum(point, 0)),
    "L2Ball": Case(
        lambda P: L2Ball(0.7),
        lambda w: 0,
        lambda w: [cp.norm2(w) <= 0.7],
        lambda point: point * min(1, 0.7 / np.linalg.norm(point)),
    ),
}


def local_problem(loss, regularizer, model="MLP", sizes=SIZES, scale=1.0, seed=0, dtype=float):
    """A problem of that loss; ``regularizer`` and ``model`` by name or themselves; features times ``scale``."""
    case = LOSSES[loss]
    model = MODELS[model](case.outputs) if isinstance(model, str) else model
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((sum(sizes), model.features))
    targets = case.targets(X @ rng.standard_normal((model.features, model.outputs)) + 0.5 * rng.standard_normal((len(X), 1)))
    if isinstance(regularizer, str):
        regularizer = REGULARIZERS[regularizer].make(model.parameters)
    shards = consensus.partition((X * scale).astype(dtype), targets, len(sizes), "sizes", sizes=sizes)
    return consensus.Problem(model, case.loss, shards, regularizer)


def centre(problem, seed=1):
    """w_i, grad g_i(w_i) and the linear terms pi_i; all (agents, P). The w_i lie in no set of a constraint."""
    rng = np.random.default_rng(seed)
    w = 0.7 * rng.standard_normal((problem.agents, problem.parameters))
    return w, problem.gradient(w), 0.1 * rng.standard_normal(w.shape)


def minimisers(problem, surrogate, local=None, **options):
    """The local solution at :func:`centre`."""
    w, gradient, pi = centre(problem)
    local = local or Exact()
    local.check(surrogate, problem)
    return local.solve(surrogate.at(problem, w, gradient), pi, problem.regularizer, **options)


def own(problem, w, agent):
    """J, f, d of the agent's own samples, without padding, and c."""
    size = problem.shards.sizes[agent]
    x, d = problem.shards.features[agent, :size], problem.shards.targets[agent, :size]
    return problem.model.jacobian(w[agent][None], x[None])[0], problem.model.predict(w[agent], x), d, 1 / problem.shards.samples


def objective(problem, surrogate, agent, points):
    """``g~_i(w; w_i) + pi_i . (w - w_i) + r(w)`` at each of ``points`` (many, P), from the docstrings of the surrogates."""
    w, _, pi = centre(problem)
    J, f, d, c = own(problem, w, agent)
    v = points - w[agent]
    slope = c * problem.loss.gradient(f, d).ravel() @ J
    if isinstance(surrogate, FullLinearization):
        smooth = v @ slope
    else:
        s = problem.agents if surrogate.curvature == "network" else 1
        moved = f + (v @ J.T).reshape(-1, *f.shape)
        smooth = s * c * problem.loss.value(moved, np.broadcast_to(d, (len(v), *d.shape))).sum(axis=1) - (s - 1) * (v @ slope)
    return smooth + surrogate.tau / 2 * np.square(v).sum(axis=1) + v @ pi[agent] + problem.regularizer.value(points)
