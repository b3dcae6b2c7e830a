"""Models of the agents' own: what they do not agree on, and what couples them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse


class Personal(NamedTuple):
    """What agents minimise who have models, or parts of models, of their own.

        (1/A) [ sum_i f_i(x_i)  +  sum_{i<j} c_ij/2 |x_i - x_j|^2 ],      equal in the parameters that are not ``own``.

    Attributes
    ----------
    own : ndarray of bool (P,)
        The parameters that every agent has for itself.
    coupling : csr_array (A, A) or None
        The c_ij, symmetric; None if they are zero.
    """

    own: np.ndarray
    coupling: sparse.csr_array | None = None

    def points(self, w: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return the agents' points: rows of ``w`` (agents, P), with the ``mean`` (P,) where agents agree."""
        return np.asarray(np.where(self.own, w, mean))
