"""What the agents learn in the experiments: a data set, shared out, and a network to train on it."""

import functools
import hashlib
import sys
from typing import NamedTuple

import networkx as nx
import numpy as np

import consensus
import topologies
from consensus import datasets
from consensus.checkpoint import fingerprint


class Case(NamedTuple):
    """A problem and the test set (X, y) kept apart from it."""

    problem: consensus.Problem
    test: tuple

    def identity(self, start, network=None, solver=None):
        """What decides the result of a run on this: readable settings, and digests of all arrays."""
        whole = topologies.complete(self.problem.agents) if network is None else network  # stands in where there is none
        found = fingerprint(self.problem, topologies.Static(whole) if isinstance(whole, nx.Graph) else whole, solver, start)
        if network is None:
            found = {name: value for name, value in found.items() if name not in ("network", "mixing matrices", "solver")}
        return {**found, "test data": hashlib.sha256(b"".join(part.tobytes() for part in self.test)).hexdigest()[:16]}


DECAY = consensus.L2(1e-2)


def case(dataset, agents, seed, *, hidden=20, regularizer=DECAY, rows=2000, scheme="iid"):
    """A network with one hidden layer of tanh units to be trained on a data set.

    The loss is squared in regression, logistic with two classes, cross-entropy with more.

    Parameters
    ----------
    dataset : str
        A name that ``datasets.load`` knows.
    agents : int
    seed : int
        Of the rows, of the split into training and test part, and of the shards.
    hidden : int
        Units in the hidden layer.
    regularizer : Regularizer
    rows : int
        How many rows at most, drawn at random from larger sets; a fifth is kept for the test.
    scheme : str
        How the training part is shared out: see ``consensus.partition``.

    Returns
    -------
    Case
    """
    try:
        X, y = _load(dataset)
        if len(X) > rows:
            drawn = np.sort(np.random.default_rng(seed).permutation(len(X))[:rows])
            X, y = X[drawn], y[drawn]
        classes = dataset in datasets.CLASSIFICATION
        data = datasets.split(X, y, seed=seed, classification=classes)
        shards = consensus.partition(data.X, data.y, agents=agents, scheme=scheme, seed=seed)
    except (ValueError, OSError) as error:  # data that are not there, more agents than samples: no need for a traceback
        sys.exit(f"error: {error}")
    outputs = int(y.max()) + 1 if classes else 1
    if not classes:
        loss = consensus.SquaredLoss()
    elif outputs == 2:
        loss, outputs = consensus.LogisticLoss(), 1
    else:
        loss = consensus.CrossEntropy()
    model = consensus.MLP([data.X.shape[1], hidden, outputs], activation="tanh")
    return Case(consensus.Problem(model, loss, shards, regularizer), (data.X_test, data.y_test))


def graph(agents, seed, *, probability=0.3):
    """A connected random graph with each edge there with ``probability``: see ``topologies.erdos_renyi``."""
    try:
        return topologies.erdos_renyi(agents, probability=probability, seed=seed)
    except ValueError as error:  # so many agents that it is never connected
        sys.exit(f"error: {error}")


_load = functools.cache(datasets.load)
