"""What the benchmarks share: medians, the machine's own rates, a check of memory."""

import time
import tracemalloc

import numpy as np


def median_seconds(function, repeats=11):
    """Median wall time of ``function()`` over ``repeats`` calls, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def dgemm_rate(size=1500, dtype=np.float64):
    """This machine's matrix product, all cores, in floating-point operations a second."""
    a = np.random.default_rng(0).standard_normal((size, size)).astype(dtype)
    return 2 * size**3 / median_seconds(lambda: a @ a)


def peak_bytes(function):
    """The most memory that NumPy and Python held at once during ``function()``, above what they held before."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
