"""Loops over numbers in compiled C (``_kernels.c``), and the NumPy functions that replace them.

Compiled kernels take float64 or float32. The NumPy function below is used for other dtypes, with ``CONSENSUS_FAST=0`` in the
environment, and if the package was installed without a C compiler. The extension module has versions for AVX-512, AVX2 and
other processors; one is chosen at import, and ``NPY_DISABLE_CPU_FEATURES`` rules some out, as in NumPy.

Compiled kernels give the same bits in all versions, for every position of an element and every partition into chunks. Functions
of a number (or a sum, or a label and a number) have errors of at most 4 units in the last place, also in tails, at infinities
and for subnormal numbers; NaN stays NaN.
"""

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from consensus._blas import blocks
from consensus.kernels.fused import FusedSums
from consensus.kernels.kernel import Array, Kernel, level

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


@Kernel
def tanh_sum(a: Array, b: Array, out: Array | None) -> Array:
    """tanh(a + b)."""
    total = np.add(a, b, out)
    return np.asarray(np.tanh(total, out=total))


@Kernel
def tanh_slope(h: Array, out: Array | None) -> Array:
    """Slope of tanh at the point where its value is h, 1 - h^2."""
    slope = np.square(h, out)
    return np.asarray(np.subtract(1, slope, out=slope))


@Kernel
def tanh_backward(u: Array, h: Array, out: Array | None) -> Array:
    """Backward pass of tanh, u (1 - h^2): the cotangent of its argument, given that of its value h."""
    return np.asarray(np.multiply(u, tanh_slope.__wrapped__(h, None), out))


@Kernel
def sigmoid_sum(a: Array, b: Array, out: Array | None) -> Array:
    """1 / (1 + exp(-a - b))."""
    total = np.add(a, b, out)
    return np.asarray(expit(total, out=total))


@Kernel
def sigmoid_slope(h: Array, out: Array | None) -> Array:
    """Slope of the sigmoid at the point where its value is h, h (1 - h)."""
    return np.asarray(np.multiply(h, 1 - h, out))


@Kernel
def sigmoid_backward(u: Array, h: Array, out: Array | None) -> Array:
    """Backward pass of the sigmoid, u h (1 - h)."""
    return np.asarray(np.multiply(u, sigmoid_slope.__wrapped__(h, None), out))


@Kernel
def sigmoid(a: Array, out: Array | None) -> Array:
    """1 / (1 + exp(-a)), the derivative of softplus."""
    return np.asarray(expit(a, out))


@Kernel
def softplus(a: Array, out: Array | None) -> Array:
    """log(1 + exp(a))."""
    return np.asarray(np.logaddexp(0, a, out))


@Kernel
def exp(a: Array, out: Array | None) -> Array:
    """exp(a) for a <= 0 or NaN."""
    return np.asarray(np.exp(a, out))


@Kernel
def logistic_value(f: Array, d: Array, out: Array | None) -> Array:
    """Logistic loss, log(1 + exp(f)) - d f for d in [0, 1], without cancellation at large f."""
    return np.asarray(np.logaddexp(-d * f, (1 - d) * f, out))


@Kernel
def logistic_slope(f: Array, d: Array, out: Array | None) -> Array:
    """Slope of the logistic loss in f, 1 / (1 + exp(-f)) - d."""
    slope = expit(f, out)
    return np.asarray(np.subtract(slope, d, out=slope))


@Kernel
def logistic_curvature(f: Array, out: Array | None) -> Array:
    """Second derivative of the logistic loss, exp(f) / (1 + exp(f))^2."""
    return np.asarray(np.multiply(expit(f), expit(-f), out))


@Kernel
def softmax_slope(f: Array, d: Array, out: Array | None) -> Array:
    """Slope of the cross-entropy: softmax(f) of each row, minus one at its class d unless that is -1. Contiguous ``out``."""
    # Transposed for the maximum: NumPy reduces long rows of samples many times faster than short rows of classes.
    p = np.subtract(f, np.ascontiguousarray(f.swapaxes(-1, -2)).max(axis=-2)[..., None], out)
    np.exp(p, out=p)
    p /= p @ np.ones((p.shape[-1], 1), p.dtype)
    p -= d[..., None] == np.arange(p.shape[-1])  # by comparison, without a gather
    return np.asarray(p)


