"""Learning tasks of the experiments: a data set, distributed over agents, and a network to train on it."""

import functools
import sys
from typing import NamedTuple

import numpy as np

import consensus
import topologies
from consensus import datasets
from consensus.cli.setting import loss_for


class Case(NamedTuple):
    """A problem and the test set (X, y) kept apart from it."""

    problem: consensus.Problem
    test: tuple


HIDDEN, DECAY, ROWS = 20, consensus.L2(1e-2), 10_000  # units; weight decay; rows taken of larger sets
PROBABILITY = 0.3  # of an edge


def case(dataset, agents, seed, *, hidden=HIDDEN, activation="tanh", regularizer=DECAY, rows=ROWS, scheme="iid"):
    """A network with so many ``hidden`` units, a number or one for each layer, or a linear model if 0, for a data set.

    The loss is squared in regression, logistic with two classes, cross-entropy with more. ``dataset`` is a name that
    ``datasets.load`` knows. At most ``rows`` rows are drawn at random, and a fifth is kept for the test; ``scheme`` is that of
    ``consensus.partition``, ``seed`` that of rows, split and shards.
    """
    try:
        data = load(dataset)
        X, y = data
        if len(X) > rows:
            drawn = np.sort(np.random.default_rng(seed).permutation(len(X))[:rows])
            X, y = X[drawn], y[drawn]
        parts = datasets.split(X, y, seed=seed, classification=data.classification)
        shards = consensus.partition(parts.X, parts.y, agents=agents, scheme=scheme, seed=seed)
    except (ValueError, OSError) as error:  # data that are not there, more agents than samples: no need for a traceback
        sys.exit(f"error: {error}")
    loss, outputs = loss_for(data)
    layers = np.atleast_1d(hidden).tolist()
    model = consensus.MLP([X.shape[1], *layers, outputs], activation) if hidden else consensus.Linear(X.shape[1], outputs)
    return Case(consensus.Problem(model, loss, shards, regularizer), (parts.X_test, parts.y_test))


def graph(agents, seed, *, probability=PROBABILITY):
    """A connected random graph with each edge there with ``probability``: see ``topologies.erdos_renyi``."""
    try:
        return topologies.erdos_renyi(agents, probability=probability, seed=seed)
    except ValueError as error:  # so many agents that it is never connected
        sys.exit(f"error: {error}")


def neighbours(agents, seed=0):
    """A random graph where everybody has four neighbours, or all others of few."""
    return topologies.random_regular(agents, min(4, agents - 1), seed=seed)


@functools.cache
def load(name):
    """As ``datasets.load``, once."""
    return datasets.load(name)
