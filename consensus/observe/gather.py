"""Collection of sums, counts and rows from blocks of agents, for the observer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from consensus._arrays.files import Hold
from consensus.checkpoints.checkpoint import Checkpoint, write
from consensus.observe.protocols import Masks

if TYPE_CHECKING:
    from jaxtyping import Shaped, UInt64

_NUMBERS = 1 << 14  # of rows that are added at a time: they stay in a core's cache
_WIDE = 1 << 11  # numbers in a row, from which a loop over rows in Python costs nothing


def added(total: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return ``total + rows[0] + rows[1] + ...``, added one after the other.

    Because the order is that of the rows, a sum that one process begins and others go on with has the bits of one process that
    has all rows. (NumPy adds rows like this, too, unless they hold one number.)

    Parameters
    ----------
    total : ndarray (P,)
        The sum so far.
    rows : ndarray (agents, P)
        What is added to it.

    Returns
    -------
    ndarray (P,)
        The sum.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.observe.gather import added
    >>> rows = np.random.default_rng(0).standard_normal((1000, 3))
    >>> first = added(np.zeros(3), rows[:317])
    >>> bool((added(first, rows[317:]) == added(np.zeros(3), rows)).all())
    True
    """
    width = len(total)
    if not isinstance(rows, np.ndarray):  # of a device, where sums have an order of their own
        return total + rows.sum(axis=0)
    if width == 1:  # a column, whose sum NumPy would split
        return np.add.accumulate(np.concatenate([total, rows[:, 0]]))[-1:]
    if width >= _WIDE:
        total = total.copy()
        for row in rows:
            total += row
        return total
    few = _NUMBERS // max(1, width)
    for first in range(0, len(rows), few):
        part = rows[first : first + few]
        both = np.empty((1 + len(part), width), total.dtype)  # row after row, whatever the order of a user's array
        both[0], both[1:] = total, part
        total = both.sum(axis=0)
    return total


NAMES = ("exchanges", "messages", "floats", "bytes", "gradients", "samples", "solves", "iterations", "unfinished")
BETWEEN_HOSTS = "bytes_between_hosts"  # only where agents are on several machines
# The others are the same in all blocks.
_SUMMED = ("messages", "floats", "bytes", BETWEEN_HOSTS, "samples", "iterations", "unfinished")


