"""A user's compressor whose messages have a form of their own, in signs.py."""

import sys
from pathlib import Path

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import MPI, Processes
from consensus.solvers import ChocoSGD
from tests.extensions.signs import Sign
from tests.helpers.engine_harness import assert_same, mpiexec
from tests.helpers.problems import GRAPH, problem
from tests.helpers.stochastic import rest_of_descent

P, NETWORK = problem("squared", consensus.L2(0.1)), topologies.Static(GRAPH)
STEP, GAMMA = 0.05, 0.2


def run(rounds, **more):
    return consensus.solve(P, NETWORK, ChocoSGD(Sign(), STEP, GAMMA), rounds=rounds, record_every=50, **more)


def test_it_ends_where_descent_without_compression_does():
    """At rest S = Z, so that ``X = W_c (X - alpha G(X))`` with ``W_c = (1 - gamma) I + gamma W``."""
    result, W = run(1500), (1 - GAMMA) * np.eye(6) + GAMMA * NETWORK.weights(0).toarray()
    np.testing.assert_allclose(result.w, rest_of_descent(P, W, STEP), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(result.history["bytes"], (1 + 8) * result.history["messages"])
    np.testing.assert_array_equal(result.history["floats"], 5 * result.history["messages"])


@pytest.mark.slow
def test_workers_and_ranks_come_to_the_same_bits(forked):
    assert_same(run(60, engine=Processes(2)), run(60))
    done = mpiexec(2, Path(__file__))
    assert (done.returncode, done.stdout) == (0, "same\n" * 2), done.stderr


if __name__ == "__main__":
    assert_same(run(60, engine=MPI()), run(60))
    sys.stdout.write("same\n")
