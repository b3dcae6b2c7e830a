"""What an agent knows of the network's costs."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from consensus._parallel import for_chunks
from consensus.local.low_rank import low_rank
from consensus.regularizers.base import Regularizer
from consensus.solvers.adaptive.blocks import rows


class Hessian(Protocol):
    """A positive semidefinite H of every agent: a NamedTuple, part of the state of AdaptiveNEXT."""

    def square(self, d: np.ndarray) -> np.ndarray:
        """``d' H d``, shape (agents,), for d (agents, P)."""

    def minimiser(self, tau: np.ndarray, w: np.ndarray, slope: np.ndarray, prox: Regularizer | None) -> np.ndarray:
        """The d (agents, P) of least ``slope . d + 1/2 d' H d + tau/2 |d|^2 + r(w + d)``, r being ``prox``, or zero if None."""

    def rank(self) -> np.ndarray:
        """How many directions it is made of (agents,)."""


class LowRank(NamedTuple):
    """``H = V V'`` with few columns.

    Fields: V (agents, P, columns); the ``squares`` (agents, columns) of their lengths where they are orthogonal, which makes
    H easy to solve with; else there are none, (agents, 0).
    """

    V: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, V: np.ndarray) -> "LowRank":
        """With columns that may lie as they like."""
        return cls(V, V[:, 0, :0])

    @classmethod
    def common(cls, V: np.ndarray, agents: int) -> "LowRank":
        """Of one V (P, columns) for all, in double precision with its columns made orthogonal: H stays as it is."""
        squares = V[0, :0]
        if V.dtype == np.float64 and np.isfinite(V).all():  # rounded to single, products of columns would be as large as tau
            V = V @ np.linalg.eigh(V.T @ V)[1]
            squares = np.vecdot(V.T, V.T)
        return cls(np.broadcast_to(V, (agents, *V.shape)), np.broadcast_to(squares, (agents, len(squares))))

    def square(self, d: np.ndarray) -> np.ndarray:
        """``|V' d|^2``, shape (agents,), for d (agents, P)."""
        square = np.empty(len(d), np.result_type(d, self.V))

        def chunk(rows):
            image = (d[rows, None, :] @ self.V[rows])[:, 0]
            np.vecdot(image, image, out=square[rows])

        self._for_chunks(chunk)
        return square

    def minimiser(self, tau: np.ndarray, w: np.ndarray, slope: np.ndarray, prox: Regularizer | None) -> np.ndarray:
        """As :meth:`Hessian.minimiser`."""
        if prox is None and self.squares.size:
            d = np.empty_like(slope)

            def chunk(rows):
                V, g, damped = self.V[rows], slope[rows], tau[rows, None]
                image = (g[:, None, :] @ V)[:, 0] / (self.squares[rows] + damped)
                np.divide((V @ image[:, :, None])[:, :, 0] - g, damped, out=d[rows])

            self._for_chunks(chunk)
            return d
        return low_rank(self.V, tau, w, slope, prox)

    def rank(self) -> np.ndarray:
        """How many columns of V are not zero (agents,)."""
        return self.V.any(axis=1).sum(axis=1)

    def _for_chunks(self, function):
        """Call it for slices of agents that cover all of them."""
        agents, P, count = self.V.shape
        numbers = 4 * (P + count) + (P * count if self.V.strides[0] else 0)
        for_chunks(function, agents, numbers * self.V.itemsize, 2 * P * count)


class Quadratic(NamedTuple):
    """Every agent's model of the network's costs around its w: their sum at w + d is near ``T + G . d + 1/2 d' H d``.

    Fields: ``total`` T (agents,), ``slope`` G (agents, P), the :class:`Hessian` H.
    """

    total: np.ndarray
    slope: np.ndarray
    H: Any  # a Hessian; a NamedTuple that is a Protocol cannot be said

    def change(self, d: np.ndarray, weight: float) -> np.ndarray:
        """``G . d + 1/2 d' H d + weight/2 |d|^2``, shape (agents,): the change along d with a quadratic r's curvature."""
        change: np.ndarray = np.vecdot(self.slope, d) + (self.H.square(d) + weight * np.vecdot(d, d)) / 2
        return change

    def minimiser(self, tau: np.ndarray, w: np.ndarray, prox: Regularizer | None) -> np.ndarray:
        """The d (agents, P) of least ``G . d + 1/2 d' H d + tau/2 |d|^2 + r(w + d)``, r being ``prox``, or zero if None."""
        return self.H.minimiser(tau, w, self.slope, prox)

    def of(self, agents: np.ndarray | slice) -> "Quadratic":
        """The models of some ``agents``, a slice of them or an array of indices."""
        return rows(self, agents)
