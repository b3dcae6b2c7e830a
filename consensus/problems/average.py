"""The average form of a problem: its gradients, their Lipschitz constants and strong convexity."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._rows import combined, rowwise
from consensus.problems.batch import Batch
from consensus.regularizers import L2, DifferenceOfConvex, Regularizer


class AverageForm(ABC):
    """``U = (1/A) sum_i f_i`` with ``f_i = A g_i + r``: the form in which most methods state their steps."""

    agents: int
    network_size: int
    regularizer: Regularizer
    nonconvex: DifferenceOfConvex | None

    @abstractmethod
    def gradient(self, w: ArrayLike, batch: Batch | None = None) -> np.ndarray:
        """Return grad g_i(w_i), as in :class:`BaseProblem`."""

    @abstractmethod
    def _stack(self, w: ArrayLike) -> np.ndarray:
        """Return ``w`` as an array (agents, P) in the problem's dtype; raise ``ValueError`` for other shapes."""

    def average_gradient(self, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        """Return the gradients of the average form, grad f_i(w_i) with ``f_i = A g_i + r``.

        Parameters
        ----------
        w : ndarray (agents, P)
            The points w_i.
        batch : Batch, optional
            The samples from which grad g_i is estimated; r's gradient is exact.

        Returns
        -------
        ndarray (agents, P)
            The gradients.

        Raises
        ------
        TypeError
            If r is not smooth, or if there is a ``batch`` but no samples.
        """
        return self._averaged(self.gradient(w, batch), w)

    def descended(self, x: np.ndarray, alpha: float, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        """Return ``x - alpha average_gradient(w, batch)`` (agents, P), computed while the gradients are in cache."""
        return combined(1, x, -float(alpha), self.average_gradient(w, batch))

    def average_form(self, data_gradient: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return the gradients of the average form at w for known gradients of the g_i (agents, P); no work is counted.

        ``data_gradient`` lacks a nonconvex regularizer's share, and may be overwritten.
        """
        return self._averaged(self._add_share(data_gradient, w), w)

    def _add_share(self, gradient: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Add the gradient of a nonconvex regularizer's share to ``gradient``, in place."""
        if self.nonconvex is not None:
            gradient -= self.nonconvex.smooth_gradient(w) / self.network_size
        return gradient

    def _averaged(self, gradient: np.ndarray, w: np.ndarray) -> np.ndarray:
        size, r = self.network_size, self.regularizer
        if type(r) is L2 and type(r.weight) is float:  # the usual one, in one pass
            return combined(size, gradient, r.weight, w, over=gradient)
        smooth = r.gradient
        return rowwise(lambda g, w: size * g + smooth(w), gradient, w, over=gradient)

    def lipschitz(self, w: ArrayLike | None = None) -> np.ndarray:
        """Return L_i, Lipschitz constants of the gradients of the average form ``f_i = A g_i + r``.

        L_i includes the curvature of a smooth r and of a nonconvex r's smooth part; a nonsmooth r is left out. An agent's
        constant depends on its own data only.

        - Models with a ``design`` matrix, as linear ones have, and a loss with a ``curvature_bound`` b:
          ``L_i = A b lmax(sum_m weights_m x_m x_m')``, a bound at every w; with the squared loss the least one.
        - Other models: the largest eigenvalue of the Gauss-Newton matrix ``A sum_m weights_m J_m' H_m J_m`` at ``w``, with H_m
          the loss's curvature: an estimate from below, by 50 steps of the power method.
        - Costs given by functions: ``A`` times the ``lipschitz`` given to :meth:`consensus.Problem.from_functions`.

        Parameters
        ----------
        w : array_like (agents, P), or (P,) for all agents, optional
            The point of the Gauss-Newton matrix; by default the model's initial point of seed 0.

        Returns
        -------
        ndarray (agents,)
            The constants.

        Raises
        ------
        TypeError
            If no constant is known of costs given by functions, or of a smooth r that is not quadratic.

        Examples
        --------
        >>> import numpy as np, consensus
        >>> shards = consensus.partition(np.diag([1.0, 2.0]), np.zeros(2), agents=2)
        >>> model = consensus.Linear(2, bias=False)
        >>> consensus.Problem(model, consensus.SquaredLoss(), shards, consensus.L2(0.5)).lipschitz()
        array([1.5, 4.5])
        """
        if w is not None:
            w = _checks.floats("w", w)
            w = self._stack(np.tile(w, (self.agents, 1)) if w.ndim == 1 else w)
        bound = self.network_size * self._lipschitz(w)
        if self.nonconvex is not None:  # f_i has -h, with 0 <= h'' <= -strong_convexity
            bound = np.maximum(bound, -self.nonconvex.strong_convexity)
        r = self.regularizer
        if not getattr(r, "smooth", False):
            return bound
        own = r.strong_convexity if getattr(r, "quadratic", False) else getattr(r, "curvature_bound", None)
        if own is None:
            raise TypeError(f"{r} has no curvature_bound, a Lipschitz constant of its gradient: set it, or give step_size=")
        return bound + own

    def strong_convexity(self) -> np.ndarray:
        """Return mu_i, for which ``f_i - mu_i/2 |w|^2`` is convex, with f_i as in :meth:`lipschitz`.

        Returns
        -------
        ndarray (agents,)
            For a linear model and a quadratic loss the exact moduli, from the least eigenvalues of the agents' samples;
            otherwise that of a smooth r, zero if none is known, and below zero with a nonconvex r.

        Raises
        ------
        TypeError
            If the costs need not be convex: of a model that is not linear, or given by functions.
        """
        modulus = self.network_size * self._strong_convexity()
        if self.nonconvex is not None:
            modulus = modulus + self.nonconvex.strong_convexity
        return modulus + (self.regularizer.strong_convexity if getattr(self.regularizer, "smooth", False) else 0.0)

    def _lipschitz(self, w: np.ndarray | None) -> np.ndarray:
        """Return Lipschitz constants of the grad g_i, without a nonconvex regularizer's share."""
        raise TypeError(f"{self} has no known Lipschitz constants of its gradients: give the solver a step_size=")

    def _strong_convexity(self) -> np.ndarray:
        """Return moduli of strong convexity of the g_i, without a nonconvex regularizer's share."""
        raise TypeError(f"{self} has no known modulus of strong convexity: give the solver a convexity=")
