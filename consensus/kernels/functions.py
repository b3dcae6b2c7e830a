"""Functions of numbers, of rows and of linear models, one kernel each."""

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from consensus.kernels.blas import blocks
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


@Kernel
def combined(x: Array, y: Array, a: Array, b: Array, out: Array | None) -> Array:
    """Linear combination a x + b y for numbers a and b.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import combined
    >>> x, y = np.array([1.0, 2.0]), np.array([4.0, 8.0])
    >>> combined(x, y, np.float64(3), np.float64(-0.5)).tolist(), (3 * x - 0.5 * y).tolist()
    ([1.0, 2.0], [1.0, 2.0])
    """
    second = b * y
    return np.asarray(np.add(np.multiply(a, x, out), second, out))


@Kernel
def descended(x: Array, g: Array, w: Array, alpha: Array, scale: Array, ridge: Array, out: Array | None) -> Array:
    """Step x - alpha (scale g + ridge w) for numbers alpha, scale and ridge.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import descended
    >>> x, g, w = np.array([[1.0, 2.0], [4.0, 8.0], [0.0, 1.0]])
    >>> alpha, scale, ridge = np.array([0.5, 2.0, 4.0])
    >>> descended(x, g, w, alpha, scale, ridge).tolist(), (x - 0.5 * (2 * g + 4 * w)).tolist()
    ([-3.0, -8.0], [-3.0, -8.0])
    """
    step = alpha * combined.__wrapped__(g, w, scale, ridge, None)
    return np.asarray(np.subtract(x, step, out))


@Kernel
def scaled_rows(u: Array, x: Array, out: Array | None) -> Array:
    """Rows x_i (m,), each times its number u_i.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import scaled_rows
    >>> u, x = np.array([2.0, -1.0]), np.array([[1.0, 3.0], [5.0, 7.0]])
    >>> scaled_rows(u, x).tolist(), (u[:, None] * x).tolist()
    ([[2.0, 6.0], [-5.0, -7.0]], [[2.0, 6.0], [-5.0, -7.0]])
    """
    if u.shape[-1:] != x.shape[-2:-1]:
        raise ValueError(f"u must have a number for each row of x; got shape {u.shape} for {x.shape}")
    return np.asarray(np.multiply(u[..., None], x, out))


@Kernel
def outer(u: Array, x: Array, out: Array | None) -> Array:
    """One row x (m,) times every number u_i.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import outer
    >>> u, x = np.array([2.0, -1.0]), np.array([1.0, 3.0, 5.0])
    >>> outer(u, x).tolist(), np.outer(u, x).tolist()
    ([[2.0, 6.0, 10.0], [-1.0, -3.0, -5.0]], [[2.0, 6.0, 10.0], [-1.0, -3.0, -5.0]])
    """
    return np.asarray(np.multiply(u[..., None], x[..., None, :], out))


@Kernel
def upper_multiplied(x: Array, out: Array) -> Array:
    """Multiply ``out`` by x in place, on and above the diagonals of matrices; entries below are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import upper_multiplied
    >>> x, out = np.array([[[2.0, 3.0], [5.0, 7.0]]]), np.full((1, 2, 2), 10.0)
    >>> np.triu(upper_multiplied(x, out=out)).tolist(), np.triu(10 * x).tolist()
    ([[[20.0, 30.0], [0.0, 70.0]]], [[[20.0, 30.0], [0.0, 70.0]]])
    """
    return _upper(np.multiply, x, out)


@Kernel
def upper_added(x: Array, out: Array) -> Array:
    """Add x to ``out`` in place, on and above the diagonals of matrices; entries below are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import upper_added
    >>> x, out = np.array([[[2.0, 3.0], [5.0, 7.0]]]), np.full((1, 2, 2), 10.0)
    >>> np.triu(upper_added(x, out=out)).tolist(), np.triu(10 + x).tolist()
    ([[[12.0, 13.0], [0.0, 17.0]]], [[[12.0, 13.0], [0.0, 17.0]]])
    """
    return _upper(np.add, x, out)


def _upper(function: np.ufunc, x: Array, out: Array) -> Array:
    if not x.shape[-2:] == out.shape[-2:] == out.shape[-1:] * 2:
        raise ValueError(f"x and out must have square matrices of one size; got shapes {x.shape} and {out.shape}")
    x = x.copy() if x is not out and np.may_share_memory(x, out) else x
    with np.errstate(all="ignore"):  # blocks reach below the diagonal
        for rows, columns in blocks(x.shape[-1]):
            function(out[..., rows, columns], x[..., rows, columns], out=out[..., rows, columns])
    return out


@Kernel
def mixed(x: Array, weights: Array, indices: Array, begins: Array, out: Array) -> Array:
    """Product of a CSR matrix, given by its arrays, with x (n, p), in SciPy's order of summation.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from consensus.kernels import mixed
    >>> W, x = sp.csr_array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> places = W.indices.astype(np.intp), W.indptr.astype(np.intp)
    >>> mixed(x, W.data, *places, out=np.empty((2, 2))).tolist(), (W @ x).tolist()
    ([[2.0, 3.0], [5.0, 6.0]], [[2.0, 3.0], [5.0, 6.0]])
    """
    entries = slice(begins[0], begins[-1])
    matrix = sp.csr_array((weights[entries], indices[entries], begins - begins[0]), (len(out), len(x)))
    matrix.check_format()  # SciPy multiplies by what it finds at an index beyond x
    np.copyto(out, matrix @ x, casting="same_kind")
    return out


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
