"""The Jacobian J of a block of agents as an operator, with the samples' curvature S = L L' applied to it.

An operator has ``jvp(v)`` (J v, in the shape of the outputs), ``vjp(u)`` (J' u), ``jacobian(columns=None)``, ``gram()``
(J J') or its ``upper_gram()``, and ``diagonal(weights)``: a model's linearization is one, :class:`Dense` another.
"""

from dataclasses import dataclass

import numpy as np

from consensus import _blas


@dataclass(frozen=True, eq=False)
class Dense:
    """An explicit Jacobian: ``matrix`` (agents, samples * outputs, columns)."""

    matrix: np.ndarray
    outputs: int

    def jvp(self, v):
        agents, rows, _ = self.matrix.shape
        return (self.matrix @ v[:, :, None]).reshape(agents, rows // self.outputs, self.outputs)

    def vjp(self, u):
        return (u.reshape(len(u), 1, -1) @ self.matrix)[:, 0]

    def jacobian(self, columns=None):
        return self.matrix.copy() if columns is None else self.matrix[:, :, columns]

    def upper_gram(self, scale=None):
        if scale is not None:
            return _blas.squares(self.matrix * scale.reshape(len(scale), -1, 1))
        return _blas.squares(self.matrix, step=-(-_blas.BLOCK // self.outputs) * self.outputs)  # for rooted_gram

    def diagonal(self, weights):
        return (weights.reshape(len(weights), 1, -1) @ np.square(self.matrix))[:, 0]


def times_root(root, u):
    """L u for u (agents, samples, outputs); ``root`` holds L, as its diagonal or as a matrix a sample."""
    return root * u if root.ndim == u.ndim else (root @ u[..., None])[..., 0]


def times_root_transposed(root, u):
    """L' u for u (agents, samples, outputs)."""
    return root * u if root.ndim == u.ndim else (u[..., None, :] @ root)[..., 0, :]


def rooted_rows(root, matrix):
    """L' M, in place where L is diagonal, for a matrix (agents, samples * outputs, columns)."""
    agents, samples, outputs = root.shape[:3]
    if root.ndim == 3:
        matrix *= root.reshape(agents, samples * outputs, 1)
        return matrix
    blocks = matrix.reshape(agents, samples, outputs, matrix.shape[2])
    return (root.swapaxes(2, 3) @ blocks).reshape(matrix.shape)


def upper_gram(operator, root=None):
    """J J' (agents, n, n), or L' J J' L; the upper triangles count."""
    fused = hasattr(operator, "upper_gram")
    if fused and (root is None or root.ndim == 3):
        return operator.upper_gram(root)
    gram = operator.upper_gram() if fused else operator.gram()
    return gram if root is None else rooted_gram(root, gram, gram)


def rooted_gram(root, gram, out):
    """L' K L for symmetric K (agents, n, n), to ``out``, which may be K; the upper triangles count."""
    outputs = root.shape[2]
    for rows, columns in _blas.blocks(gram.shape[1], -(-_blas.BLOCK // outputs) * outputs):
        block, result = gram[:, rows, columns], out[:, rows, columns]
        few, rest = (slice(part.start // outputs, part.stop // outputs) for part in (rows, columns))
        if root.ndim == 3:
            np.multiply(block, root[:, rest].reshape(len(root), 1, -1), out=result)
            result *= root[:, few].reshape(len(root), -1, 1)
        else:
            half = rooted_rows(root[:, few], block.copy()).reshape(*block.shape[:2], -1, outputs)
            np.matmul(half.swapaxes(1, 2), root[:, rest], out=result.reshape(half.shape).swapaxes(1, 2))
    return out


def chosen(condition, first, second):
    """Rows of ``first`` (agents, ...) where ``condition`` (agents,) holds, else of ``second``: one of them itself, if all."""
    if condition.all():
        return first
    if not condition.any():
        return second
    return np.where(condition.reshape(-1, *(1,) * (first.ndim - 1)), first, second)


def norms(v):
    """Of the rows of v (agents, P)."""
    return np.sqrt(np.vecdot(v, v))
