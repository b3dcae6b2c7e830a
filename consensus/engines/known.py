"""What a block of agents knows of the whole network, and what was counted of its exchanges."""

import functools
from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from consensus.engines import sums
from consensus.engines.hubs import Hubs
from consensus.engines.plans import Plan, Plans
from consensus.engines.spanning_tree import SpanningTree
from consensus.engines.trees import Tree
from topologies.analysis import crossing
from topologies.schedules import ScheduleLike, is_static

if TYPE_CHECKING:
    from consensus.packing import Multiples

_CHUNK = 1 << 22  # rows over edges that a flood treats together
FEW = 256  # agents, at most, that get to know the whole graph


class Known(ABC):
    """What is known without an exchange, or beside those that are made anyway; :class:`Network` makes these."""

    def __init__(self, schedule: ScheduleLike, rows: slice, dtype: np.dtype, strict: bool = False) -> None:
        self.schedule, self.rows, self.dtype, self.strict = schedule, rows, np.dtype(dtype), strict
        self.exchanges = self.messages = self.floats = self.bytes = 0
        self.record: list[tuple[int, int, int]] = []
        self._traffic = np.zeros(rows.stop - rows.start, np.int64)
        self._plan: Plan | None = None  # the plan of the last exchange, and the numbers in messages not yet in the traffic
        self._numbers = 0
        self._hubs: dict[int, Hubs] = {}
        self._plans = Plans(schedule, rows, self.dtype, self._prepare)

    @property
    def counts(self) -> dict[str, int]:
        """What was sent so far, by name, for the history: exchanges, messages, floats and bytes."""
        return {
            "exchanges": self.exchanges,
            "messages": self.messages,
            "floats": self.floats,
            "bytes": self.bytes,
        }

    @property
    def traffic(self) -> np.ndarray:
        """The bytes (agents,) that each agent held here sent and received so far. Over all agents they sum to 2 ``bytes``."""
        self._settle()
        return self._traffic

    def per_edge(self) -> dict[tuple[int, int], int]:
        """How many messages each edge carried, {(sender, receiver): count}; a ``strict`` network knows."""
        return dict(Counter((sender, receiver) for sender, receiver, _ in self.record))

    @property
    def agents(self) -> int:
        """A, the number of agents of the whole network."""
        return self.schedule.agents

    @property
    def static(self) -> bool:
        """Whether every round has the same matrix, as the schedule says: agents know that of their network from the start."""
        return is_static(self.schedule)

    @functools.cached_property
    def both_ways(self) -> bool:
        """Whether all links go both ways in the exchanges until everyone has heard from everyone: agents are given that."""
        links = [self.schedule.weights(self.schedule.key(round)) != 0 for round in range(self.crossing(0))]
        return not any((matrix != matrix.T).nnz for matrix in links)

    @functools.cached_property
    def least_eigenvalue(self) -> float | None:
        """Gershgorin's lower bound for the eigenvalues of W, where that is symmetric and the same in all rounds; else None.

        Agents know it after an exchange in which each told its neighbours their weights, and as many more as :meth:`crossing`
        takes, in which the least diagonal and whether all is symmetric went round.
        """
        matrix = self.schedule.weights(self.schedule.key(0)) if self.static and self.agents > 1 else None
        if matrix is None or abs(matrix - matrix.T).max() > 1e-12:
            return None
        return 2 * float(matrix.diagonal().min()) - 1

    @property
    def names(self) -> int:
        """How many numbers it takes to say for each of A agents yes or no: a bit each."""
        return -(-self.agents // (8 * self.dtype.itemsize))

    def crossing(self, round: int) -> int:
        """How many exchanges, the first in ``round``, it takes until everyone has heard from everyone.

        Agents find out when every message says whom its sender has heard from (:attr:`names` numbers ``beside`` the rest).
        ValueError if they never do.
        """
        return self._diameter if self.static else crossing(self.schedule, round)

    @functools.cached_property
    def _diameter(self) -> int:
        return crossing(self.schedule)

    def all_say(self, yes: np.ndarray) -> bool:
        """Whether ``yes`` (agents,) holds of all agents of the network, once the news has crossed it.

        The caller counts the numbers that carry the news, ``beside`` the exchanges.
        """
        return bool(self._all_rows(np.asarray(yes, self.dtype)).all())

    def least(self, round: int, exchanges: int, values: np.ndarray, beside: int = 0) -> float:
        """The least of all agents' ``values`` (agents,), as all know it after some exchanges, the first in ``round``.

        These are exchanges of their own, at least as many as :meth:`crossing` says: each message carries the least value that
        its sender knows of, and ``beside`` more numbers.
        """
        self.talk(round, exchanges, 1 + beside)
        return float(self._all_rows(values[:, None].astype(self.dtype, copy=False)).min())

    def talk(self, round: int, exchanges: int, numbers: int) -> None:
        """So many exchanges, the first in ``round``, in which neighbours tell each other ``numbers`` of what they know.

        They are counted, no more: what the agents know thereby is the caller's to say.
        """
        for n in range(round, round + exchanges):
            plan = self._plans.at(n, "mix")
            if self.strict:
                self._check_edges(n, plan)
            self._count_exchange(plan, numbers)

    def sum(self, exchanges: int, rows: np.ndarray) -> np.ndarray:
        """The sum (n,) of all agents' ``rows`` (agents, n) on a graph that stands still, as all know it after ``exchanges``.

        These are exchanges of their own, at least as many as :meth:`crossing` says, through :meth:`hubs`.
        """
        hubs = self.hubs(exchanges)
        self.exchanges += exchanges
        self.messages += hubs.messages(self.rows)
        return sums.rows(self, hubs, rows)

    def flood(self, round: int, exchanges: int, rows: np.ndarray) -> np.ndarray:
        """Every agent's row of numbers, shape (A, ...), as all know them after some exchanges, the first in ``round``.

        Rows ride along with exchanges that are made anyway: no messages of their own are counted, but all the numbers are that
        neighbours send each other over the edges of these rounds. In every exchange agent j sends to i the rows that it had
        before, each with its owner's name as one number more; it leaves out i's row and those that one of the two has sent to
        the other. ValueError if not everyone has all rows in the end.
        """
        everyone = np.arange(self.agents)
        got = np.full((self.agents, self.agents), exchanges + 1)  # after how many exchanges an agent (row) has whose row
        got[everyone, everyone] = 0
        met = np.zeros_like(got)  # after which exchange, the latest, agent (row) had something from whom
        carried = np.zeros((2, self.agents), np.int64)  # rows that agents send, and those that they receive
        for t in range(exchanges):
            matrix = self.schedule.weights(self.schedule.key(round + t)).tocoo()
            edges = np.argwhere(matrix.row != matrix.col)[:, 0]
            before = got.copy()
            for part in np.array_split(edges, 1 + len(edges) * self.agents // _CHUNK):
                i, j = matrix.row[part], matrix.col[part]
                new = (before[j] <= t) & (before[j] >= met[i, j, None]) & (before[i] >= met[j, i, None])
                new[np.arange(len(i)), i] = False
                rows_of_edges = np.count_nonzero(new, axis=1)
                for ends, count in zip((j, i), carried, strict=True):
                    np.add.at(count, ends, rows_of_edges)
                edge, owner = new.nonzero()
                got[i[edge], owner] = np.minimum(got[i[edge], owner], t + 1)
            met[matrix.row[edges], matrix.col[edges]] = t + 1
        if (got > exchanges).any():
            raise ValueError(f"{exchanges} exchanges do not bring every agent's row to every other")
        sent, received = carried[:, self.rows] * (1 + rows[0].size)
        self._count(int(received.sum()))
        self._traffic += (sent + received) * self.dtype.itemsize
        return self._all_rows(rows.astype(self.dtype))

    @functools.cached_property
    def tree(self) -> Tree | None:
        """The tree of shortest ways from the centre of a graph that stands still, if its links go both ways; else None.

        Agents know it as soon as they know, by :meth:`crossing`, that they have heard from everyone: the agent whose news was
        everywhere first (of several the one with the least number) is the centre, and an agent's parent is the neighbour
        from whom it first heard of it, which it then tells that neighbour. So they know the tree of every other agent, too.
        """
        return Tree.of(self.schedule.weights(self.schedule.key(0))) if self.static and self.agents > 1 else None

    @functools.cached_property
    def spanning_tree(self) -> SpanningTree:
        """Sums over all agents along a breadth-first tree from the centre, for solvers whose ``needs`` say ``tree=True``."""
        tree = Tree.of(self.schedule.weights(self.schedule.key(0)))
        assert tree is not None, "a solver that needs a tree is refused where there is none"
        return SpanningTree(self, tree)  # type: ignore[arg-type]  # every Known is a Network

    @property
    def acquainted(self) -> bool:
        """Whether all agents know the whole graph once they have heard from everyone who its neighbours are.

        At most 256 do, where there is a :attr:`tree`.
        """
        return self.agents <= FEW and self.tree is not None

    def hubs(self, exchanges: int) -> Hubs:
        """Through whom sums go if they are to take at most so many ``exchanges``, at least as many as :meth:`crossing` says.

        Where agents are not :attr:`acquainted` there is one hub or all are. Only where there is a :attr:`tree`.
        """
        found = self._hubs.get(exchanges)
        if found is None:
            if self.acquainted:
                found = Hubs.of(self.schedule.weights(self.schedule.key(0)), exchanges)
            elif self.tree is not None and 2 * self.tree.depth <= exchanges:
                found = Hubs.centre(self.tree, self.schedule.weights(self.schedule.key(0)))
            else:
                found = Hubs.everyone(self.schedule.weights(self.schedule.key(0)), exchanges)
            self._hubs[exchanges] = found
        return found

    def total(self, own: "Multiples", exchanges: int) -> tuple[np.ndarray, np.ndarray]:
        """The sum (P, columns) of all agents' blocks, the same for all, and the blocks' steps (A,).

        It rides along with ``exchanges`` that are made anyway, at least as many as :meth:`crossing` says, through :meth:`hubs`:
        no messages of their own are counted, but the bytes are. Steps that are powers of two of one another make all sums on
        the way exact. Only where there is a :attr:`tree`.
        """
        assert self.tree is not None, "sums go along trees"
        return sums.multiples(self, self.hubs(exchanges), own)

    @abstractmethod
    def _all_rows(self, rows: np.ndarray) -> np.ndarray:
        """The rows (A, ...) of all agents, from those of the agents held here. Not counted: it is no exchange of agents."""

    def _prepare(self, whole: sp.csr_array, matrix: sp.csr_array) -> tuple[sp.csr_array, Any]:
        """``(matrix, extra)`` of a plan, from the ``whole`` mixing matrix (A, A) and its rows of the agents held here.

        A narrower ``matrix`` keeps its entries in their order.
        """
        return matrix, None

    def _count_exchange(self, plan, numbers):
        """Count an exchange along a plan's edges, with so many numbers in each message, in the problem's dtype."""
        if plan is not self._plan:
            self._settle()
            self._plan = plan
        self._numbers += numbers
        self._count_messages(plan.messages, numbers)

    def _count_messages(self, messages, numbers):
        carried = messages * numbers
        self.exchanges += 1
        self.messages += messages
        self.floats += carried
        self.bytes += carried * self.dtype.itemsize

    def _count_sizes(self, plan, numbers, sent, received):
        """Count an exchange along a plan's edges, of so many numbers a message; bytes ``sent`` and ``received`` (agents,)."""
        self._count_messages(plan.messages, 0)
        self._count(int(plan.copies.sum()) * numbers, int(sent.sum()))
        self._traffic += sent + received

    def _settle(self):
        """Bring what exchanges along the last plan's edges carried into the traffic."""
        if self._plan is not None and self._numbers:
            self._traffic += self._plan.both * (self._numbers * self.dtype.itemsize)
            self._numbers = 0

    def _count(self, numbers, size=None):
        """Count numbers sent, of ``size`` bytes, by default in the problem's dtype."""
        self.floats += numbers
        self.bytes += numbers * self.dtype.itemsize if size is None else size

    def _check_edges(self, round, plan):
        graph = self.schedule.graph(round)
        whole = self.schedule.weights(self.schedule.key(round))[self.rows].tocoo()
        for receiver, sender in zip(whole.row + self.rows.start, whole.col, strict=True):
            if receiver == sender:
                continue
            if not graph.has_edge(sender, receiver):
                raise RuntimeError(f"in round {round} agent {sender} sent to agent {receiver}, which is no edge of the graph")
            self.record.append((int(sender), int(receiver), round))
