"""Every kernel, by name, and what the tests of kernels share."""

import numpy as np
import pytest
import scipy.sparse as sp

from consensus import kernels
from consensus.kernels.kernel import Kernel

compiled = pytest.mark.skipif(kernels.level() is None, reason="installed without a compiler, or CONSENSUS_FAST=0")
every_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])
KERNELS = {name: kernel for name, kernel in vars(kernels).items() if isinstance(kernel, Kernel)}
OF_ONE = {"exp", "sigmoid", "softplus", "tanh_slope", "sigmoid_slope", "logistic_curvature"}  # functions of a number
OF_TWO = {"tanh_sum", "sigmoid_sum", "tanh_backward", "sigmoid_backward", "logistic_value", "logistic_slope"}


def bits(*arrays):
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def arguments(name, dtype):
    """Arrays of odd lengths for a kernel, and an array like its result."""
    rng = np.random.default_rng(0)
    x, y, z = rng.standard_normal((3, 1003)).astype(dtype) * 3
    if name in OF_ONE | OF_TWO:
        return [-abs(x), (y > 0).astype(dtype)][: 1 + (name in OF_TWO)], np.empty_like(x)
    if name.startswith("linear"):
        drawn = [rng.standard_normal(shape).astype(dtype) for shape in ((5, 30), (5, 71, 29), (5, 71), (5, 71))]
        return [*drawn, np.array([2, 0.3, 0.7], dtype)], np.empty(5 if name.endswith("value") else (5, 30), dtype)
    if name == "mixed":
        matrix = sp.random_array((7, 7), density=0.5, format="csr", rng=rng, dtype=dtype)
        places = [part.astype(np.intp) for part in (matrix.indices, matrix.indptr)]
        return [x[:1001].reshape(7, 143), matrix.data, *places], np.empty((7, 143), dtype)
    wide, short, triangle = x.reshape(17, 59), y[:17], x[:961].reshape(31, 31)
    factors = np.array([0.3, -1.7, 2.9], dtype)[:, None]
    return {
        "softmax_slope": ([x[:1001].reshape(77, 13), np.arange(77, dtype=dtype) % 15 - 1], np.empty((77, 13), dtype)),
        "upper_added": ([triangle], y[:961].reshape(31, 31)),
        "upper_multiplied": ([triangle], y[:961].reshape(31, 31)),
        "scaled_rows": ([short, wide], np.empty_like(wide)),
        "outer": ([short, wide[0]], np.empty_like(wide)),
        "combined": ([x, y, *factors[:2]], np.empty_like(x)),
        "descended": ([x, y, z, *factors], np.empty_like(x)),
    }[name]
