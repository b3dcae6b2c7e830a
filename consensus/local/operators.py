"""The Jacobian J of a block of agents as an operator, with the samples' curvature S = L L' applied to it.

An operator has ``jvp(v)`` (J v, in the shape of the outputs), ``vjp(u)`` (J' u), ``jacobian(columns=None)``, ``gram()``
(J J') and ``diagonal(weights)``: a model's linearization is one, :class:`Dense` another.
"""

from dataclasses import dataclass

import numpy as np


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

    def gram(self):
        return self.matrix @ self.matrix.swapaxes(1, 2)

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


def rooted_gram(root, gram):
    """L' K L for a symmetric K (agents, n, n); K itself is kept."""
    half = rooted_rows(root, gram.copy())
    if root.ndim == 3:
        half *= root.reshape(len(root), 1, -1)
        return half
    return rooted_rows(root, half.swapaxes(1, 2).copy())
