"""Base class of centralized systems."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from consensus import _checks
from consensus.observe.gather import NAMES
from consensus.problems import BaseProblem
from consensus.regularizers import Regularizer


class State(Protocol):
    """The state of a system, a NamedTuple: its first fields are the rounds done and the server's iterate, (1, P).

    All its arrays begin with an axis of length one: the server is one row.
    """

    @property
    def round(self) -> int: ...
    @property
    def w(self) -> np.ndarray: ...
    def _asdict(self) -> dict[str, Any]: ...


S = TypeVar("S", bound=State)
Advance: TypeAlias = Callable[[S, int], S]  # (state, due) -> a later state, of a round <= due


class Traffic:
    """Counters of communication and work, named as the history's columns.

    Parameters
    ----------
    itemsize : int
        Bytes of a number.

    Attributes
    ----------
    counts : dict
        ``bytes_busiest`` are the bytes that the busiest machine sent and received.

    Examples
    --------
    >>> from consensus.centralized import Traffic
    >>> traffic = Traffic(itemsize=8)
    >>> traffic.send(messages=10, numbers=100, busiest=10)  # five agents send a gradient to a server and get w back
    >>> traffic.work(gradients=1, samples=442)
    >>> {name: traffic.counts[name] for name in ("exchanges", "messages", "bytes", "bytes_busiest", "samples")}
    {'exchanges': 1, 'messages': 10, 'bytes': 8000, 'bytes_busiest': 8000, 'samples': 442}
    """

    def __init__(self, itemsize: int) -> None:
        self.counts = dict.fromkeys((*NAMES, "bytes_busiest"), 0)
        self.itemsize = itemsize

    def send(self, messages: int, numbers: int, busiest: int, exchanges: int = 1, itemsize: int | None = None) -> None:
        """Count messages.

        Parameters
        ----------
        messages, numbers : int
            How many, and the numbers in each.
        busiest : int
            How many of them went through the busiest machine.
        exchanges : int
            Exchanges in which they were sent.
        itemsize : int, optional
            Bytes of a number; by default those of the problem's dtype.
        """
        size = numbers * (self.itemsize if itemsize is None else itemsize)
        counts = (exchanges, messages, messages * numbers, messages * size, busiest * size)
        for name, count in zip(("exchanges", "messages", "floats", "bytes", "bytes_busiest"), counts):
            self.counts[name] += count

    def work(self, gradients: int, samples: int) -> None:
        """Count gradients, computed one after the other.

        Parameters
        ----------
        gradients, samples : int
            How many, and the samples in all of them.
        """
        self.counts["gradients"] += gradients
        self.counts["samples"] += samples

    def total(self, exchanges: int, messages: int, numbers: int, busiest: int, gradients: int, samples: int) -> None:
        """Replace the counts by those of the whole run.

        Parameters
        ----------
        exchanges, messages, numbers, busiest, gradients, samples : int
            ``numbers`` were sent, ``busiest`` of them through the busiest machine.
        """
        sent = {"exchanges": exchanges, "messages": messages, "floats": numbers, "bytes": numbers * self.itemsize}
        self.counts |= sent | {"bytes_busiest": busiest * self.itemsize, "gradients": gradients, "samples": samples}


class System(ABC, Generic[S]):
    """A way to train with a server: settings, a state of type S, and how to get from a state to later ones.

    Attributes
    ----------
    history_columns : mapping of str to callable
        What the system adds to the history, as a solver does: a name, and how the numbers of :meth:`report` become one.
    smooth : bool
        Whether r must be smooth.

    Examples
    --------
    >>> from contextlib import contextmanager
    >>> from typing import NamedTuple
    >>> import numpy as np, consensus
    >>> from consensus.centralized import System, solve
    >>> class State(NamedTuple):
    ...     round: int
    ...     w: np.ndarray
    >>> class Descent(System):  # the server gets a gradient from each agent
    ...     def init(self, problem, w):
    ...         return State(0, w)
    ...     @contextmanager
    ...     def running(self, problem, traffic, state):
    ...         def advance(state, due):
    ...             gradients = problem.gradient(np.repeat(state.w, problem.agents, axis=0))
    ...             traffic.send(2 * problem.agents, problem.parameters, busiest=2 * problem.agents)
    ...             return State(state.round + 1, state.w - 0.05 * gradients.sum(axis=0))
    ...         yield advance
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> result = solve(problem, Descent(), rounds=40)
    >>> result.mean.round(6).tolist(), int(result.history["messages"][-1])
    ([2.0], 400)
    """

    history_columns: Mapping[str, Callable[[np.ndarray], Any]] = MappingProxyType({})
    smooth: bool = False
    secret: bool = False

    def personal(self, problem: BaseProblem) -> None:
        """Return None: a server has one model.

        Parameters
        ----------
        problem : Problem
            The problem of all agents.

        Returns
        -------
        None
            What agents keep for themselves, as solvers return it.
        """
        return

    def check(self, problem: BaseProblem) -> None:
        """Raise ``ValueError`` or ``TypeError`` if the system cannot solve the problem.

        Parameters
        ----------
        problem : Problem
            The problem of all agents.
        """
        problem.check_solver(self)
        if problem.regularizer.of_agents:
            raise ValueError(
                f"{type(self).__name__} needs one regularizer that all agents share, and each has its own: give the problem "
                "one, or use consensus.solve with NIDS(step_size)"
            )
        if self.smooth and not problem.regularizer.smooth:
            raise ValueError(
                f"{type(self).__name__} needs a smooth regularizer, and {problem.regularizer} is not: SynchronousSGD and "
                "MapReduceGradientDescent take it"
            )

    @abstractmethod
    def init(self, problem: BaseProblem, w: np.ndarray) -> S:
        """Return the state of round 0.

        Parameters
        ----------
        problem : Problem
            The problem of all agents.
        w : ndarray (1, P)
            The start.

        Returns
        -------
        State
            With w.
        """

    @abstractmethod
    def running(self, problem: BaseProblem, traffic: Traffic, state: S) -> AbstractContextManager[Advance[S]]:
        """Start what the system needs, such as worker processes, and stop it at the end.

        Parameters
        ----------
        problem : Problem
            The problem of all agents.
        traffic : Traffic
            Counts what is sent and computed.
        state : State
            From which the run goes on.

        Yields
        ------
        callable
            ``advance(state, due) -> state``: one round later, or more, but no round after ``due``.
        """

    def report(self, state: S) -> np.ndarray:
        """Return the numbers for :attr:`history_columns`.

        Parameters
        ----------
        state : State
            State of a recorded round.

        Returns
        -------
        ndarray (1, columns)
            In the order of the columns.
        """
        return np.zeros((1, 0))

    def prox(self, problem: BaseProblem) -> Callable[[np.ndarray, float], np.ndarray]:
        """Return the prox of r, by which stationarity is measured.

        Parameters
        ----------
        problem : Problem
            The problem of all agents.

        Returns
        -------
        callable
            ``prox(v, step)``.
        """
        return _checks.problem(problem).regularizer.prox

    def _at_most(self, problem: BaseProblem, **settings: int | None) -> None:
        """Raise ``ValueError`` if one of the ``settings`` is above the problem's agents, or parameters for shards."""
        for name, value in settings.items():
            noun = "parameters" if name == "shards" else "agents"
            most = getattr(problem, noun)
            if value is not None and value > most:
                raise ValueError(f"{name} must be at most the problem's {noun}, {most}; got {value}")


def descend(regularizer: Regularizer, w: np.ndarray, direction: np.ndarray, step: float) -> np.ndarray:
    """Return ``w - step (direction + grad r(w))``, or ``prox_{step r}(w - step direction)`` where r is not smooth; (1, P)."""
    if regularizer.smooth:
        moved: np.ndarray = w - step * (direction + regularizer.gradient(w))
        return moved
    return regularizer.prox(w - step * direction, step)


def whole_problem(problem: BaseProblem) -> BaseProblem:
    """Return ``problem`` if it holds all agents; raise ``ValueError`` otherwise."""
    _checks.problem(problem)
    if problem.agents != problem.network_size:
        raise ValueError(f"the problem holds {problem.agents} of {problem.network_size} agents: a server needs all of them")
    return problem
