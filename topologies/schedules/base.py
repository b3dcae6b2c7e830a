"""What a schedule is, a user's own too, and what those of this package share."""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy import sparse

Result = TypeVar("Result")


class ScheduleLike(Protocol):
    """What an object must have to be a schedule: these three members. It need not be derived from anything.

    Rounds are asked for in any order, some never, some more than once, and every process asks its own copy: the answer for a
    round must always be the same. So draw random numbers from a generator made from the round, such as
    ``numpy.random.default_rng([seed, round])``, and keep no generator from one round to the next. Often no class of one's own
    is needed: `topologies.Sequence` makes a schedule of a function from a round to its graph, `topologies.Periodic` of a list
    of graphs.

    Attributes
    ----------
    agents : int
        How many agents there are, A; at least 1, and the same in all rounds.

    Notes
    -----
    The members below are optional: they are used where they are there.

    ``static`` : bool
        Whether all rounds, without end, have the same matrix. It alone says so; where it is missing the schedule counts as one
        that changes, however alike its first rounds are. Asked by solvers that are proven for static networks alone or need
        fewer exchanges there, and by `topologies.conditions` and `topologies.check`.
    ``graph(round)`` : networkx.Graph or networkx.DiGraph
        The graph of a round, nodes 0, ..., A - 1, with an edge from j to i wherever entry (i, j) of the matrix is not zero.
        A new one in every call, because callers change it. The node attribute ``"label"`` is what messages and pictures call
        the agent, ``"pos"`` is where pictures draw it. Needed by `topologies.LinkFailure` and `topologies.AgentFailure`, by
        engines with ``strict=True``, which check every message against it, and by pictures of networks.
    ``union()`` : scipy.sparse.csr_array of float64, shape (A, A)
        Ones on all edges that come back again and again, entry (i, j) for an edge from i to j (laid out as by
        `topologies.adjacency`: the other way round than a mixing matrix). Needed by `topologies.components`; without it
        `topologies.conditions` takes the edges of the rounds that it looks at. Checkpoints compare it.
    ``meets_all`` : bool
        Whether every two agents meet again and again. Then ``union()``, a dense matrix, is not called by
        `topologies.components` and by checkpoints.

    The processes engine sends the schedule to its workers by cloudpickle. A run that goes on from a checkpoint must have a
    schedule of the same class and attributes as the run before. A frozen dataclass of plain settings, as below, serves both.

    Examples
    --------
    Agents take turns to be heard by all others, who give what they hear the weight ``trust``:

    >>> import topologies
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from topologies import ScheduleLike
    >>> @dataclass(frozen=True)
    ... class Speakers:
    ...     agents: int
    ...     trust: float
    ...     def key(self, round):
    ...         return round % self.agents
    ...     def weights(self, key):
    ...         matrix = (1 - self.trust) * np.eye(self.agents)
    ...         matrix[:, key] += self.trust
    ...         return sparse.csr_array(matrix)
    >>> network: ScheduleLike = Speakers(agents=4, trust=0.5)
    >>> found = topologies.conditions(network)
    >>> found.row_stochastic, found.column_stochastic, found.period, found.window
    (True, False, 4, 4)
    """

    @property
    def agents(self) -> int: ...

    def key(self, round: int, /) -> Hashable:
        """What tells the matrix of a round, 0, 1, 2, ..., from others: equal keys mean equal matrices.

        Engines keep by key what they made ready for a matrix (who sends which rows to whom), and `topologies.conditions`
        looks at every key once. Where no matrix ever comes back, return the round itself.
        """
        ...

    def weights(self, key: Any, /) -> sparse.csr_array:
        """The mixing matrix of a key, of real numbers, shape (A, A), in CSR format.

        Row i holds what agent i gives to the values that it has and receives, so entry (i, j) off the diagonal needs an edge
        from j to i. Every entry stored off the diagonal is a message: store no zeros there. Callers do not change the matrix,
        so it may be the same object in every call. Called by engines in the first of the rounds that share a key, and again
        when they had to forget it; by the functions of `topologies.analysis`; and by failures laid over the schedule.
        """
        ...


class Schedule:
    """Equality and hash by ``_settings()``, all that fixes the matrices; what the schedules of this package derive from.

    Attributes
    ----------
    static : bool
        Whether all rounds, without end, have the same matrix. A class that defines ``key`` is taken to change unless it also
        defines ``static``, whatever it was derived from.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "key" in vars(cls) and "static" not in vars(cls):
            cls.static = False  # type: ignore[attr-defined]  # some have an attribute, others a property

    def _settings(self) -> Hashable:
        raise NotImplementedError(f"{type(self).__name__} must define _settings(), all that fixes its matrices")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._settings() == other._settings()

    def __hash__(self) -> int:
        return hash((type(self), self._settings()))


def is_static(schedule: ScheduleLike) -> bool:
    """Whether a schedule, a user's own too, says that all rounds have the same matrix; False where it says nothing."""
    return bool(getattr(schedule, "static", False))


def labels(schedule: ScheduleLike) -> list[Any]:
    """What each agent is called: the attribute ``"label"`` of the graphs' nodes, else its number.

    Examples
    --------
    >>> import networkx, topologies
    >>> from topologies.schedules import labels
    >>> labels(topologies.Static(networkx.Graph([("ann", "bob")])))
    ['ann', 'bob']
    """
    nodes = schedule.graph(0).nodes if hasattr(schedule, "graph") else {}
    return [nodes[k].get("label", k) if k in nodes else k for k in range(schedule.agents)]


class Recent:
    """The last few results of some work, by key. A copy that is sent to another process starts empty.

    Examples
    --------
    >>> from topologies.schedules.base import Recent
    >>> squares = Recent(most=2)
    >>> [squares.get(n, lambda n=n: n * n) for n in (2, 3, 2)]
    [4, 9, 4]
    """

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._results: dict[Hashable, Any] = {}

    def __reduce__(self) -> tuple:
        return Recent, (self._most,)

    def get(self, key: Hashable, make: Callable[[], Result]) -> Result:
        """Return the result kept under `key`; else call ``make()`` and keep what it returns in place of the oldest."""
        if key not in self._results:
            result = make()
            if len(self._results) >= self._most:
                del self._results[next(iter(self._results))]
            self._results[key] = result
        return self._results[key]


def stream(tag: bytes, seed: int, round: int) -> np.random.Generator:
    """Random generator of a round; `tag`, four bytes, keeps the uses of one seed apart.

    Examples
    --------
    >>> from topologies.schedules.base import stream
    >>> stream(b"edge", 0, 5).random() == stream(b"edge", 0, 5).random() != stream(b"link", 0, 5).random()
    True
    """
    # A spawn key, unlike a list of integers, keeps apart the streams of any two pairs (seed, round).
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int.from_bytes(tag, "big"), round)))
