"""Gradients and values of a linear model with one output.

A gradient is the sum over samples of the slope of the loss times the weight and the features of the sample, times a scale,
plus ridge times the parameters; a value is the weighted sum of the losses. The parameters w have shape (agents, P), the
features x (agents, samples, m), the targets d and weights c (agents, samples); P is m, or m + 1 with a bias. Settings (3,) are
the scale, the ridge and the largest slope of the Huber loss.
"""

import numpy as np

from consensus.kernels.elementwise import logistic_slope, logistic_value
from consensus.kernels.kernel import Array, Kernel


@Kernel
def linear_logistic(w: Array, x: Array, d: Array, c: Array, settings: Array, out: Array | None) -> Array:
    """Gradients with the logistic loss.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import linear_logistic
    >>> w, x = np.array([[1.0, -1.0]]), np.array([[[1.0, 2.0], [3.0, 0.0]]])
    >>> d, c, settings = np.array([[0.0, 1.0]]), np.ones((1, 2)), np.array([1.0, 0.5, np.inf])
    >>> slopes = 1 / (1 + np.exp(-x[0] @ w[0])) - d[0]
    >>> linear_logistic(w, x, d, c, settings).round(6).tolist(), (slopes @ x[0] + 0.5 * w).round(6).tolist()
    ([[0.626664, 0.037883]], [[0.626664, 0.037883]])
    """
    return _gradients(w, x, logistic_slope(_outputs(w, x, d, c, settings), d), c, settings, out)


@Kernel
def linear_huber(w: Array, x: Array, d: Array, c: Array, settings: Array, out: Array | None) -> Array:
    """Gradients with the Huber loss, linear where its slope reaches the limit; the squared loss if that is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import linear_huber
    >>> w, x = np.array([[1.0, -1.0]]), np.array([[[1.0, 2.0], [3.0, 0.0]]])  # outputs -1 and 3
    >>> d, c = np.array([[-1.5, 1.0]]), np.ones((1, 2))  # errors 0.5 and 2
    >>> for limit in (np.inf, 1.0):
    ...     settings = np.array([1.0, 0.0, limit])
    ...     print(linear_huber(w, x, d, c, settings).tolist(), (np.clip([0.5, 2.0], -limit, limit) @ x[0]).tolist())
    [[6.5, 1.0]] [6.5, 1.0]
    [[3.5, 1.0]] [3.5, 1.0]
    """
    error, limit = _outputs(w, x, d, c, settings) - d, settings[..., 2:]
    return _gradients(w, x, np.clip(error, -limit, limit), c, settings, out)


@Kernel
def linear_logistic_value(w: Array, x: Array, d: Array, c: Array, settings: Array, out: Array | None) -> Array:
    """Values with the logistic loss.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import linear_logistic_value
    >>> w, x = np.array([[1.0, -1.0]]), np.array([[[1.0, 2.0], [3.0, 0.0]]])
    >>> d, c, settings = np.array([[0.0, 1.0]]), np.ones((1, 2)), np.array([1.0, 0.0, np.inf])
    >>> f = x[0] @ w[0]
    >>> linear_logistic_value(w, x, d, c, settings).round(6).tolist(), round(float((np.log1p(np.exp(f)) - d * f).sum()), 6)
    ([0.361849], 0.361849)
    """
    return np.asarray(np.vecdot(logistic_value(_outputs(w, x, d, c, settings), d), c, out))


@Kernel
def linear_huber_value(w: Array, x: Array, d: Array, c: Array, settings: Array, out: Array | None) -> Array:
    """Values with the Huber loss.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import linear_huber_value
    >>> w, x = np.array([[1.0, -1.0]]), np.array([[[1.0, 2.0], [3.0, 0.0]]])  # outputs -1 and 3
    >>> d, c = np.array([[-1.5, 1.0]]), np.ones((1, 2))  # errors 0.5 and 2
    >>> linear_huber_value(w, x, d, c, np.array([1.0, 0.0, np.inf])).tolist()  # 0.5^2 / 2 + 2^2 / 2
    [2.125]
    >>> linear_huber_value(w, x, d, c, np.array([1.0, 0.0, 1.0])).tolist()  # 0.5^2 / 2 + 2 - 1/2
    [1.625]
    """
    error, limit = _outputs(w, x, d, c, settings) - d, settings[..., 2:]
    inner = np.clip(error, -limit, limit)
    return np.asarray(np.vecdot(inner * (error - inner / 2), c, out))


def _outputs(w: Array, x: Array, d: Array, c: Array, settings: Array) -> Array:
    samples, m = x.shape[-2:]
    if w.shape[-1] - m not in (0, 1):
        raise ValueError(f"w must have as many numbers as x has features, or one more for the bias; got {w.shape[-1]} for {m}")
    if {d.shape[-1], c.shape[-1]} != {samples} or settings.shape[-1] != 3:
        raise ValueError(
            f"d and c must have a number for each of the {samples} samples, and settings three; "
            f"got {d.shape}, {c.shape} and {settings.shape}"
        )
    outputs = (x @ w[..., :m, None])[..., 0]
    return np.asarray(outputs + w[..., m:] if w.shape[-1] > m else outputs)


def _gradients(w: Array, x: Array, slopes: Array, c: Array, settings: Array, out: Array | None) -> Array:
    m, u, ridge = x.shape[-1], slopes * (settings[..., :1] * c), settings[..., 1:2] * w
    total = np.empty((*u.shape[:-1], w.shape[-1]), u.dtype)
    total[..., :m] = (u[..., None, :] @ x)[..., 0, :]
    if w.shape[-1] > m:
        np.sum(u, axis=-1, out=total[..., m])
    return np.asarray(np.add(total, ridge, out))
