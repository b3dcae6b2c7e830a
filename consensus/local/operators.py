"""The Jacobian J of a block of agents as an operator, with the samples' curvature S = L L' applied to it.

A model's linearization is an operator, :class:`Dense` is another.
"""

from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from consensus.kernels import blas as _blas
from consensus.models.linearization import LinearizationDefaults

#: Products with J; optional methods, None where missing, are those of :class:`consensus.models.Linearization`, and
#: ``upper_gram(scale=None)``: J J', scaled if ``scale`` (agents, samples, outputs) is given, with the upper triangles right.
Operator: TypeAlias = LinearizationDefaults


@dataclass(frozen=True, eq=False)
class Dense(LinearizationDefaults):
    """An explicit Jacobian: ``matrix`` (agents, samples * outputs, columns)."""

    matrix: np.ndarray
    outputs: int

    def jvp(self, v: np.ndarray) -> np.ndarray:
        agents, rows, _ = self.matrix.shape
        return cast(np.ndarray, (self.matrix @ v[:, :, None]).reshape(agents, rows // self.outputs, self.outputs))

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return np.matmul(u.reshape(len(u), 1, -1), self.matrix, out=None if out is None else out[:, None])[:, 0]

    def jacobian(self, columns: np.ndarray | None = None) -> np.ndarray:
        return self.matrix.copy() if columns is None else self.matrix[:, :, columns]

    def upper_gram(self, scale: np.ndarray | None = None) -> np.ndarray:
        if scale is not None:
            return _blas.squares(self.matrix * scale.reshape(len(scale), -1, 1))
        return _blas.squares(self.matrix, step=-(-_blas.BLOCK // self.outputs) * self.outputs)  # for rooted_gram

    def diagonal(self, weights: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, (weights.reshape(len(weights), 1, -1) @ np.square(self.matrix))[:, 0])


def jacobian(operator: Operator, columns: np.ndarray | None = None) -> np.ndarray:
    """Return J (agents, samples * outputs, P), or its columns in a sorted array of integers."""
    if not operator.jacobian:
        raise TypeError(f"{operator} must have jacobian")
    return cast(np.ndarray, operator.jacobian(columns))


def times_root(root: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return L u for u (agents, samples, outputs); ``root`` holds L, as its diagonal or as a matrix a sample."""
    return cast(np.ndarray, root * u if root.ndim == u.ndim else (root @ u[..., None])[..., 0])


def times_root_transposed(root: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return L' u for u (agents, samples, outputs)."""
    return cast(np.ndarray, root * u if root.ndim == u.ndim else (u[..., None, :] @ root)[..., 0, :])


def rooted_rows(root: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return L' M, in place where L is diagonal, for a matrix (agents, samples * outputs, columns)."""
    agents, samples, outputs = root.shape[:3]
    if root.ndim == 3:
        matrix *= root.reshape(agents, samples * outputs, 1)
        return matrix
    blocks = matrix.reshape(agents, samples, outputs, matrix.shape[2])
    return cast(np.ndarray, (root.swapaxes(2, 3) @ blocks).reshape(matrix.shape))


def upper_gram(operator: Operator, root: np.ndarray | None = None) -> np.ndarray:
    """Return J J' (agents, n, n), or L' J J' L; the upper triangles count."""
    if operator.upper_gram and (root is None or root.ndim == 3):
        return np.asarray(operator.upper_gram(root))
    if not (own := operator.upper_gram or operator.gram):
        raise TypeError(f"{operator} must have upper_gram or gram")
    gram: np.ndarray = own()
    return gram if root is None else rooted_gram(root, gram, gram)


def rooted_gram(root: np.ndarray, gram: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Return L' K L for symmetric K (agents, n, n), to ``out``, which may be K; the upper triangles count."""
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


def chosen(condition: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return rows of ``first`` (agents, ...) where ``condition`` (agents,) holds, else of ``second``; one itself, if all."""
    if type(condition) is np.ndarray and condition.all():  # a device would be waited for
        return first
    if type(condition) is np.ndarray and not condition.any():
        return second
    return np.where(condition.reshape(-1, *(1,) * (first.ndim - 1)), first, second)


def norms(v: np.ndarray) -> np.ndarray:
    """Return the norms of the rows of v (agents, P)."""
    return cast(np.ndarray, np.sqrt(np.vecdot(v, v)))
