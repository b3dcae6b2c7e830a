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
        Dtype of the rows that are mixed.
    strict : bool
        As in :class:`consensus.communication.BlockNetwork`.

    Examples
    --------
    >>> import numpy as np, topologies
    >>> from consensus.engines import StackedNetwork
    >>> network = StackedNetwork(topologies.Static(topologies.ring(3)), np.dtype(float))
    >>> (mean,) = network.mix(0, np.array([[0.0], [3.0], [6.0]]))
    >>> mean.round(6).tolist(), network.exchanges, network.messages, network.bytes
    ([[3.0], [3.0], [3.0]], 1, 6, 48)
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

    Examples
    --------
    >>> import consensus, topologies
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> solver = consensus.solvers.DGD(0.1)
    >>> one = consensus.solve(problem, topologies.ring(3), solver, rounds=5)  # engine="stacked"
    >>> two = consensus.solve(problem, topologies.ring(3), solver, rounds=5, engine=consensus.engines.Stacked(strict=True))
    >>> bool((one.w == two.w).all())
    True
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
