"""What schedules share: equality, random streams, names of agents, a bounded memory of past work."""

import numpy as np


class Schedule:
    """Equality and hash by `_settings()`, what fixes every matrix of a schedule.

    Attributes
    ----------
    static : bool
        Whether all rounds, without end, are known to have the same matrix. A class with a ``key`` of its own is taken to
        change unless it says otherwise itself, whatever it was derived from.
    """

    static = False

    def __init_subclass__(cls, **settings):
        super().__init_subclass__(**settings)
        if "key" in vars(cls) and "static" not in vars(cls):
            cls.static = False

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self._settings() == other._settings()

    def __hash__(self):
        return hash((type(self), self._settings()))


def is_static(schedule):
    """Whether a schedule, a user's own too, says that all rounds have the same matrix; False where it says nothing."""
    return bool(getattr(schedule, "static", False))


def labels(schedule):
    """What each agent is called: the attribute ``"label"`` of the graphs' nodes, else its number.

    Examples
    --------
    >>> import networkx, topologies
    >>> labels(topologies.Static(networkx.Graph([("ann", "bob")])))
    ['ann', 'bob']
    """
    nodes = schedule.graph(0).nodes if hasattr(schedule, "graph") else {}
    return [nodes[k].get("label", k) if k in nodes else k for k in range(schedule.agents)]


class Recent:
    """The last few results of some work, by key. It is empty again when it has been sent to another process.

    Examples
    --------
    >>> squares = Recent(most=2)
    >>> [squares.get(n, lambda n=n: n * n) for n in (2, 3, 2)]
    [4, 9, 4]
    """

    def __init__(self, most=8):
        self._most, self._results = most, {}

    def __reduce__(self):
        return Recent, (self._most,)

    def get(self, key, make):
        """Return the result kept under `key`; else call ``make()`` and keep what it returns in place of the oldest."""
        if key not in self._results:
            result = make()
            if len(self._results) >= self._most:
                del self._results[next(iter(self._results))]
            self._results[key] = result
        return self._results[key]


def stream(tag, seed, round):
    """Random generator of a round; `tag`, four bytes, keeps the uses of one seed apart.

    Examples
    --------
    >>> stream(b"edge", 0, 5).random() == stream(b"edge", 0, 5).random() != stream(b"link", 0, 5).random()
    True
    """
    # A spawn key, unlike a list of integers, keeps apart the streams of any two pairs (seed, round).
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int.from_bytes(tag, "big"), round)))
