"""The root's model of the network's curvature, and the rounding of steps."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from consensus.trees.tree_lbfgs import power_of_two

_LOST = 1e-6  # of the largest eigenvalue of O'Z: smaller ones are rounding
_LEAST_UNIT = 1e-60


def corrected(M: np.ndarray, basis: np.ndarray, Z: np.ndarray, noise: float) -> np.ndarray:
    """Return ``M - M O (O'M O)^+ O'M + Z (O'Z)^+ Z'``, symmetric, which maps the directions O, ``basis``, to Z.

    Z are products of the network's curvature with O, and ``noise`` is the 2-norm of the rounding in them: ``noise O`` is added
    to Z so that O'Z stays positive semidefinite.
    """
    Z, MO = Z + noise * basis, M @ basis
    C = basis.T @ Z
    s, E = np.linalg.eigh((C + C.T) / 2)
    kept = s > max(_LOST * s[-1], 0)
    ZE = Z @ E[:, kept] / np.sqrt(s[kept])
    M = M - MO @ np.linalg.pinv(basis.T @ MO, rcond=1e-10, hermitian=True) @ MO.T + ZE @ ZE.T
    symmetric: np.ndarray = (M + M.T) / 2
    return symmetric


@dataclass(frozen=True, eq=False)
class Model:
    """``U(w) + g.d + d'(M + D) d / 2`` in eigenvectors of M + D, with D the curvature of a quadratic r.

    Attributes
    ----------
    s : ndarray (P,)
        Eigenvalues, at least the least of D.
    E : ndarray (P, P)
        Eigenvectors.
    scale : float
        Trace of M.
    """

    s: np.ndarray
    E: np.ndarray
    scale: float

    @classmethod
    def of(cls, M: np.ndarray, ridge: np.ndarray) -> "Model":
        """Return the model of M (P, P) and the diagonal ``ridge`` (P,) of D."""
        s, E = np.linalg.eigh(M + np.diag(ridge))
        return cls(np.maximum(s, ridge.min()), E, float(np.trace(M)))

    def step(self, damping: float, g: np.ndarray) -> np.ndarray:
        """Return the damped Newton step ``-(M + D + damping I)^-1 g``."""
        step: np.ndarray = -self.E @ (self.E.T @ g / (self.s + damping))
        return step

    def times(self, d: np.ndarray) -> np.ndarray:
        """Return ``(M + D) d``."""
        product: np.ndarray = self.E @ (self.s * (self.E.T @ d))
        return product

    def decrease(self, d: np.ndarray, g: np.ndarray) -> float:
        """Return the decrease of the model from 0 to d."""
        return -float(g @ d + self.s @ (self.E.T @ d) ** 2 / 2)


def rounded(d: np.ndarray, good: Callable[[np.ndarray], bool]) -> tuple[np.ndarray, float]:
    """Return ``d`` in integers, and their unit: the largest power of two for which ``good(integers * unit)``."""
    unit = 2 * power_of_two(float(np.abs(d).max(initial=0)))
    while not good(np.rint(d / unit) * unit) and unit > _LEAST_UNIT:
        unit /= 2
    return np.rint(d / unit), unit
