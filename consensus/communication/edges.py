"""The edges of a block of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Real


class Edges(NamedTuple):
    """The neighbours of each agent of a block, side by side in ascending order.

    All arrays are (agents, most), with ``most`` the largest number of neighbours in the whole network. Places without a
    neighbour hold zeros.

    Attributes
    ----------
    there : ndarray of bool
        Whether there is a neighbour at this place.
    others : ndarray of int
        Number of the neighbour in the network.
    weights : ndarray
        W_ij, the neighbour's weight.
    places : ndarray of int
        Place of the agent among the neighbour's own neighbours.

    Examples
    --------
    The first two agents of a path of three:

    >>> import topologies
    >>> from consensus.communication.edges import Edges
    >>> edges = Edges.of(topologies.metropolis(topologies.path(3)), slice(0, 2))
    >>> edges.others.tolist(), edges.there.tolist(), edges.places.tolist()
    ([[1, 0], [0, 2]], [[True, False], [True, True]], [[0, 0], [0, 0]])
    """

    there: Bool[np.ndarray, "agents most"]
    others: Int[np.ndarray, "agents most"]
    weights: Real[np.ndarray, "agents most"]
    places: Int[np.ndarray, "agents most"]

    @classmethod
    def of(cls, whole: sp.csr_array, agents: slice) -> Edges:
        """Return the edges of some agents.

        Parameters
        ----------
        whole : csr_array (A, A)
            The mixing matrix.
        agents : slice
            The block.

        Returns
        -------
        Edges

        Raises
        ------
        ValueError
            If the pattern of the matrix is not symmetric.
        """
        entries = whole.tocoo()
        edges = (entries.row != entries.col) & (entries.data != 0)
        order = np.lexsort((entries.col[edges], entries.row[edges]))
        receivers, senders, weights = (part[edges][order] for part in (entries.row, entries.col, entries.data))
        place = np.arange(len(receivers)) - np.searchsorted(receivers, receivers)
        back = np.lexsort((receivers, senders))  # the same edges, by their other ends
        if not (np.array_equal(receivers[back], senders) and np.array_equal(senders[back], receivers)):
            raise ValueError("messages to single neighbours need edges in both directions: give symmetric weights")
        shape = (whole.shape[0], int(place.max(initial=-1)) + 1)
        filled = [np.zeros(shape, kind) for kind in (bool, np.intp, weights.dtype, np.intp)]
        for array, values in zip(filled, (True, senders, weights, place[back]), strict=True):
            array[receivers, place] = values
        return cls(*(array[agents] for array in filled))
