"""The share of a round of partial linearization that is spent outside BLAS and LAPACK.

The calls of a round (20 agents x 500 samples, 64-100-1, squared loss, L2) are repeated with the same shapes on warm buffers,
alternating with rounds of NEXT: the share is the difference of the two times. Both the cores' time, which depends less on other
processes, and the clock's are printed.
"""

import threading
import time

import numpy as np
from threadpoolctl import threadpool_limits

import topologies
from consensus._arrays.parallel import for_chunks, one_blas_thread
from consensus.engines.stacked import StackedNetwork
from consensus.kernels import blas as _blas
from consensus.solvers import NEXT
from consensus.surrogates import PartialLinearization
from experiments.benchmarks.core import layered
from experiments.shared.timing import Rows, options

AGENTS, SAMPLES, INPUTS, HIDDEN = 20, 500, 64, 100
REPEATS = 9


class Calls(threading.local):
    """The calls of BLAS and LAPACK in a round, and nothing else but the loop over agents; threads have buffers of their own."""

    def __init__(self, features):
        draw = np.random.default_rng(0).standard_normal
        self.x, self.w, self.last = features, draw((AGENTS, INPUTS, HIDDEN)), draw((AGENTS, HIDDEN, 1))
        self.hidden, self.moved = np.zeros((2, SAMPLES, HIDDEN))
        self.gram, self.inner = np.zeros((2, SAMPLES, SAMPLES))
        self.ones, self.out, self.slopes = np.ones((SAMPLES, 1)), np.zeros((SAMPLES, 1)), np.zeros((INPUTS, HIDDEN))

    def round(self):
        for_chunks(each(self.gradient), AGENTS, SAMPLES * (INPUTS + HIDDEN) * 16)
        for_chunks(each(self.solve), AGENTS, SAMPLES**2 * 16, SAMPLES**3)

    def gradient(self, agent):
        self.forward(agent)
        self.backward(agent)

    def forward(self, agent):
        np.matmul(self.x[agent], self.w[agent], out=self.hidden)
        np.matmul(self.hidden, self.last[agent], out=self.out)

    def backward(self, agent):
        self.hidden.T @ self.ones  # the last layer's weights
        np.matmul(self.x[agent].T, self.hidden, out=self.slopes)
        self.ones.T @ self.hidden  # the biases

    def solve(self, agent):
        self.forward(agent)
        square(self.hidden, self.gram, 0)
        square(self.x[agent], self.inner, 0)
        square(self.hidden, self.gram, 1)
        np.einsum("nn->n", self.gram)[...] += 1
        np.matmul(self.x[agent], self.w[agent], out=self.moved)  # J u
        np.matmul(self.moved, self.last[agent], out=self.out)
        np.matmul(self.hidden, self.last[agent], out=self.out)
        assert _blas.cholesky(self.gram)
        _blas.solve(self.gram, self.out[:, 0].copy())
        self.backward(agent)  # J' of that


def each(call):
    return lambda rows: [call(agent) for agent in range(rows.start, rows.stop)]


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
    options(__doc__)
    problem = layered(AGENTS, SAMPLES, INPUTS, HIDDEN, 1)
    network = StackedNetwork(topologies.Static(topologies.random_regular(AGENTS, 4, seed=0)), problem.dtype)
    solver = NEXT(PartialLinearization(1.0), 0.1)
    state = solver.init(problem, np.tile(problem.model.init(np.random.default_rng(0)), (AGENTS, 1)))
    columns = {"time of": "", "ms a round": ".1f", "BLAS, LAPACK": ".1f", "outside": ".0%", "at least": ".0%", "to reach": ""}
    rows = Rows("threads", 8, columns)
    for threads in (1, 2):
        calls = Calls(problem.shards.features)
        ways = (lambda: solver.step(problem, network, state), calls.round)
        with threadpool_limits(threads), one_blas_thread:
            for way in ways:
                way()
            times = np.array([[seconds_of(way) for way in ways] for _ in range(REPEATS)])
        for name, (whole, part) in zip(("cores", "clock"), times.transpose(2, 1, 0), strict=True):
            ms = 1e3 * np.median(whole), 1e3 * np.median(part)
            outside, least = 1 - np.median(part / whole), 1 - part.min() / whole.min()  # what others do only adds to the least
            rows.add(threads, name, *ms, outside, least, "25%")


if __name__ == "__main__":
    main()
