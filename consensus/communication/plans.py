"""Plans of exchanges: the rows that a block mixes, and the edges of a round."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from consensus import _checks
from consensus._arrays.rows import multiplication
from topologies.schedules import ScheduleLike

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
    >>> from consensus.communication.plans import Edges
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


_KEPT = 64  # plans at most, by the schedule's key
_KEPT_NUMBERS = 1 << 24  # weights in them at most; the newest two plans are kept in any case

Prepare: TypeAlias = Callable[[sp.csr_array, sp.csr_array], tuple[sp.csr_array, Any]]


class Plan(NamedTuple):
    """A mixing matrix, prepared for a block of agents.

    Attributes
    ----------
    agents : int
        Agents of the block.
    matrix : csr_array
        Their rows of the matrix; ``times`` is its product with rows.
    senders : ndarray of int (entries,)
        The agent whose row each entry of ``matrix`` multiplies.
    messages : int
        Messages that the block receives.
    copies, both : ndarray of int (agents,)
        Messages that each agent sends, and that it sends and receives.
    own : ndarray of bool (agents,)
        Whether it gives its own row a weight.
    extra : object
        What the engine prepared.
    """

    agents: int
    matrix: sp.csr_array
    times: Callable[[np.ndarray], np.ndarray]
    senders: np.ndarray
    messages: int
    copies: np.ndarray
    both: np.ndarray
    own: np.ndarray
    extra: Any


class Plans:
    """The plans of a block of agents, ``rows``, that mix in ``dtype``.

    ``prepare`` makes ``(matrix, extra)`` of a plan from the whole mixing matrix and the block's rows of it.
    """

    def __init__(self, schedule: ScheduleLike, rows: slice, dtype: np.dtype, prepare: Prepare) -> None:
        self.schedule, self.rows, self.dtype, self.prepare = schedule, rows, dtype, prepare
        self.kept: dict[tuple[Hashable, str], Plan] = {}

    def at(self, round: int, kind: str) -> Plan:
        """Return the plan of a round; see :meth:`of`."""
        key = self.schedule.key(round)
        return self.kept.get((key, kind)) or self.of(key, kind)

    def of(self, key: Hashable, kind: str) -> Plan:
        """Return the plan of the schedule's ``key``; ``kind`` is "mix", or "average" for equal weights."""
        plan = self.kept.get((key, kind))
        if plan is None:
            self._make_room()
            plan = self.kept[key, kind] = self._made(key, kind)
        return plan

    def _made(self, key: Hashable, kind: str) -> Plan:
        agents = self.schedule.agents
        whole = _checks.mixing(self.schedule.weights(key), self.schedule)
        if kind == "average":
            degrees = np.diff(whole.indptr)
            whole = sp.csr_array((np.repeat(1 / degrees, degrees), whole.indices, whole.indptr), shape=whole.shape)
        matrix = (whole if self.rows == slice(0, agents) else whole[self.rows]).astype(self.dtype, copy=False)
        own = whole.diagonal()[self.rows] != 0
        received = np.diff(matrix.indptr) - own
        copies = np.bincount(whole.indices, minlength=agents)[self.rows] - own
        senders = matrix.indices
        matrix, extra = self.prepare(whole, matrix)
        messages, both = int(received.sum()), copies + received
        return Plan(len(copies), matrix, multiplication(matrix), senders, messages, copies, both, own, extra)

    def _make_room(self) -> None:
        """Forget the oldest plans if there are many or large ones."""
        while len(self.kept) >= _KEPT or (
            len(self.kept) > 2 and sum(plan.matrix.nnz for plan in self.kept.values()) > _KEPT_NUMBERS
        ):
            del self.kept[next(iter(self.kept))]