def total(counts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of the network from those of its blocks of agents.

    Parameters
    ----------
    counts : sequence of dict
        Counts of each block by name, in the order of the agents.

    Returns
    -------
    dict
        Sums over the blocks, or the common value of counts that are those of each agent.

    Examples
    --------
    >>> from consensus.observe import total
    >>> total([{"exchanges": 3, "messages": 10}, {"exchanges": 3, "messages": 14}])
    {'exchanges': 3, 'messages': 24}
    """
    whole = {name: sum(block[name] for block in counts) if name in _SUMMED else first for name, first in counts[0].items()}
    return whole | ({"traffic": np.concatenate([block["traffic"] for block in counts])} if "traffic" in whole else {})


Result = TypeVar("Result")


class Gather(Protocol):
    """Collective operations of an engine whose processes observe together, each with its block of agents.

    All processes call each method at the same time, and all get the same result.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.engines import Stacked
    >>> class Watched(Stacked):  # whose one process holds all agents
    ...     def run(self, problem, schedule, solver, begin, rounds, observer):
    ...         block = np.arange(3.0)[:, None]
    ...         total = observer.gather.chain(lambda sum: sum + block.sum(), np.zeros(1))
    ...         print(observer.gather.rows(block).shape, total.tolist())
    ...         return super().run(problem, schedule, solver, begin, rounds, observer)
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> result = consensus.solve(problem, topologies.ring(3), consensus.solvers.DGD(0.1), rounds=1, engine=Watched())
    (3, 1) [3.0]
    """

    def rows(self, block: Shaped[np.ndarray, "agents ..."]) -> Shaped[np.ndarray, "all_agents ..."]:
        """Return the rows of all agents: of few numbers each, unless every process is to have them all.

        Parameters
        ----------
        block : ndarray (agents, ...)
            Rows of the agents of this process.

        Returns
        -------
        ndarray (A, ...)
            Rows of all agents.
        """

    def parts(self, block: Shaped[np.ndarray, "agents ..."]) -> Iterator[Shaped[np.ndarray, "some_agents ..."]]:
        """Yield the rows of all agents in their order, so few at a time that no process holds many.

        Parameters
        ----------
        block : ndarray (agents, ...)
            Rows of the agents of this process.

        Yields
        ------
        ndarray (agents, ...)
            Rows of the next agents.
        """

    def chain(self, step: Callable[[np.ndarray], np.ndarray], value: np.ndarray) -> np.ndarray:
        """Pass an array from process to process, in the order of their agents; return what the last one makes of it.

        Parameters
        ----------
        step : callable
            ``step(value)`` is what this process makes of the array: a new one of the same shape and dtype.
        value : ndarray
            What the first process gets, the same in all of them.

        Returns
        -------
        ndarray
            The last process's.
        """

    def masked_sum(self, codes: UInt64[np.ndarray, "agents n"], masks: Callable[[range], Masks]) -> UInt64[np.ndarray, " n"]:
        """Return a sum over all agents modulo 2^64, of which processes send each other masked terms.

        Parameters
        ----------
        codes : ndarray of uint64 (agents, n)
            Codes of the agents of this process.
        masks : callable
            ``masks(agents)`` returns those of some agents, as :meth:`consensus.privacy.SecureSums.masks` does.

        Returns
        -------
        ndarray of uint64 (n,)
            The sum.
        """

    def total(self, counts: dict[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        """Return the counts of the network and the seconds of the slowest process.

        Parameters
        ----------
        counts : dict
            Counts of this process.
        seconds : float
            Seconds spent by this process in rounds.

        Returns
        -------
        tuple of dict and float
            Counts and seconds of the network.
        """

    def once(self, function: Callable[[], Result]) -> Result:
        """Return the result of a function that is called in one process only, the one that reports to the user.

        Parameters
        ----------
        function : callable
            Function without arguments.

        Returns
        -------
        object
            Its result.
        """

    def decide(
        self,
        function: Callable[[Callable[[], Shaped[np.ndarray, "all_agents ..."]]], Result],
        block: Shaped[np.ndarray, "agents ..."],
    ) -> Result:
        """Return the result of a function as :meth:`once` does; it may ask for the rows of all agents.

        Parameters
        ----------
        function : callable
            ``function(everyone)`` is called in the process that reports to the user. ``everyone()`` returns the rows (A, ...)
            of all agents there, while the function runs.
        block : ndarray (agents, ...)
            Rows of the agents of this process.

        Returns
        -------
        object
            The function's result.
        """

    def save(self, hold: Hold, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint of the run.

        Parameters
        ----------
        hold : Hold
            Its path, and whether another process of this run writes it.
        checkpoint : Checkpoint
            The rows in its fields are those of the agents of this process; everything else is that of the network.
        """


class Whole:
    """The :class:`Gather` of an engine that observes all agents in one process."""

    def rows(self, block: np.ndarray) -> np.ndarray:
        return block

    def parts(self, block: np.ndarray) -> Iterator[np.ndarray]:
        yield block

    def chain(self, step: Callable[[np.ndarray], np.ndarray], value: np.ndarray) -> np.ndarray:
        return step(value)

    def masked_sum(self, codes: np.ndarray, masks: Callable[[range], Masks]) -> np.ndarray:
        return np.asarray(codes.sum(axis=0))

    def total(self, counts: dict[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        return counts, seconds

    def once(self, function: Callable[[], Result]) -> Result:
        return function()

    def decide(self, function: Callable[[Callable[[], np.ndarray]], Result], block: np.ndarray) -> Result:
        return function(lambda: block)

    def save(self, hold: Hold, checkpoint: Checkpoint) -> None:
        write(hold.path, checkpoint)
