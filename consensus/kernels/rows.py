"""Linear algebra of stacks of rows: combinations, outer products, upper triangles and products with sparse matrices."""

import numpy as np
import scipy.sparse as sp

from consensus.kernels.blas import blocks
from consensus.kernels.kernel import Array, Kernel


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
