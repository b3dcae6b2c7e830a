"""Least squares of a linear model with L2, in NumPy: the costs of the plain statements."""

import numpy as np

RIDGE = 0.1


class Costs:
    """Least squares of a linear model with L2, in NumPy: ``f_i = A g_i + r`` of agents with samples x (agents, n, m), d."""

    def __init__(self, features, targets, weights, ridge=RIDGE):
        ones = np.ones((*features.shape[:2], 1), features.dtype)
        self.x, self.d, self.scale = np.concatenate([features, ones], axis=2), targets, len(features) * weights[:, :, None]
        self.ridge = ridge

    def smooth(self, w):
        """The gradients of A g_i, without r."""
        residuals = self.x @ w[:, :, None] - self.d
        return (self.x.swapaxes(1, 2) @ (self.scale * residuals))[:, :, 0]

    def gradient(self, w):
        return self.smooth(w) + self.ridge * w

    def value(self, w):
        """A g_i, without r."""
        residuals = self.x @ w[:, :, None] - self.d
        return (self.scale * residuals**2).sum(axis=(1, 2)) / 2

    def prox(self, V, a):
        return V / (1 + self.ridge * a)

    def solved(self, shift):
        """The function ``B -> (H + shift I)^-1 B`` for the Hessians H of the f_i, which solves these systems in every round."""
        hessians = self.hessians(shift)
        return lambda B: np.linalg.solve(hessians, B[:, :, None])[:, :, 0]

    def inverted(self, shift):
        """The same with inverses that are kept: faster, and where H is badly conditioned less exact."""
        inverses = np.linalg.inv(self.hessians(shift))
        return lambda B: (inverses @ B[:, :, None])[:, :, 0]

    def hessians(self, shift=0.0):
        hessians = self.x.swapaxes(1, 2) @ (self.scale * self.x)
        return hessians + (self.ridge + shift) * np.eye(self.x.shape[2], dtype=self.x.dtype)
