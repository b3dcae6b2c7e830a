"""Every kernel, by name, and what the tests of kernels share."""

import numpy as np
import pytest

from consensus import kernels
from consensus.kernels.kernel import Kernel

compiled = pytest.mark.skipif(kernels.level() is None, reason="installed without a compiler, or CONSENSUS_FAST=0")
every_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])
KERNELS = {name: kernel for name, kernel in vars(kernels).items() if isinstance(kernel, Kernel)}
OF_ONE = {"exp", "sigmoid", "softplus", "tanh_slope", "sigmoid_slope", "logistic_curvature"}  # functions of a number
OF_TWO = {"tanh_sum", "sigmoid_sum", "tanh_backward", "sigmoid_backward", "logistic_value", "logistic_slope"}


def bits(*arrays):
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
