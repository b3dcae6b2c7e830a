"""What an engine is."""

import itertools
from abc import ABC, abstractmethod
from contextlib import contextmanager


class Engine(ABC):
    """Runs a solver on blocks of agents, and brings their neighbours' rows."""

    root = True  #: whether this process reports to the user

    size = 1  #: how many processes call :func:`consensus.solve` together

    def check(self, problem):
        """Refuse a problem that does not hold the agents which this process needs."""
        if problem.agents != problem.network_size:
            raise ValueError(
                f"the problem holds {problem.agents} of {problem.network_size} agents: give all of them, or run it under MPI "
                "with the others on other ranks"
            )

    def rows(self, agents):
        """The slice of a network's ``agents`` that this process holds, of those that call :func:`consensus.solve` together."""
        return slice(0, agents)

    @contextmanager
    def together(self):
        """Raise, on all processes, what any of them raises inside; and refuse what differs of the settings put in."""
        yield {}

    @abstractmethod
    def run(self, problem, schedule, solver, begin, rounds, observer):
        """Run all rounds.

        Parameters
        ----------
        problem, schedule, solver
            As given to :func:`consensus.solve`.
        begin : Begin
            Where all agents begin; ``begin.block(rows)`` is where some of them do.
        rounds : int
        observer : Observer

        Returns
        -------
        str or None
            The reason to stop early, None when all rounds were done.
        """

    def collect_list(self, items):
        """The agents' items, one each, of all processes that hold some."""
        return list(items)

    def on_root(self, function):
        """``function()`` of the process that reports to the user, on all processes."""
        return function()


def blocks_of(agents, parts):
    """``parts`` slices of neighbouring agents, equal up to one."""
    ends = [agents * part // parts for part in range(parts + 1)]
    return [slice(first, last) for first, last in itertools.pairwise(ends)]
