"""The share of a round of partial linearization that is spent outside BLAS and LAPACK.

The calls of a round (20 agents x 500 samples, 64-100-1, squared loss, L2) are repeated with the same shapes on warm buffers,
alternating with rounds of NEXT: the share is the difference of the two times. Both the cores' time, which depends less on other
processes, and the clock's are printed.
"""

import threading
import time

import numpy as np
from threadpoolctl import threadpool_limits

import consensus
import topologies
from consensus._arrays.parallel import for_chunks, one_blas_thread
from consensus.engines.stacked import StackedNetwork
from consensus.kernels import blas as _blas
from consensus.solvers import NEXT
from consensus.surrogates import PartialLinearization
from experiments.benchmarks.core import shards

AGENTS, SAMPLES, INPUTS, HIDDEN = 20, 500, 64, 100
REPEATS = 9


class Calls:
    """The calls of BLAS and LAPACK in a round, and nothing else but the loop over agents."""

    def __init__(self, features):
        rng = np.random.default_rng(0)
        self.x, self.local = features, threading.local()
        self.w = rng.standard_normal((AGENTS, INPUTS, HIDDEN))
        self.last = rng.standard_normal((AGENTS, HIDDEN, 1))

    def buffers(self):
        if not hasattr(self.local, "held"):
            hidden, square = np.zeros((SAMPLES, HIDDEN)), np.zeros((SAMPLES, SAMPLES))
            ones, out = np.ones((SAMPLES, 1)), np.zeros((SAMPLES, 1))
            self.local.held = hidden, hidden.copy(), square, square.copy(), ones, out, np.zeros((INPUTS, HIDDEN))
        return self.local.held

    def round(self):
        for_chunks(self.gradients, AGENTS, SAMPLES * (INPUTS + HIDDEN) * 16)
        for_chunks(self.solves, AGENTS, SAMPLES**2 * 16, SAMPLES**3)

    def gradients(self, rows):
        for agent in range(rows.start, rows.stop):
            self.forward(agent)
            self.backward(agent)

    def forward(self, agent):
        hidden, _, _, _, _, out, _ = self.buffers()
        np.matmul(self.x[agent], self.w[agent], out=hidden)
        np.matmul(hidden, self.last[agent], out=out)

    def backward(self, agent):
        hidden, _, _, _, ones, _, w = self.buffers()
        hidden.T @ ones  # the last layer's weights
        np.matmul(self.x[agent].T, hidden, out=w)
        ones.T @ hidden  # the biases

    def solves(self, rows):
        for agent in range(rows.start, rows.stop):
            self.forward(agent)
            hidden, moved, gram, inner, _, out, _ = self.buffers()
            square(hidden, gram, 0)
            square(self.x[agent], inner, 0)
            square(hidden, gram, 1)
            np.einsum("nn->n", gram)[...] += 1
            np.matmul(self.x[agent], self.w[agent], out=moved)  # J u
            np.matmul(moved, self.last[agent], out=out)
            np.matmul(hidden, self.last[agent], out=out)
            assert _blas.cholesky(gram)
            _blas.solve(gram, out[:, 0].copy())
            self.backward(agent)  # J' of that


def square(rows, out, beta):
    """R R', added to ``beta`` times ``out``."""
    n, k = _blas._whole(len(rows)), _blas._whole(rows.shape[1])
    arrays = np.ones(()), rows, np.array(float(beta)), out
    one, rows, beta, out = map(_blas._address, arrays)
    _blas._routine("syrk", arrays[1].dtype)(b"L", b"T", n, k, one, rows, k, beta, out, n)


def seconds_of(function):
    """On all cores together, and on the clock."""
    begin = time.process_time(), time.perf_counter()
    function()
    return time.process_time() - begin[0], time.perf_counter() - begin[1]


def main():
    data = shards(AGENTS, SAMPLES, INPUTS)
    problem = consensus.Problem(consensus.MLP([INPUTS, HIDDEN, 1]), consensus.SquaredLoss(), data, consensus.L2(1e-3))
    network = StackedNetwork(topologies.Static(topologies.random_regular(AGENTS, 4, seed=0)), problem.dtype)
    solver = NEXT(PartialLinearization(1.0), 0.1)
    start = np.tile(problem.model.init(np.random.default_rng(0)), (AGENTS, 1))
    print(
        f"{'threads':>8} {'time of':>8} {'ms a round':>11} {'BLAS, LAPACK':>13} {'outside':>8} {'at least':>9}   to reach: 25%"
    )
    for threads in (1, 2):
        calls, state = Calls(data.features), solver.init(problem, start)
        with threadpool_limits(threads), one_blas_thread:
            solver.step(problem, network, state)
            calls.round()
            rounds, inside = np.array(
                [
                    (seconds_of(lambda s=state: solver.step(problem, network, s)), seconds_of(calls.round))
                    for _ in range(REPEATS)
                ]
            ).swapaxes(0, 1)
        for name, whole, part in zip(("cores", "clock"), rounds.T, inside.T, strict=True):
            ms = 1e3 * np.median(whole), 1e3 * np.median(part)
            outside, least = 1 - np.median(part / whole), 1 - part.min() / whole.min()  # what others do only adds to the least
            print(f"{threads:>8} {name:>8} {ms[0]:>11.1f} {ms[1]:>13.1f} {outside:>8.0%} {least:>9.0%}", flush=True)


if __name__ == "__main__":
    main()
