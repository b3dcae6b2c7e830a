"""What an engine is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from consensus.engines.protocols import Problem, Solver
from consensus.engines.states import Begin
from consensus.observe import Observer
from topologies.schedules import ScheduleLike

S = TypeVar("S", bound=Solver)


class Engine(ABC):
    """Where a run happens: an engine holds the agents in blocks, and brings each block its neighbours' rows.

    One of your own needs :meth:`run` alone, and a :class:`Network` for its blocks, if :func:`consensus.solve` is called in one
    process with all agents. Where several processes call it together, as MPI's ranks do, each with its block, it also says how
    they speak with one another: ``size``, ``root``, :meth:`check`, :meth:`rows`, :meth:`agreed`, :meth:`allgather` and
    :meth:`broadcast`.

    Attributes
    ----------
    root : bool
        Whether this process reports to the user.
    size : int
        How many processes call :func:`consensus.solve` together.

    Examples
    --------
    The whole of an engine that runs all agents in this process:

    >>> from consensus.engines import Engine, StackedNetwork, reports, run_rounds
    >>> class Plain(Engine):
    ...     def run(self, problem, schedule, solver, begin, rounds, observer):
    ...         everyone = problem.restrict(slice(0, problem.agents))  # counts the work of this run alone
    ...         network = StackedNetwork(schedule, problem.dtype)
    ...         return run_rounds(everyone, network, solver, begin, rounds, reports(observer, solver))
    >>> import consensus, topologies
    >>> cost, gradient = (lambda w: (w**2).sum(axis=1)), (lambda w: 2 * w)
    >>> problem = consensus.Problem.from_functions(cost, gradient, agents=4, parameters=1)
    >>> result = consensus.solve(problem, topologies.ring(4), consensus.solvers.DGD(0.1), rounds=3, engine=Plain())
    >>> result.reason
    'all 3 rounds done'
    """

    root: bool = True
    size: int = 1

    @abstractmethod
    def run(
        self,
        problem: Problem,
        schedule: ScheduleLike,
        solver: Solver,
        begin: Begin,
        rounds: int,
        observer: Observer,
    ) -> str | None:
        """Run the rounds, and tell ``observer`` of them.

        For every block of agents :func:`run_rounds` does the work: with the block's part of the problem
        (``problem.restrict(rows)``), a :class:`Network` that mixes its rows, and where it begins (``begin.block(rows)``). It
        calls ``report`` after each round: :func:`reports` makes one where rounds run in the processes that observe them.

        Parameters
        ----------
        problem : Problem
            As given to :func:`consensus.solve`, of all agents or, under MPI, of those held here.
        schedule : schedule
            The mixing matrices of all rounds.
        solver : Solver
        begin : Begin
            Where all agents begin.
        rounds : int
            To be done in all, those before a checkpoint included.
        observer : Observer

        Returns
        -------
        str or None
            The observer's reason to stop early, None when all rounds were done.
        """

    def check(self, problem: Problem) -> None:
        """Raise ``ValueError`` if ``problem`` does not hold the agents which this process needs."""
        if problem.agents != problem.network_size:
            raise ValueError(
                f"the problem holds {problem.agents} of {problem.network_size} agents: give all of them, or run it under MPI "
                "with the others on other ranks"
            )

    def rows(self, agents: int) -> slice:
        """Which of a network's ``agents`` this process holds, of those that call :func:`consensus.solve` together."""
        return slice(0, agents)

    @contextmanager
    def agreed(self) -> Iterator[dict[str, Any]]:
        """Raise on all processes what one raises inside, and refuse settings, put into the dictionary, that differ."""
        yield {}

    def allgather(self, items: Iterable[Any]) -> list[Any]:
        """The agents' items, one each, of all processes that hold some."""
        return list(items)

    def broadcast(self, function: Callable[[], Any]) -> Any:
        """What ``function()`` gives or raises in the process that reports to the user, in all processes."""
        return function()

    def prepare(self, solver: S, problem: Problem, network: ScheduleLike) -> S:
        """``solver.prepared`` for the whole network: the same in all processes, though each may hold some agents only."""
        if not hasattr(solver, "prepared"):  # one that is not derived from Solver need not have it
            return solver
        whole: Any = problem if problem.agents == problem.network_size else _WholeNetwork(problem, self)
        with self.agreed() as settings:
            solver = solver.prepared(whole, network)
            settings["solver"] = solver
        return solver


class _WholeNetwork:
    """A problem of some agents with the constants of all: every process asks for them at the same time."""

    def __init__(self, problem: Any, engine: Engine) -> None:
        self._problem, self._engine = problem, engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    def lipschitz(self, w: np.ndarray | None = None) -> np.ndarray:
        return self._collected(lambda: self._problem.lipschitz(w))

    def strong_convexity(self) -> np.ndarray:
        return self._collected(self._problem.strong_convexity)

    def _collected(self, constants):
        with self._engine.agreed():  # an error on one rank is one on all
            own = constants()
        return np.array(self._engine.allgather(own))
