"""Solvers with rounds under a clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from consensus.asynchronous.base import COLUMNS
from consensus.asynchronous.timetable import Timetable
from consensus.communication.block import BlockNetwork
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.wrapper import Wrapper


class TimedState(NamedTuple):
    """The state of the solver inside; for each agent what :data:`COLUMNS` show (agents, 4), and the exchanges so far."""

    round: int
    w: np.ndarray
    inner: Any
    columns: np.ndarray
    exchanges: int


@dataclass(frozen=True, repr=False)
class Timed(Wrapper):
    """A solver whose rounds last as long as the slowest agent and the slowest messages of their exchanges."""

    times: Timetable

    def __post_init__(self) -> None:
        """Take any solver with rounds."""

    def __repr__(self) -> str:
        return repr(self.solver)

    @property
    def history_columns(self) -> Mapping[str, Callable[[np.ndarray], Any]]:
        return {**self.solver.history_columns, **COLUMNS}

    def report(self, state: TimedState) -> np.ndarray:
        return np.hstack([self.solver.report(state.inner), state.columns])

    def around(self, network: Network) -> Network:
        return network

    def init(self, problem: BaseProblem, w: np.ndarray) -> TimedState:
        inner = self.solver.init(problem, w)
        columns = np.zeros((len(w), len(COLUMNS)))
        columns[:, 0] = max(self.times.first)
        return TimedState(0, inner.w, inner, columns, 0)

    def step(self, problem: BaseProblem, network: Network, state: TimedState) -> TimedState:
        engines = cast(BlockNetwork, network)
        before = engines.counts["exchanges"]
        inner = self.solver.step(problem, network, state.inner)
        made = engines.counts["exchanges"] - before
        columns, agents = state.columns.copy(), range(len(state.w))
        clock = max(self.times.next_wake(i, state.round, columns[0, 0]) for i in agents)
        for number in range(state.exchanges, state.exchanges + made):
            waits = [self._slowest(i, number) for i in agents]
            clock += max(wait for wait, _ in waits)
            columns[:, 3] += [lost for _, lost in waits]
        columns[:, 0] = clock
        columns[:, 1] += 1
        return TimedState(inner.round, inner.w, inner, columns, state.exchanges + made)

    def _slowest(self, agent: int, number: int) -> tuple[float, int]:
        """Return how long an agent's messages of an exchange travel until all have arrived, and how many were lost."""
        longest, lost = self.times.until_arrived(agent, number)
        return max(longest, default=0.0), sum(lost)
