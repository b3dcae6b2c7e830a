"""A compressed method, and a packed form of its own, written from the documentation of Solver and Packed alone."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import MPI, Processes
from consensus.packing import Quantised, Sparse
from consensus.solvers import Needs, Solver


@dataclass(frozen=True, eq=False)
class Signs:
    """Signs of P numbers, a bit each, times the row's mean modulus."""

    bits: np.ndarray
    scale: np.ndarray
    columns: int

    @classmethod
    def of_rows(cls, rows):
        return cls(np.packbits(rows >= 0, axis=1), np.abs(rows).mean(axis=1, keepdims=True), rows.shape[1])

    arrays = property(lambda self: (self.bits, self.scale))
    numbers = property(lambda self: np.full(len(self.bits), self.columns))
    bytes = property(lambda self: np.full(len(self.bits), self.bits.shape[1] + self.scale.itemsize))

    def of(self, bits, scale):
        return replace(self, bits=bits, scale=scale)

    def unpack(self):
        return np.where(np.unpackbits(self.bits, axis=1, count=self.columns), self.scale, -self.scale)


class ChocoState(NamedTuple):
    """Iterates, what the neighbours know of them, and its average among them; all (agents, P)."""

    round: int
    w: np.ndarray
    known: np.ndarray
    mixed: np.ndarray


@dataclass(frozen=True)
class Choco(Solver):
    """CHOCO-SGD on a static W: ``H = X - a G(X)``, ``S+ = S + Q(H - S)``, ``X+ = H + c (W - I) S+``; ``S = 0`` at first.

    Koloskova, Stich, Jaggi, "Decentralized stochastic optimization and gossip algorithms with compressed communication", ICML
    2019, Algorithm 2.
    """

    alpha: float
    c: float
    compress: object

    needs = Needs(regularizer="smooth", static=True)

    def init(self, problem, w):
        return ChocoState(0, w, np.zeros_like(w), np.zeros_like(w))

    def step(self, problem, network, state):
        n, w, known, mixed = state
        half = w - self.alpha * problem.average_gradient(w)
        news = self.compress(half - known)
        (theirs,) = network.mix(n, news)
        known, mixed = known + news.unpack(), mixed + theirs
        return ChocoState(n + 1, half + self.c * (mixed - known), known, mixed)


# What it should do


AGENTS, P, STEP, C = 6, 5, 0.05, 0.2
FORMS = {
    "2 of 5": (lambda rows: Sparse.largest(rows, 2), 2 * (8 + 4)),
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


def test_workers_and_ranks_come_to_the_same_bits():
    from engine_harness import mpiexec

    assert same(Processes(2)) == []
    done = mpiexec(2, Path(__file__))
    assert (done.returncode, done.stdout) == (0, "[]\n" * 2), done.stderr


if __name__ == "__main__":
    sys.stdout.write(f"{same(MPI())}\n")
