"""The base class of engines."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import numpy as np

from consensus._arrays.files import Hold
from consensus.checkpoints.checkpoint import Checkpoint, load
from consensus.engines.protocols import Problem, Solver
from consensus.engines.ranks import told_here_alone
from consensus.engines.states import Begin
from consensus.observe import Observer
from topologies.schedules import ScheduleLike


class WholeNetwork:
    """A problem of some agents with the constants of all: every process asks for them at the same time."""

    def __init__(self, problem: Any, engine: Engine) -> None:  # noqa: ANN401  its constants are optional
        self._problem, self._engine = problem, engine

    def __getattr__(self, name: str) -> object:
        return getattr(self._problem, name)

    def true_gradients(self) -> WholeNetwork:
        found = self._problem.true_gradients()
        return self if found is self._problem else WholeNetwork(found, self._engine)

    def lipschitz(self, w: np.ndarray | None = None) -> np.ndarray:
        return self._collected(lambda: self._problem.lipschitz(w))

    def strong_convexity(self) -> np.ndarray:
        return self._collected(self._problem.strong_convexity)

    def _slopes(self, directions: np.ndarray) -> np.ndarray:
        return self._collected(lambda: self._problem._slopes(directions))

    def _collected(self, constants: Callable[[], np.ndarray]) -> np.ndarray:
        with self._engine.agreed():  # an error on one rank is an error on all
            own = constants()
        return np.array(self._engine.allgather(own))


S = TypeVar("S", bound=Solver)
T = TypeVar("T")


class Engine(ABC):
    """Base class of engines, which hold the agents in blocks and bring each block its neighbours' rows.

    If :func:`consensus.solve` is called in one process with all agents, a subclass defines :meth:`run` and a
    :class:`consensus.communication.Network` for its blocks. If several processes call it together, each with its block, as
    ranks do, the subclass also defines how they communicate: ``size``, ``root``, :meth:`check`, :meth:`rows`,
    :meth:`agreed`, :meth:`allgather` and :meth:`broadcast`.

    Attributes
    ----------
    root : bool
        Whether this process reports to the user.
    size : int
        Number of processes that call :func:`consensus.solve` together.
    without_rounds : bool
        Whether it runs solvers whose agents wake one by one, too.
    keeps_secrets : bool
        Whether its processes, if there are several, give solvers that are ``secret``, such as
        :class:`consensus.privacy.Private`, random numbers of their own, by ``solver.among_owners``, and mask the sums of the
        history of those with ``secure`` sums, by ``Gather.masked_sum``. Other engines reject these solvers.

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
    without_rounds: bool = False
    keeps_secrets: bool = False

    @abstractmethod
    def run(
        self, problem: Problem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        """Run the rounds, and report them to ``observer``.

        :func:`run_rounds` does the work for every block of agents: with the block's part of the problem
        (``problem.restrict(rows)``), a network that mixes its rows, and its beginning (``begin.block(rows)``). It calls
        ``report`` after each round: :func:`reports` makes one if the processes that run rounds also observe them.

        Parameters
        ----------
        problem : Problem
            As given to :func:`consensus.solve`, with all agents or, under MPI, with those of this process.
        schedule : schedule
            The mixing matrices of all rounds.
        solver : Solver
            The solver, prepared.
        begin : Begin
            Where all agents begin.
        rounds : int
            Number of rounds in all, those before a checkpoint included.
        observer : Observer
            Records, stops and saves the run.

        Returns
        -------
        str or None
            The observer's reason to stop early, None if all rounds were done.
        """

    def resolved(self) -> Engine:
        """Return the engine that runs: this one, unless its settings stand for another.

        Returns
        -------
        Engine
            The engine.
        """
        return self

    def matched(self, order: tuple[int, ...] | None, labels: tuple[Hashable, ...] | None) -> Self:
        """Return the engine with what it says of the network's agents in the order of the problem's, as solvers do.

        Parameters
        ----------
        order : tuple of int or None
            The network's agents in that order, None if it is their own.
        labels : tuple or None
            The agents' names in it, if any.

        Returns
        -------
        Engine
            The engine.
        """
        return self

    def check(self, problem: Problem) -> None:
        """Check that a problem holds the agents which this process needs.

        Parameters
        ----------
        problem : Problem
            As given to :func:`consensus.solve`.

        Raises
        ------
        ValueError
            If it does not.
        """
        if problem.agents != problem.network_size:
            raise ValueError(
                f"the problem holds {problem.agents} of {problem.network_size} agents: give all of them, or run it under MPI "
                "or torchrun with the others on other ranks"
            )

    def rows(self, agents: int) -> slice:
        """Return the agents that this process holds.

        Parameters
        ----------
        agents : int
            Number of agents of the network.

        Returns
        -------
        slice
            Neighbouring agents; all agents in one process.

        Raises
        ------
        ValueError
            If there are fewer agents than processes.
        """
        return slice(0, agents)

    @contextmanager
    def agreed(self) -> Iterator[dict[str, object]]:
        """Raise on all processes what one of them raises inside, and reject settings that differ.

        Yields
        ------
        dict of str to object
            Takes the settings that must agree.
        """
        yield {}

    def allgather(self, items: Iterable[T]) -> list[T]:
        """Return the agents' items of all processes.

        Parameters
        ----------
        items : iterable
            One for each agent of this process. Ranks send plain values and arrays: numbers, text, tuples, lists, dictionaries.

        Returns
        -------
        list
            One for each agent of the network.

        Raises
        ------
        TypeError
            If ranks cannot send an item.
        """
        return list(items)

    def broadcast(self, function: Callable[[], T]) -> T:
        """Call a function in the process that reports to the user; return or raise its outcome in all processes.

        Parameters
        ----------
        function : callable
            Takes no arguments.

        Returns
        -------
        object
            Its result.
        """
        return function()

    def load(self, path: str | os.PathLike[str], check: Callable[[Checkpoint], None]) -> Checkpoint:
        """Read a checkpoint, for all processes.

        Parameters
        ----------
        path : path
            The checkpoint.
        check : callable
            ``check(found)`` raises an error if it is no checkpoint of this run.

        Returns
        -------
        Checkpoint
            With the rows of all agents; ranks return those of this process.

        Raises
        ------
        FileNotFoundError
        ValueError
            If there is none, or it is not whole.
        """
        return self.broadcast(lambda: load(path, check))

    def hold(self, hold: Hold) -> None:
        """Keep other runs from the path of the checkpoint.

        Parameters
        ----------
        hold : Hold
            Its lock.

        Raises
        ------
        ValueError
            If another run has the path.
        """
        self.broadcast(hold.take)

    def clock(self, network: ScheduleLike) -> str | None:
        """Return what identifies the times at which agents wake and messages arrive, for checkpoints of runs without rounds.

        Parameters
        ----------
        network : schedule
            The mixing matrices.

        Returns
        -------
        str or None
            Equal texts for equal times; None for an engine whose times are the machine's.
        """
        return None

    def prepare(self, solver: S, problem: Problem, network: ScheduleLike) -> S:
        """Return ``solver.prepared`` for the whole network: equal in all processes, even if each holds only some agents.

        Parameters
        ----------
        solver : Solver
            As given to :func:`consensus.solve`.
        problem : Problem
            The problem of the agents of this process.
        network : schedule
            The mixing matrices.

        Returns
        -------
        Solver
            The solver as it runs.

        Raises
        ------
        TypeError
            If the solver is ``secret`` or has ``secure`` sums, and the engine does not keep its processes' secrets.
        """
        hides = solver.secret or solver.secure is not None
        if self.size > 1 and hides and not self.keeps_secrets:
            raise TypeError(
                f"{type(solver).__name__} on {self.size} processes needs random numbers that each of them keeps to itself, and "
                f"{self} has none: give engine=consensus.engines.MPI() or Torch(), or one process for a simulation"
            )
        whole: Any = problem if problem.agents == problem.network_size else WholeNetwork(problem, self)
        with self.agreed() as settings, told_here_alone(whole is not problem):
            solver = solver.prepared(whole, network)
            settings["solver"] = solver
        return solver
