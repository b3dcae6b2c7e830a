"""Times at which agents wake and messages arrive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from scipy import sparse

from consensus import _checks
from consensus.asynchronous.times import BLOCK, Draws, One, Times, draw, draws, of_agents, of_arcs
from topologies.schedules import ScheduleLike, is_static


class Settings(Protocol):
    """The settings of :class:`consensus.asynchronous.Simulated`."""

    @property
    def compute(self) -> Times: ...
    @property
    def delay(self) -> Times: ...
    @property
    def loss(self) -> Times: ...
    @property
    def begin(self) -> Times: ...
    @property
    def away(self) -> Mapping[int, Sequence[tuple[float, float]]] | None: ...
    @property
    def seed(self) -> int: ...
    @property
    def numbers(self) -> tuple[int, ...] | None: ...


class Timetable:
    """The times of a network's agents and arcs, drawn as they are asked for.

    Parameters
    ----------
    compute, delays, losses : list
        Specifications of each agent's wakes, and of each agent's messages by target.
    targets : list of list of int
        The agents to which each agent sends.
    first : list of float
        When each agent wakes for the first time.
    away : list of list of (float, float)
        When each agent does not wake.
    seed : int
        The seed.
    """

    def __init__(
        self,
        compute: list[One],
        delays: list[list[One]],
        losses: list[list[One]],
        targets: list[list[int]],
        first: list[float],
        away: list[list[tuple[float, float]]],
        seed: int,
    ) -> None:
        self._compute, self._delays, self._losses, self._away, self._seed = compute, delays, losses, away, seed
        self.targets, self.first = targets, first
        self.loses = any(loss > 0 for row in losses for loss in row if isinstance(loss, float))
        self._drawn: list[dict[int, Draws]] = [{} for _ in compute]  # by block, the last two that were asked for

    @classmethod
    def of(cls, settings: Settings, schedule: ScheduleLike) -> Timetable:
        """Return the times on a network; raise ``ValueError`` if it changes, or a setting does not fit it."""
        if not is_static(schedule):
            raise ValueError(f"Simulated needs a network that does not change; got {schedule}")
        agents = schedule.agents
        matrix = sparse.csc_array(schedule.weights(schedule.key(0)))
        columns = [np.sort(matrix.indices[matrix.indptr[j] : matrix.indptr[j + 1]]) for j in range(agents)]
        targets = [[i for i in column.tolist() if i != j] for j, column in enumerate(columns)]
        arcs = [(j, i) for j, row in enumerate(targets) for i in row]
        numbers = range(agents) if settings.numbers is None else settings.numbers
        given = [(numbers[source], numbers[target]) for source, target in arcs]
        delays = iter(of_arcs("delay", settings.delay, agents, given))
        losses = of_arcs("loss", settings.loss, agents, given)
        for (source, target), loss in zip(arcs, losses, strict=True):
            if not isinstance(loss, float) or not loss < 1:
                got = _checks.shown(loss)
                raise ValueError(f"loss must be numbers below 1; got {got} for messages from agent {source} to agent {target}")
        each = iter(losses)
        compute = of_agents("compute", settings.compute, agents)
        if lazy := [i for i, spec in enumerate(compute) if isinstance(spec, float) and spec == 0]:
            raise ValueError(f"compute must be > 0; it is 0 for agent {lazy[0]}")
        rng = np.random.default_rng([settings.seed, agents, BLOCK])
        first = [float(draw(spec, rng, 0, 1)[0]) for spec in of_agents("begin", settings.begin, agents)]
        if never := [i for i, time in enumerate(first) if not np.isfinite(time)]:
            raise ValueError(f"agent {never[0]} never wakes: begin must be finite")
        return cls(
            compute,
            [[next(delays) for _ in row] for row in targets],
            [[next(each) for _ in row] for row in targets],
            targets,
            first,
            _absences(settings.away or {}, agents),
            settings.seed,
        )

    def of_wake(self, agent: int, number: int) -> Draws:
        """Return a block of draws with those of an agent's wake ``number``."""
        kept, block = self._drawn[agent], number // BLOCK
        drawn = kept.get(block)
        if drawn is None:
            if len(kept) == 2:
                del kept[next(iter(kept))]
            specs = self._compute[agent], self._delays[agent], self._losses[agent]
            drawn = kept[block] = draws(self._seed, agent, number, *specs)
        return drawn

    def next_wake(self, agent: int, number: int, time: float) -> float:
        """Return when an agent wakes for its wake ``number``, for which it computes from ``time`` on."""
        drawn = self.of_wake(agent, number)
        time += drawn.compute[number - drawn.first]
        for leaves, returns in self._away[agent]:
            if leaves <= time < returns:
                time = returns
        return time

    def until_arrived(self, agent: int, number: int) -> tuple[list[float], list[int]]:
        """Return how long each message of an agent's exchange ``number`` takes, sent again until it arrives, and the losses."""
        drawn = self.of_wake(agent, number)
        chances = np.array(list(self._losses[agent]), float)
        again = np.random.default_rng([self._seed, agent, number, BLOCK]).geometric(1 - chances) - 1
        delays = drawn.delays[number - drawn.first]
        return [delay * (1 + more) for delay, more in zip(delays, again.tolist(), strict=True)], again.tolist()


def _absences(away: Mapping[int, Sequence[tuple[float, float]]], agents: int) -> list[list[tuple[float, float]]]:
    found: list[list[tuple[float, float]]] = [[] for _ in range(agents)]
    for agent, times in away.items():
        if not 0 <= agent < agents:
            raise ValueError(f"away has agent {agent}, and there are {agents}")
        for pair in times:
            try:
                leaves, returns = map(float, pair)
            except (TypeError, ValueError) as error:
                raise TypeError(f"away of agent {agent} must be pairs (from, to); got {_checks.shown(pair)}") from error
            if not 0 <= leaves < returns:
                raise ValueError(
                    f"away of agent {agent} must be pairs (from, to) with 0 <= from < to; got {_checks.shown(pair)}"
                )
            if not np.isfinite(returns):
                raise ValueError(f"agent {agent} never wakes again after {leaves:g}: away must have ends")
            found[agent].append((leaves, returns))
    return [sorted(pairs) for pairs in found]
