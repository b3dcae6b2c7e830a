"""All agents in one process, as the rows of one stack."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from consensus.communication.block import BlockNetwork
from consensus.communication.plans import Plan
from consensus.engines.base import Engine
from consensus.engines.protocols import Problem, Solver
from consensus.engines.rounds import reports, run_rounds
from consensus.engines.states import Begin
from consensus.observe import Observer
from topologies.schedules import ScheduleLike


class StackedNetwork(BlockNetwork):
    """The network of all agents in one process, which mixes by sparse products.

    Parameters
    ----------
    schedule : schedule
        The mixing matrices.
    dtype : numpy.dtype
        Of the rows that are mixed.
    strict : bool
        As in :class:`consensus.communication.BlockNetwork`.
    """

    def __init__(self, schedule: ScheduleLike, dtype: np.dtype, strict: bool = False) -> None:
        super().__init__(schedule, slice(0, schedule.agents), dtype, strict)

    def _gather(self, plan: Plan, blocks: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return blocks


@dataclass(frozen=True)
class Stacked(Engine):
    """Run all agents stacked in this process: the simplest engine, and the fastest for small problems.

    Parameters
    ----------
    strict : bool
        Whether to check in every exchange that each message runs along an edge of that round's graph (slow; for tests).
    """

    strict: bool = False

    def run(
        self, problem: Problem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        everyone = slice(0, problem.agents)
        problem = problem.restrict(everyone)  # its own count of work
        network = StackedNetwork(schedule, problem.dtype, self.strict)
        report = reports(observer, solver)
        return run_rounds(problem, network, solver, begin.block(everyone), rounds, report, observer.due)
