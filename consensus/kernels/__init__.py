"""Loops over numbers in compiled C (``_kernels.c``), and the NumPy functions that replace them: private to the package.

Arrays may have any layout, alignment and byte order, and a result may lie over an argument. Sizes that do not fit and results
that cannot be written raise ``ValueError``, dtypes that do not fit ``TypeError``, before anything is written.

Compiled kernels take float64 or float32. The NumPy function of the same name is used for other dtypes, with
``CONSENSUS_FAST=0`` in the environment, and if the package was installed without a C compiler. The extension module has
versions for AVX-512, AVX2 and other processors; one is chosen at import, and ``NPY_DISABLE_CPU_FEATURES`` rules some out, as
in NumPy.

Compiled kernels give the same bits in all versions, for every position of an element and every partition into chunks. Functions
of a number (or a sum, or a label and a number) have errors of at most 4 units in the last place, also in tails, at infinities
and for subnormal numbers; NaN stays NaN.
"""

from consensus.kernels.functions import (
    combined,
    descended,
    exp,
    linear_huber,
    linear_huber_value,
    linear_logistic,
    linear_logistic_value,
    logistic_curvature,
    logistic_slope,
    logistic_value,
    mixed,
    outer,
    scaled_rows,
    sigmoid,
    sigmoid_backward,
    sigmoid_slope,
    sigmoid_sum,
    softmax_slope,
    softplus,
    tanh_backward,
    tanh_slope,
    tanh_sum,
    upper_added,
    upper_multiplied,
)
from consensus.kernels.fused import FusedSums
from consensus.kernels.kernel import Kernel, level

__all__ = [
    "FusedSums",
    "Kernel",
    "combined",
    "descended",
    "exp",
    "level",
    "linear_huber",
    "linear_huber_value",
    "linear_logistic",
    "linear_logistic_value",
    "logistic_curvature",
    "logistic_slope",
    "logistic_value",
    "mixed",
    "outer",
    "scaled_rows",
    "sigmoid",
    "sigmoid_backward",
    "sigmoid_slope",
    "sigmoid_sum",
    "softmax_slope",
    "softplus",
    "tanh_backward",
    "tanh_slope",
    "tanh_sum",
    "upper_added",
    "upper_multiplied",
]
