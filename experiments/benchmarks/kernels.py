"""Nanoseconds an element of the kernels: compiled and by NumPy; in cache and out of it; with and without AVX-512."""

import itertools
import math
from functools import partial

import numpy as np
import scipy.sparse as sp

from consensus import kernels
from experiments.shared.timing import Rows, again_without_avx512, median_seconds, options

SIZES = {"in cache": 20_000, "out of it": 4_000_000}  # numbers
COLUMNS = 10  # of logits, for the softmax
SAMPLES, FEATURES = 50, 20  # of an agent, for gradients of linear models
AGENTS = 20  # whose rows are mixed
FACTORS = {"combined": 2, "descended": 3}


def arguments(name, size, dtype):
    """Return arguments to time a kernel on: numbers of either sign, activations for slopes, labels or classes."""
    rng = np.random.default_rng(0)
    x = rng.normal(scale=2, size=size).astype(dtype)
    if name.startswith("linear"):  # a number is a feature of a sample
        x, agents = x.reshape(-1, SAMPLES, FEATURES), size // SAMPLES // FEATURES
        w, c = rng.normal(size=(agents, FEATURES + 1)).astype(dtype), rng.random((agents, SAMPLES)).astype(dtype)
        d = np.zeros_like(c)
        return w, x, d, c, np.array((1, 0, 1), dtype)
    if name in FACTORS:
        rows = rng.normal(size=(FACTORS[name], size)).astype(dtype)
        return *rows, *np.array((0.3, -1.7, 2.9), dtype)[: FACTORS[name], None]
    if name == "mixed":
        matrix = sp.random_array((AGENTS, AGENTS), density=0.2, format="csr", rng=rng, dtype=dtype)
        return x.reshape(AGENTS, -1), matrix.data, *(part.astype(np.intp) for part in (matrix.indices, matrix.indptr))
    if name in ("scaled_rows", "outer"):
        return rng.normal(size=size // COLUMNS**2).astype(dtype), x.reshape(-1, COLUMNS**2)[0 if name == "outer" else ...]
    if name.startswith("upper"):  # of two numbers one is below the diagonal
        order = math.isqrt(size)
        return (np.ones((order, order), dtype),)
    if name == "exp":
        return (-np.abs(x),)
    if name == "softmax_slope":
        return x.reshape(-1, COLUMNS), rng.integers(0, COLUMNS, size // COLUMNS).astype(dtype)
    if name in ("tanh_slope", "sigmoid_slope"):
        return (rng.random(size).astype(dtype),)
    if name.endswith("_backward"):
        return x, rng.random(size).astype(dtype)
    if name.endswith("_sum"):
        return x, rng.normal(size=size).astype(dtype)
    return (x, (x > 0).astype(dtype)) if name in ("logistic_value", "logistic_slope") else (x,)


def result_of(name, given):
    """An array like the kernel's result."""
    if name.startswith("linear") and name.endswith("value"):
        return given[1][:, 0, 0]
    if name == "outer":
        return np.outer(*given)
    return given[1] if name == "scaled_rows" else given[0]


def nanoseconds(function, size):
    calls = max(1, 100_000 // size)

    def several():
        for _ in range(calls):
            function()

    return median_seconds(several, repeats=15) / calls / size * 1e9


def main():
    options(__doc__)
    names = [name for name in kernels.__all__ if hasattr(getattr(kernels, name), "__wrapped__")]
    rows = Rows("ns an element", 20, {"dtype": "", "where": "", "here": ".2f", "NumPy": ".2f"})
    for (where, size), dtype in itertools.product(SIZES.items(), (np.float64, np.float32)):
        setting = np.dtype(dtype).name, where
        rows.add("copy", *setting, nanoseconds(partial(np.copyto, np.empty(size, dtype), np.ones(size, dtype)), size), None)
        for name in names:
            kernel, given = getattr(kernels, name), arguments(name, size, dtype)
            out = given[0] if name.endswith("_sum") else np.ones_like(result_of(name, given))  # as models call them
            rows.add(name, *setting, *(nanoseconds(partial(f, *given, out=out), size) for f in (kernel, kernel.__wrapped__)))
    again_without_avx512("experiments.benchmarks.kernels")


if __name__ == "__main__":
    main()
