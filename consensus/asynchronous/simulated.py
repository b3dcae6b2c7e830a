"""An engine with a clock of its own."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from consensus import _checks
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.events import Events
from consensus.asynchronous.meetings import Meetings
from consensus.asynchronous.timed import Timed
from consensus.asynchronous.times import Times
from consensus.asynchronous.timetable import Timetable
from consensus.checkpoints.checkpoint import known_by
from consensus.engines import Begin, Engine, Stacked
from consensus.engines.protocols import Problem, Solver
from consensus.observe import Observer
from consensus.solvers.needs import needs_of
from topologies.schedules import ScheduleLike

S = TypeVar("S", bound=Solver)


@dataclass(frozen=True)
class Simulated(Engine):
    """Agents that compute and send on a simulated clock: events in the order of their times, the same on every machine.

    An agent computes for ``compute`` seconds and wakes: it reads the messages that have arrived, updates its state, sends, and
    computes for its next wake. A message that is not lost arrives ``delay`` seconds after it was sent. Agents that wake at the
    same time do so in the order of their numbers, so that without delay each reads what those before it sent. Agents that do
    not depend on each other are computed together, neighbours in the order of agents as one block.

    A solver with rounds runs under the same clock: each of its rounds lasts as long as the slowest agent computes, and each
    exchange as long as the slowest message travels. A lost message is sent again after its delay until it arrives. The history
    has the columns ``clock`` (seconds), ``wakes`` (of all agents; a round is one of each), ``staleness`` (the greatest age, in
    seconds of the clock, of a message when it was read, since the row before) and ``lost`` (messages).

    Agents are in the order of the problem in ``compute``, ``begin`` and ``away``, and pairs of agents in that of the network,
    of ``network.labels``, in ``delay`` and ``loss``.

    Parameters
    ----------
    compute : float, (low, high), distribution, sequence or path
        Seconds before each wake, above 0: a number; a pair, between which they are uniform; a frozen
        distribution of :mod:`scipy.stats`, as ``lognorm(0.5)``; a list with one of these for each agent; a CSV file of measured
        times with the columns ``agent`` and ``seconds``, which are repeated in the order of rows.
    delay : float, (low, high), distribution, array or path
        Seconds that a message travels: as above for all, an array (agents, agents) with the entry (source, target), or a CSV
        file with the columns ``source``, ``target`` and ``seconds``.
    loss : float or array
        Probability, below 1, that a message is lost; or one for each (source, target).
    begin : float, (low, high), distribution or sequence
        When an agent begins to compute: all at once by default.
    away : mapping of int to sequence of (float, float), optional
        Times (from, to) in which an agent does not wake: a wake that is due then takes place at ``to``. What arrives waits.
    seed : int
        Seed of all draws.

    Raises
    ------
    ValueError, TypeError
        If a setting is out of range or of another kind; if an agent never wakes.

    Examples
    --------
    >>> from scipy.stats import expon
    >>> from consensus.asynchronous import Simulated
    >>> Simulated(compute=[1.0] * 7 + [10.0], delay=expon(scale=2.0), loss=0.3).seed  # the last agent is slow
    0
    """

    compute: Times = 1.0
    delay: Times = 0.0
    loss: Times = 0.0
    begin: Times = 0.0
    away: Mapping[int, Sequence[tuple[float, float]]] | None = None
    seed: int = 0

    # The network's number of each agent, in which pairs are given, where that is another one.
    numbers: tuple[int, ...] | None = field(default=None, init=False, repr=False, compare=False)

    without_rounds = True

    def __post_init__(self) -> None:
        _checks.count("seed", self.seed, least=0)
        if self.away is not None and not isinstance(self.away, Mapping):
            raise TypeError(f"away must be a mapping such as {{3: [(10.0, 20.0)]}}; got {_checks.shown(self.away)}")

    def matched(self, order: tuple[int, ...] | None, labels: tuple[Hashable, ...] | None) -> Simulated:
        """Return the engine for agents in the problem's order, with delays and losses of pairs in the network's.

        Parameters
        ----------
        order : tuple of int or None
            The network's agents in the problem's order, if that is another one.
        labels : tuple or None
            The names of the agents; not used.

        Returns
        -------
        Simulated
            The engine.
        """
        if order is None:
            return self
        found = copy.copy(self)
        object.__setattr__(found, "numbers", order)
        return found

    def clock(self, network: ScheduleLike) -> str:
        return known_by(f"Simulated with seed {self.seed}", Timetable.of(self, network))  # which has read its files

    def prepare(self, solver: S, problem: Problem, network: ScheduleLike) -> S:
        ready: Any = super().prepare(solver, problem, network)
        return cast(S, ready if needs_of(ready).wakes else Timed(ready, Timetable.of(self, network)))

    def run(
        self, problem: Problem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        if isinstance(solver, Timed):
            return Stacked().run(problem, schedule, solver, begin, rounds, observer)
        waking, times = cast(AsynchronousSolver, solver), Timetable.of(self, schedule)
        if times.loses and not waking.tolerates_loss:
            raise ValueError(f"{type(solver).__name__} loses mass with each message: give loss=0, or take RASGP or ASYSONATA")
        events = Meetings if waking.pairs else Events
        return events.begun(problem, schedule, waking, times, begin).run(rounds, observer)
