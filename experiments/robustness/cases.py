"""The cases of the robustness experiment: data sets x topologies x agents x shards x seeds."""

import functools
import itertools
import os

import numpy as np

import consensus
import topologies
from experiments.shared.cases import load, loss_for
from experiments.shared.centralised import lowest

DATASETS = ("diabetes", "breast_cancer", "boston", "kin8nm", "wine")
TOPOLOGIES = ("ring", "erdos_renyi", "random_geometric", "complete", "random_half")
ROWS, HIDDEN, WEIGHT = 2000, 20, 1e-3
RADIUS = {10: 0.45, 30: 0.3}


def panels(agents, seeds):
    """All cases, those on which the other solvers' settings are chosen, and the ones of digits.

    The settings are chosen on one case of every data set on every topology, their sizes and shards by turns.
    """
    panel = list(itertools.product(DATASETS, TOPOLOGIES, agents, ("iid", "sorted"), seeds))
    turns = itertools.cycle(itertools.product(("iid", "sorted"), (10, 30)))
    pairs = zip(itertools.product(DATASETS, TOPOLOGIES), turns, strict=False)
    tuning = [(data, topology, size, scheme, 0) for (data, topology), (scheme, size) in pairs]
    return panel, tuning, list(itertools.product(("digits",), ("ring", "erdos_renyi"), (10,), ("iid", "sorted"), (0,)))


def quick():
    """A few small cases of each."""
    few = list(itertools.product(("diabetes",), ("ring", "random_half"), (10,), ("sorted",), (0,)))
    return few, few[:1], few[:1]


def one_thread():
    """Runs are spread over processes: one thread each."""
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)


def make(case):
    """The problem, the network and the start of a case."""
    name, topology, agents, scheme, seed = case
    problem = _problem(name, agents, scheme, seed)
    return problem, _network(topology, agents, seed), problem.model.init(np.random.default_rng(seed))


@functools.cache
def _data(name):
    """At most ROWS samples, features and regression targets standardised; the loss for them, and a model's outputs."""
    from sklearn.preprocessing import scale

    data = load(name)
    X, y = data
    if len(y) > ROWS:
        rows = np.random.default_rng(0).permutation(len(y))[:ROWS]
        X, y = X[rows], y[rows]
    return scale(X), y if data.classification else scale(y), *loss_for(data)


def _problem(name, agents, scheme, seed):
    X, y, loss, outputs = _data(name)
    shards = consensus.partition(X, y, agents, scheme, seed=seed)
    return consensus.Problem(consensus.MLP([X.shape[1], HIDDEN, outputs]), loss, shards, consensus.L2(WEIGHT))


def _network(topology, agents, seed):
    if topology in ("ring", "complete"):
        return topologies.Static(getattr(topologies, topology)(agents))
    if topology == "random_geometric":
        return topologies.Static(topologies.random_geometric(agents, RADIUS[agents], seed=seed))
    graph = topologies.erdos_renyi(agents, 0.25, seed=seed)
    return topologies.Static(graph) if topology == "erdos_renyi" else topologies.RandomEdges(graph, 0.5, seed=seed)


def optimum(case):
    """The objective that L-BFGS ends at, from the case's start, with all data in one place."""
    return _optimum(case[0], case[4])


@functools.cache
def _optimum(name, seed):
    problem = _problem(name, 1, "iid", 0)
    start = problem.model.init(np.random.default_rng(seed))
    return lowest(problem, start, maxiter=20000, maxfun=40000, gtol=1e-7, ftol=1e-13, maxcor=30)
