"""Functions of each number or, for the cross-entropy, of each row: activations and losses, and their slopes."""

import numpy as np
from scipy.special import expit

from consensus.kernels.kernel import Array, Kernel


@Kernel
def tanh_sum(a: Array, b: Array, out: Array | None) -> Array:
    """tanh(a + b).

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import tanh_sum
    >>> a, b = np.array([-1.0, 0.0, 2.0]), np.array([0.5, 0.0, -0.5])
    >>> tanh_sum(a, b).round(6).tolist(), np.tanh(a + b).round(6).tolist()
    ([-0.462117, 0.0, 0.905148], [-0.462117, 0.0, 0.905148])
    """
    total = np.add(a, b, out)
    return np.asarray(np.tanh(total, out=total))


@Kernel
def tanh_slope(h: Array, out: Array | None) -> Array:
    """Slope of tanh at the point where its value is h, 1 - h^2.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import tanh_slope
    >>> a = np.array([-1.0, 0.0, 2.0])
    >>> tanh_slope(np.tanh(a)).round(6).tolist(), (1 / np.cosh(a) ** 2).round(6).tolist()
    ([0.419974, 1.0, 0.070651], [0.419974, 1.0, 0.070651])
    """
    slope = np.square(h, out)
    return np.asarray(np.subtract(1, slope, out=slope))


@Kernel
def tanh_backward(u: Array, h: Array, out: Array | None) -> Array:
    """Backward pass of tanh, u (1 - h^2): the cotangent of its argument, given that of its value h.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import tanh_backward
    >>> u, h = np.array([3.0, -1.0]), np.array([0.5, 0.0])
    >>> tanh_backward(u, h).tolist(), (u * (1 - h**2)).tolist()
    ([2.25, -1.0], [2.25, -1.0])
    """
    return np.asarray(np.multiply(u, tanh_slope.__wrapped__(h, None), out))


@Kernel
def sigmoid_sum(a: Array, b: Array, out: Array | None) -> Array:
    """1 / (1 + exp(-a - b)).

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import sigmoid_sum
    >>> a, b = np.array([-1.0, 0.0, 2.0]), np.array([0.5, 0.0, -0.5])
    >>> sigmoid_sum(a, b).round(6).tolist(), (1 / (1 + np.exp(-a - b))).round(6).tolist()
    ([0.377541, 0.5, 0.817574], [0.377541, 0.5, 0.817574])
    """
    total = np.add(a, b, out)
    return np.asarray(expit(total, out=total))


@Kernel
def sigmoid_slope(h: Array, out: Array | None) -> Array:
    """Slope of the sigmoid at the point where its value is h, h (1 - h).

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import sigmoid, sigmoid_slope
    >>> a = np.array([0.0, 2.0, 40.0])
    >>> sigmoid_slope(sigmoid(a)).round(6).tolist(), (np.exp(a) / (1 + np.exp(a)) ** 2).round(6).tolist()
    ([0.25, 0.104994, 0.0], [0.25, 0.104994, 0.0])
    """
    return np.asarray(np.multiply(h, 1 - h, out))


@Kernel
def sigmoid_backward(u: Array, h: Array, out: Array | None) -> Array:
    """Backward pass of the sigmoid, u h (1 - h).

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import sigmoid_backward
    >>> u, h = np.array([3.0, -1.0]), np.array([0.25, 0.5])
    >>> sigmoid_backward(u, h).tolist(), (u * h * (1 - h)).tolist()
    ([0.5625, -0.25], [0.5625, -0.25])
    """
    return np.asarray(np.multiply(u, sigmoid_slope.__wrapped__(h, None), out))


@Kernel
def sigmoid(a: Array, out: Array | None) -> Array:
    """1 / (1 + exp(-a)), the derivative of softplus.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import sigmoid
    >>> sigmoid(np.array([-800.0, 0.0, 2.0])).round(6).tolist(), round(float(1 / (1 + np.exp(-2.0))), 6)
    ([0.0, 0.5, 0.880797], 0.880797)
    """
    return np.asarray(expit(a, out))


@Kernel
def softplus(a: Array, out: Array | None) -> Array:
    """log(1 + exp(a)).

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import softplus
    >>> softplus(np.array([0.0, 1.0, 1000.0])).round(6).tolist(), np.log1p(np.exp([0.0, 1.0])).round(6).tolist()
    ([0.693147, 1.313262, 1000.0], [0.693147, 1.313262])
    """
    return np.asarray(np.logaddexp(0, a, out))


@Kernel
def exp(a: Array, out: Array | None) -> Array:
    """exp(a).

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import exp
    >>> a = np.array([-1000.0, -1.0, 0.0])
    >>> exp(a).round(6).tolist(), np.exp(a).round(6).tolist()
    ([0.0, 0.367879, 1.0], [0.0, 0.367879, 1.0])
    """
    return np.asarray(np.exp(a, out))


@Kernel
def logistic_value(f: Array, d: Array, out: Array | None) -> Array:
    """Logistic loss, log(1 + exp(f)) - d f for d in [0, 1], without cancellation at large f.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import logistic_value
    >>> f, d = np.array([2.0, 2.0, 1000.0]), np.array([0.0, 1.0, 1.0])
    >>> logistic_value(f, d).round(6).tolist(), (np.log1p(np.exp(2.0)) - 2 * d[:2]).round(6).tolist()
    ([2.126928, 0.126928, 0.0], [2.126928, 0.126928])
    """
    return np.asarray(np.logaddexp(-d * f, (1 - d) * f, out))


@Kernel
def logistic_slope(f: Array, d: Array, out: Array | None) -> Array:
    """Slope of the logistic loss in f, 1 / (1 + exp(-f)) - d.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import logistic_slope
    >>> f, d = np.array([0.0, 2.0, 2.0]), np.array([1.0, 0.0, 1.0])
    >>> logistic_slope(f, d).round(6).tolist(), (1 / (1 + np.exp(-f)) - d).round(6).tolist()
    ([-0.5, 0.880797, -0.119203], [-0.5, 0.880797, -0.119203])
    """
    return np.asarray(np.subtract(expit(f), d, out))


@Kernel
def logistic_curvature(f: Array, out: Array | None) -> Array:
    """Second derivative of the logistic loss, exp(f) / (1 + exp(f))^2.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import logistic_curvature
    >>> f = np.array([0.0, 2.0, -2.0])
    >>> logistic_curvature(f).round(6).tolist(), (np.exp(f) / (1 + np.exp(f)) ** 2).round(6).tolist()
    ([0.25, 0.104994, 0.104994], [0.25, 0.104994, 0.104994])
    """
    return np.asarray(np.multiply(expit(f), expit(-f), out))


@Kernel
def softmax_slope(f: Array, d: Array, out: Array | None) -> Array:
    """Slope of the cross-entropy: softmax(f) of each row, minus one at its class d unless that is -1.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import softmax_slope
    >>> f, d = np.log([[1.0, 3.0], [1.0, 3.0]]), np.array([0, -1])  # softmax 1/4, 3/4; class 0, and none
    >>> softmax_slope(f, d).round(6).tolist()
    [[-0.75, 0.75], [0.25, 0.75]]
    """
    own = d[..., None] == np.arange(f.shape[-1])  # by comparison, without a gather
    # Transposed for the maximum: NumPy reduces long rows of samples many times faster than short rows of classes.
    p = np.subtract(f, np.ascontiguousarray(f.swapaxes(-1, -2)).max(axis=-2)[..., None], out)
    np.exp(p, out=p)
    p /= p @ np.ones((p.shape[-1], 1), p.dtype)
    p -= own
    return np.asarray(p)
