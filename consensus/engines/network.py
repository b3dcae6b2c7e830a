"""What a block of agents sees of the network."""

import functools
from abc import ABC, abstractmethod
from collections import Counter
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

import topologies

_PATIENCE = 20  # times as many exchanges as there are agents are looked at before a network counts as not connected
_CACHED = 64  # plans kept, by the schedule's key,
_CACHED_NUMBERS = 1 << 24  # and weights in them: the newest two plans are kept in any case


class Plan(NamedTuple):
    """What one mixing matrix asks of a block of agents.

    Fields: the block's rows of the ``matrix``, as CSR; the number of ``messages`` that its agents receive, one an edge;
    whatever else an engine prepares, in ``extra``.
    """

    matrix: sp.csr_array
    messages: int
    extra: object


class Network(ABC):
    """Mixes the blocks of some agents with their neighbours', and counts what is sent.

    Parameters
    ----------
    schedule : schedule
    rows : slice
        The agents held here.
    dtype : numpy.dtype
    strict : bool
        Check in every exchange that each message runs along an edge of that round's graph.

    Attributes
    ----------
    exchanges : int
        Calls of :meth:`mix` so far: each is one exchange of every agent with its neighbours.
    messages : int
        Rows received so far by the agents held here, one an edge and direction; over all blocks, the network's messages.
    floats : int
        Numbers in them.
    record : list of (sender, receiver, round)
        Every message, if ``strict``.
    """

    def __init__(self, schedule, rows, dtype, strict=False):
        self.schedule, self.rows, self.dtype, self.strict = schedule, rows, np.dtype(dtype), strict
        self.exchanges = self.messages = self.floats = 0
        self.record = []
        self._plans = {}

    @property
    def counts(self):
        """What was sent so far, by name, for the history: exchanges, messages, floats and bytes."""
        return {
            "exchanges": self.exchanges,
            "messages": self.messages,
            "floats": self.floats,
            "bytes": self.floats * self.dtype.itemsize,
        }

    def per_edge(self):
        """How many messages each edge carried, {(sender, receiver): count}; a ``strict`` network knows."""
        return dict(Counter((sender, receiver) for sender, receiver, _ in self.record))

    @property
    def agents(self):
        """A, the number of agents of the whole network."""
        return self.schedule.agents

    def mix(self, round, *blocks):
        """The rows held here of ``W[round] @ block``, for blocks (agents, ...) sent together in one exchange; new arrays.

        They are sent and mixed in the problem's dtype.
        """
        return self._exchange(round, "mix", blocks)

    def average(self, round, *blocks):
        """As :meth:`mix`, but every agent averages its own row and those it receives: row stochastic on any graph."""
        return self._exchange(round, "average", blocks)

    def _exchange(self, round, kind, blocks):
        plan = self._plan(self.schedule.key(round), kind)
        if self.strict:
            self._check_edges(round, plan)
        blocks = [block.astype(self.dtype, copy=False) for block in blocks]
        self.exchanges += 1
        self.messages += plan.messages
        self.floats += plan.messages * sum(block[0].size for block in blocks)
        return tuple(plan.matrix @ whole for whole in self._gather(plan, blocks))

    @property
    def static(self):
        """Whether every round has the same graph."""
        return isinstance(self.schedule, topologies.Static)

    @functools.cached_property
    def least_eigenvalue(self):
        """Gershgorin's lower bound for the eigenvalues of W, where that is symmetric and the same in all rounds; else None."""
        matrix = self.schedule.weights(self.schedule.key(0)) if self.static and self.agents > 1 else None
        if matrix is None or abs(matrix - matrix.T).max() > 1e-12:
            return None
        return 2 * float(matrix.diagonal().min()) - 1

    def crossing(self, round):
        """How many exchanges, the first in ``round``, it takes until everyone has heard from everyone.

        Agents find out by a flood of their names, which is counted. ValueError if that never happens.
        """
        everything = np.packbits(np.ones(self.agents, bool))
        heard = np.packbits(np.eye(self.agents, dtype=bool), axis=1)
        for count in range(_PATIENCE * self.agents + 10):
            if (heard == everything).all():
                self.floats += self._plan(self.schedule.key(round), "mix").messages * self.agents
                return count
            matrix = self.schedule.weights(self.schedule.key(round + count))
            matrix = sp.csr_array(abs(matrix) + sp.eye_array(self.agents))
            before, heard = heard, np.bitwise_or.reduceat(heard[matrix.indices], matrix.indptr[:-1])
            if self.static and (heard == before).all():
                break
        raise ValueError(f"in {count} exchanges the agents did not hear from each other: the network must be connected")

    def flood(self, round, rows):
        """Every agent's row of small numbers, shape (A, ...), as all know them after enough exchanges.

        Each row crosses each edge once, both ways, which is counted; the exchanges are not: floods ride along with others, and
        the caller sees to it that these are enough for the news to reach everyone.
        """
        self.floats += self._plan(self.schedule.key(round), "mix").messages * self.agents * rows[0].size
        return self._all_rows(rows.astype(self.dtype))

    @abstractmethod
    def _all_rows(self, rows):
        """The rows (A, ...) of all agents."""

    @abstractmethod
    def _gather(self, plan, blocks):
        """The blocks with the rows that ``plan.matrix`` multiplies, neighbours' included, in the order of agents."""

    def _prepare(self, whole, matrix):
        """``(matrix, extra)`` of a plan, from the whole mixing matrix and the rows of it that are held here."""
        return matrix, None

    def _plan(self, key, kind):
        if (key, kind) not in self._plans:
            self._make_room()
            whole = self.schedule.weights(key)
            if kind == "average":
                whole = _averaging(whole)
            everyone = self.rows == slice(0, self.agents)
            matrix = (whole if everyone else whole[self.rows]).astype(self.dtype, copy=False)
            own = np.count_nonzero(whole.diagonal()[self.rows])
            messages = int(matrix.nnz - own)
            matrix, extra = self._prepare(whole, matrix)
            self._plans[key, kind] = Plan(matrix, messages, extra)
        return self._plans[key, kind]

    def _make_room(self):
        """Forget the oldest plans where there are many or large ones."""
        while len(self._plans) >= _CACHED or (
            len(self._plans) > 2 and sum(plan.matrix.nnz for plan in self._plans.values()) > _CACHED_NUMBERS
        ):
            del self._plans[next(iter(self._plans))]

    def _check_edges(self, round, plan):
        graph = self.schedule.graph(round)
        whole = self.schedule.weights(self.schedule.key(round))[self.rows].tocoo()
        for receiver, sender in zip(whole.row + self.rows.start, whole.col, strict=True):
            if receiver == sender:
                continue
            if not graph.has_edge(sender, receiver):
                raise RuntimeError(f"in round {round} agent {sender} sent to agent {receiver}, which is no edge of the graph")
            self.record.append((int(sender), int(receiver), round))


def _averaging(matrix):
    """Equal weights on the pattern of a CSR ``matrix``, rows summing to one."""
    degrees = np.diff(matrix.indptr)
    return sp.csr_array((np.repeat(1 / degrees, degrees), matrix.indices, matrix.indptr), shape=matrix.shape)
