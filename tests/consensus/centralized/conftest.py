"""A problem for all systems, whose agents hold unlike data of unlike amounts, and the worker processes that a test starts."""

import itertools
import multiprocessing
import os

import numpy as np
import pytest

import consensus
from consensus.servers import pool


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    y = np.tanh(x @ rng.standard_normal(3)) + 0.1 * rng.standard_normal(60)
    shards = consensus.partition(x, y, agents=6, scheme="sizes", sizes=[20, 10, 10, 8, 8, 4], seed=0)
    return consensus.Problem(consensus.MLP([3, 4, 1]), consensus.SquaredLoss(), shards, consensus.L2(0.01))


@pytest.fixture(scope="module")
def start(problem):
    return problem.model.init(np.random.default_rng(1))


@pytest.fixture(scope="module")
def slope(problem):
    """The gradient of U, a function of one point (P,)."""
    return lambda w: problem.total_gradient(w) + problem.regularizer.gradient(w[None])[0]


@pytest.fixture
def pids(monkeypatch):
    """The process ids of each pool that the test starts; afterwards none of them is left."""
    found, begin = [], pool.Pool.__init__

    def noted(self, *arguments):
        begin(self, *arguments)
        found.append(self.pids)

    monkeypatch.setattr(pool.Pool, "__init__", noted)
    yield found
    for pid in itertools.chain(*found):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert multiprocessing.active_children() == []
