"""What the mixing matrices ask of a block of agents: made once for each, and kept while there is room."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from consensus import _checks
from consensus._rows import multiplication
from topologies.schedules import ScheduleLike

_KEPT = 64  # plans, by the schedule's key,
_KEPT_NUMBERS = 1 << 24  # and weights in them: the newest two plans are kept in any case

Prepare: TypeAlias = Callable[[sp.csr_array, sp.csr_array], tuple[sp.csr_array, Any]]


class Plan(NamedTuple):
    """What one mixing matrix asks of a block of agents.

    Fields: how many ``agents`` the block has; its rows of the ``matrix``, as CSR, and their product with rows, a function, in
    ``times``; for each of their entries the agent whose row it multiplies, in ``senders``; the number of ``messages`` that its
    agents receive, one an edge; to how many others each of them sends, in ``copies`` (agents here,), and how many messages it
    sends and receives, in ``both``; whether it has a weight for its own row, in ``own``; whatever else an engine prepares, in
    ``extra``.
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
    """The plans of one block of agents.

    Parameters
    ----------
    schedule : schedule
    rows : slice
        The agents of the block.
    dtype : numpy.dtype
        In which they mix.
    prepare : callable
        ``(matrix, extra)`` of a plan, from the whole mixing matrix and the rows of it that are the block's.
    """

    def __init__(self, schedule: ScheduleLike, rows: slice, dtype: np.dtype, prepare: Prepare) -> None:
        self.schedule, self.rows, self.dtype, self.prepare = schedule, rows, dtype, prepare
        self.kept: dict[tuple[Hashable, str], Plan] = {}

    def at(self, round: int, kind: str) -> Plan:
        """That of a ``round``, as :meth:`of` its key."""
        key = self.schedule.key(round)
        return self.kept.get((key, kind)) or self.of(key, kind)

    def of(self, key: Hashable, kind: str) -> Plan:
        """That of the schedule's ``key``; ``kind`` is "mix", or "average" for equal weights in its place."""
        plan = self.kept.get((key, kind))
        if plan is None:
            self._make_room()
            plan = self.kept[key, kind] = self._made(key, kind)
        return plan

    def _made(self, key, kind):
        agents = self.schedule.agents
        whole = _checks.mixing(self.schedule.weights(key), self.schedule)
        if kind == "average":
            whole = _averaging(whole)
        everyone = self.rows == slice(0, agents)
        matrix = (whole if everyone else whole[self.rows]).astype(self.dtype, copy=False)
        own = whole.diagonal()[self.rows] != 0
        received = np.diff(matrix.indptr) - own
        copies = np.bincount(whole.indices, minlength=agents)[self.rows] - own
        senders = matrix.indices
        matrix, extra = self.prepare(whole, matrix)
        messages, both = int(received.sum()), copies + received
        return Plan(len(copies), matrix, multiplication(matrix), senders, messages, copies, both, own, extra)

    def _make_room(self):
        """Forget the oldest plans where there are many or large ones."""
        while len(self.kept) >= _KEPT or (
            len(self.kept) > 2 and sum(plan.matrix.nnz for plan in self.kept.values()) > _KEPT_NUMBERS
        ):
            del self.kept[next(iter(self.kept))]


def _averaging(matrix):
    """Equal weights on the pattern of a CSR ``matrix``, rows summing to one."""
    degrees = np.diff(matrix.indptr)
    return sp.csr_array((np.repeat(1 / degrees, degrees), matrix.indices, matrix.indptr), shape=matrix.shape)
