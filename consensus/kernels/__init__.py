"""Loops over numbers in compiled C (``_kernels.c``), and the NumPy functions that stand in for them.

A kernel takes float64 or float32. If the package was installed with a C compiler, the compiled kernel serves; otherwise, with
``CONSENSUS_FAST=0`` in the environment, and for other dtypes, the NumPy function below does. The extension module has a version
for AVX-512, one for AVX2 and one for other processors, of which one is chosen at import; ``NPY_DISABLE_CPU_FEATURES`` rules
some out, as in NumPy.

Compiled kernels give the same bits in all versions, wherever an element stands, and however arrays are cut into chunks. Results
of a number (or a sum, or a label and a number) are within 4 units in the last place, including tails, infinities and subnormal
numbers; NaN stays NaN.
"""

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from consensus._blas import blocks
from consensus.kernels.fused import FusedSums
from consensus.kernels.kernel import Kernel, level

__all__ = [
    "FusedSums",
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
def tanh_sum(a, b, out):
    """tanh(a + b)."""
    total = np.add(a, b, out)
    return np.tanh(total, out=total)


@Kernel
def tanh_slope(h, out):
    """1 - h^2, the derivative of tanh at the point where its value is h."""
    slope = np.square(h, out)
    return np.subtract(1, slope, out=slope)


@Kernel
def tanh_backward(u, h, out):
    """u (1 - h^2), the backward pass of tanh: the cotangent of its argument, given that of its value h."""
    return np.multiply(u, tanh_slope.__wrapped__(h, None), out)


@Kernel
def sigmoid_sum(a, b, out):
    """1 / (1 + exp(-a - b))."""
    total = np.add(a, b, out)
    return expit(total, out=total)


@Kernel
def sigmoid_slope(h, out):
    """h (1 - h), the derivative of the sigmoid at the point where its value is h."""
    return np.multiply(h, 1 - h, out)


@Kernel
def sigmoid_backward(u, h, out):
    """u h (1 - h), the backward pass of the sigmoid."""
    return np.multiply(u, sigmoid_slope.__wrapped__(h, None), out)


@Kernel
def sigmoid(a, out):
    """1 / (1 + exp(-a)), the derivative of softplus."""
    return expit(a, out)


@Kernel
def softplus(a, out):
    """log(1 + exp(a))."""
    return np.logaddexp(0, a, out)


@Kernel
def exp(a, out):
    """exp(a) for a <= 0 or NaN."""
    return np.exp(a, out)


@Kernel
def logistic_value(f, d, out):
    """log(1 + exp(f)) - d f for d in [0, 1], without cancellation at large f."""
    return np.logaddexp(-d * f, (1 - d) * f, out)


@Kernel
def logistic_slope(f, d, out):
    """1 / (1 + exp(-f)) - d, its derivative in f."""
    slope = expit(f, out)
    return np.subtract(slope, d, out=slope)


@Kernel
def logistic_curvature(f, out):
    """exp(f) / (1 + exp(f))^2, its second derivative in f."""
    return np.multiply(expit(f), expit(-f), out)


@Kernel
def softmax_slope(f, d, out):
    """softmax(f) of each row minus one at its class d, if it is not -1: the slope of the cross entropy. Contiguous ``out``."""
    # Transposed for the maximum: NumPy reduces long rows of samples many times faster than short rows of classes.
    p = np.subtract(f, np.ascontiguousarray(f.swapaxes(-1, -2)).max(axis=-2)[..., None], out)
    np.exp(p, out=p)
    p /= p @ np.ones((p.shape[-1], 1), p.dtype)
    p -= d[..., None] == np.arange(p.shape[-1])  # by comparison, without a gather
    return p


# Gradients and values of a linear model with one output. A gradient is the sum over samples of the loss's slope times the
# weight and the features of the sample, times a scale, plus ridge times the parameters; a value is the weighted sum of the
# losses. The parameters w have shape (agents, P), the features x (agents, samples, m), the targets d and weights c (agents,
# samples), all of them contiguous; P is m, or m + 1 with a bias. Settings are the scale, the ridge and the largest slope of
# the Huber loss.


@Kernel
def linear_logistic(w, x, d, c, settings, out):
    """Gradients with the logistic loss."""
    return _gradients(w, x, logistic_slope(_outputs(w, x), d), c, settings, out)


@Kernel
def linear_huber(w, x, d, c, settings, out):
    """Gradients with the Huber loss, linear where its slope reaches ``most``; the squared loss if that is infinite."""
    return _gradients(w, x, np.clip(_outputs(w, x) - d, -settings[2], settings[2]), c, settings, out)


@Kernel
def linear_logistic_value(w, x, d, c, settings, out):
    """Values with the logistic loss."""
    return np.vecdot(logistic_value(_outputs(w, x), d), c, out)


@Kernel
def linear_huber_value(w, x, d, c, settings, out):
    """Values with the Huber loss."""
    error = _outputs(w, x) - d
    inner = np.clip(error, -settings[2], settings[2])
    return np.vecdot(inner * (error - inner / 2), c, out)


def _outputs(w, x):
    m = x.shape[-1]
    outputs = (x @ w[..., :m, None])[..., 0]
    return outputs + w[..., m:] if w.shape[-1] > m else outputs


def _gradients(w, x, slopes, c, settings, out):
    out, m, u = np.empty_like(w) if out is None else out, x.shape[-1], slopes * (settings[0] * c)
    out[..., :m] = (u[..., None, :] @ x)[..., 0, :]
    if w.shape[-1] > m:
        np.sum(u, axis=-1, out=out[..., m])
    out += settings[1] * w
    return out


@Kernel
def combined(x, y, a, b, out):
    """a x + b y for numbers a and b."""
    second = b * y
    return np.add(np.multiply(a, x, out), second, out)


@Kernel
def descended(x, g, w, alpha, scale, ridge, out):
    """x - alpha (scale g + ridge w) for numbers alpha, scale and ridge."""
    step = alpha * combined.__wrapped__(g, w, scale, ridge, None)
    return np.subtract(x, step, out)


@Kernel
def scaled_rows(u, x, out):
    """u_i x_i: each row x_i (m,) times its number."""
    return np.multiply(u[..., None], x, out)


@Kernel
def outer(u, x, out):
    """u_i x for one row x (m,)."""
    return np.multiply(u[..., None], x[..., None, :], out)


@Kernel
def upper_multiplied(x, out):
    """Multiply ``out`` by x in place, on and above the diagonals of matrices; below them both may hold anything."""
    return _upper(np.multiply, x, out)


@Kernel
def upper_added(x, out):
    """Add x to ``out`` in place, on and above the diagonals of matrices; below them both may hold anything."""
    return _upper(np.add, x, out)


def _upper(function, x, out):
    with np.errstate(all="ignore"):  # blocks reach below the diagonal
        for rows, columns in blocks(x.shape[-1]):
            function(out[..., rows, columns], x[..., rows, columns], out=out[..., rows, columns])
    return out


@Kernel
def mixed(x, weights, indices, begins, out):
    """Product of a CSR matrix, given by its arrays, with x (n, p), in SciPy's order of summation; rows are contiguous."""
    entries = slice(begins[0], begins[-1])
    out[...] = sp.csr_array((weights[entries], indices[entries], begins - begins[0]), (len(out), len(x))) @ x
    return out
