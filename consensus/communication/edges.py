"""The edges of agents, seen from their ends."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp


class Edges(NamedTuple):
    """For each of a block of agents its neighbours, side by side, in ascending order.

    Fields, all (agents, most), with ``most`` the largest number of neighbours that any agent of the network has: whether there
    is such a neighbour, ``there``; its number in the network, ``others``; its weight W_ij, ``weights``; and at which place it
    has the agent among its own neighbours, ``places``. Where there is none, numbers and weights are zero.

    Examples
    --------
    Of a path of three agents, the two that come first:

    >>> import topologies
    >>> from consensus.communication.edges import Edges
    >>> ends = Edges.of(topologies.metropolis(topologies.path(3)), slice(0, 2))
    >>> ends.others.tolist(), ends.there.tolist(), ends.places.tolist()
    ([[1, 0], [0, 2]], [[True, False], [True, True]], [[0, 0], [0, 0]])
    """

    there: np.ndarray
    others: np.ndarray
    weights: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, whole: sp.csr_array, agents: slice) -> "Edges":
        """Those of ``agents``, from the mixing matrix of all.

        ValueError if its pattern is not symmetric.
        """
        entries = whole.tocoo()
        edges = (entries.row != entries.col) & (entries.data != 0)
        order = np.lexsort((entries.col[edges], entries.row[edges]))
        receivers, senders, weights = (part[edges][order] for part in (entries.row, entries.col, entries.data))
        place = np.arange(len(receivers)) - np.searchsorted(receivers, receivers)
        back = np.lexsort((receivers, senders))  # the same edges, by their other ends
        if not (np.array_equal(receivers[back], senders) and np.array_equal(senders[back], receivers)):
            raise ValueError("neighbours can tell each other something only where both hear each other: give symmetric weights")
        shape = (whole.shape[0], int(place.max(initial=-1)) + 1)
        filled = [np.zeros(shape, kind) for kind in (bool, np.intp, weights.dtype, np.intp)]
        for array, values in zip(filled, (True, senders, weights, place[back]), strict=True):
            array[receivers, place] = values
        return cls(*(array[agents] for array in filled))