# Gradients and values of a linear model with one output. A gradient is the sum over samples of the slope of the loss times the
# weight and the features of the sample, times a scale, plus ridge times the parameters; a value is the weighted sum of the
# losses. The parameters w have shape (agents, P), the features x (agents, samples, m), the targets d and weights c (agents,
# samples), all of them contiguous; P is m, or m + 1 with a bias. Settings are the scale, the ridge and the largest slope of
# the Huber loss.


@Kernel
def linear_logistic(w: Array, x: Array, d: Array, c: Array, settings: Array, out: Array | None) -> Array:
    """Gradients with the logistic loss."""
    return _gradients(w, x, logistic_slope(_outputs(w, x), d), c, settings, out)


@Kernel
def linear_huber(w: Array, x: Array, d: Array, c: Array, settings: Array, out: Array | None) -> Array:
    """Gradients with the Huber loss, linear where its slope reaches the limit; the squared loss if that is infinite."""
    return _gradients(w, x, np.clip(_outputs(w, x) - d, -settings[2], settings[2]), c, settings, out)


@Kernel
def linear_logistic_value(w: Array, x: Array, d: Array, c: Array, settings: Array, out: Array | None) -> Array:
    """Values with the logistic loss."""
    return np.asarray(np.vecdot(logistic_value(_outputs(w, x), d), c, out))


@Kernel
def linear_huber_value(w: Array, x: Array, d: Array, c: Array, settings: Array, out: Array | None) -> Array:
    """Values with the Huber loss."""
    error = _outputs(w, x) - d
    inner = np.clip(error, -settings[2], settings[2])
    return np.asarray(np.vecdot(inner * (error - inner / 2), c, out))


def _outputs(w: Array, x: Array) -> Array:
    m = x.shape[-1]
    outputs = (x @ w[..., :m, None])[..., 0]
    return np.asarray(outputs + w[..., m:] if w.shape[-1] > m else outputs)


def _gradients(w: Array, x: Array, slopes: Array, c: Array, settings: Array, out: Array | None) -> Array:
    out, m, u = np.empty_like(w) if out is None else out, x.shape[-1], slopes * (settings[0] * c)
    out[..., :m] = (u[..., None, :] @ x)[..., 0, :]
    if w.shape[-1] > m:
        np.sum(u, axis=-1, out=out[..., m])
    out += settings[1] * w
    return out


@Kernel
def combined(x: Array, y: Array, a: Array, b: Array, out: Array | None) -> Array:
    """Linear combination a x + b y for numbers a and b."""
    second = b * y
    return np.asarray(np.add(np.multiply(a, x, out), second, out))


@Kernel
def descended(x: Array, g: Array, w: Array, alpha: Array, scale: Array, ridge: Array, out: Array | None) -> Array:
    """Step x - alpha (scale g + ridge w) for numbers alpha, scale and ridge."""
    step = alpha * combined.__wrapped__(g, w, scale, ridge, None)
    return np.asarray(np.subtract(x, step, out))


@Kernel
def scaled_rows(u: Array, x: Array, out: Array | None) -> Array:
    """Rows x_i (m,), each times its number u_i."""
    return np.asarray(np.multiply(u[..., None], x, out))


@Kernel
def outer(u: Array, x: Array, out: Array | None) -> Array:
    """One row x (m,) times every number u_i."""
    return np.asarray(np.multiply(u[..., None], x[..., None, :], out))


@Kernel
def upper_multiplied(x: Array, out: Array) -> Array:
    """Multiply ``out`` by x in place, on and above the diagonals of matrices; entries below are ignored."""
    return _upper(np.multiply, x, out)


@Kernel
def upper_added(x: Array, out: Array) -> Array:
    """Add x to ``out`` in place, on and above the diagonals of matrices; entries below are ignored."""
    return _upper(np.add, x, out)


def _upper(function: np.ufunc, x: Array, out: Array) -> Array:
    with np.errstate(all="ignore"):  # blocks reach below the diagonal
        for rows, columns in blocks(x.shape[-1]):
            function(out[..., rows, columns], x[..., rows, columns], out=out[..., rows, columns])
    return out


@Kernel
def mixed(x: Array, weights: Array, indices: Array, begins: Array, out: Array) -> Array:
    """Product of a CSR matrix, given by its arrays, with x (n, p), in SciPy's order of summation; rows are contiguous."""
    entries = slice(begins[0], begins[-1])
    out[...] = sp.csr_array((weights[entries], indices[entries], begins - begins[0]), (len(out), len(x))) @ x
    return out
