"""A compressed method, and a packed form of one's own, each in a file of its own: choco.py and signs.py."""

import sys
from pathlib import Path

import choco
import numpy as np
import pytest
import signs
from choco import Choco
from engine_harness import mpiexec
from signs import Signs

import consensus
import topologies
from consensus.compression import Quantised, Sparse
from consensus.engines import MPI, Processes

AGENTS, P, STEP, C = 6, 5, 0.05, 0.2
FORMS = {
    "2 of 5": (lambda rows: Sparse.largest(rows, 2), 2 * 8 + 1),
    "3 bits": (lambda rows: Quantised.nearest(rows, 3), 2 + 8),
    "signs": (Signs.of_rows, 1 + 8),
}
NETWORK = topologies.Static(topologies.erdos_renyi(AGENTS, 0.6, seed=1))


def run(name, rounds, **more):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, P - 1))
    shards = consensus.partition(X, X @ rng.standard_normal(P - 1) + rng.standard_normal(60), AGENTS, "sorted")
    problem = consensus.Problem(consensus.Linear(P - 1), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    return problem, consensus.solve(problem, NETWORK, Choco(STEP, C, FORMS[name][0]), rounds=rounds, record_every=50, **more)


def test_each_is_one_short_file():
    for module in (choco, signs):
        assert len(Path(module.__file__).read_text().splitlines()) < 60


@pytest.mark.parametrize("name", FORMS)
def test_it_ends_where_descent_without_compression_does(name):
    """At rest S = H, so that ``X = W_c (X - a G(X))`` with ``W_c = (1 - c) I + c W``: a linear system here."""
    problem, result = run(name, 1500)
    W = (1 - C) * np.eye(AGENTS) + C * NETWORK.weights(0).toarray()
    zero, units = np.zeros((AGENTS, P)), np.eye(AGENTS * P).reshape(-1, AGENTS, P)
    constant = problem.average_gradient(zero)
    apply = np.array([(unit - W @ (unit - STEP * (problem.average_gradient(unit) - constant))).ravel() for unit in units])
    rest = np.linalg.solve(apply.T, -STEP * (W @ constant).ravel()).reshape(AGENTS, P)
    np.testing.assert_allclose(result.w, rest, rtol=0, atol=1e-9)
    messages = result.history["messages"]
    np.testing.assert_array_equal(result.history["bytes"], FORMS[name][1] * messages)
    np.testing.assert_array_equal(result.history["floats"], (2 if name == "2 of 5" else P) * messages)


def same(engine):
    """Names of the forms for which an engine comes to other bits, or counts, than one process does."""
    differ = []
    for name in FORMS:
        (_, one), (_, other) = run(name, 60), run(name, 60, engine=engine)
        equal = all(np.array_equal(one.history[column], other.history[column]) for column in one.history if column != "seconds")
        differ += [] if equal and np.array_equal(one.w, other.w) else [name]
    return differ


@pytest.mark.slow
def test_workers_and_ranks_come_to_the_same_bits(forked):
    assert same(Processes(2)) == []
    done = mpiexec(2, Path(__file__))
    assert (done.returncode, done.stdout) == (0, "[]\n" * 2), done.stderr


if __name__ == "__main__":
    sys.stdout.write(f"{same(MPI())}\n")
