"""What a centralised system is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np

from consensus import _checks
from consensus.observe.counts import NAMES
from consensus.problems import BaseProblem
from consensus.regularizers import Regularizer


class State(Protocol):
    """The state of a system, a NamedTuple: its first fields are the rounds done and the server's iterate, (1, P).

    All its arrays begin with an axis of length one: what the server holds is one row.
    """

    @property
    def round(self) -> int: ...
    @property
    def w(self) -> np.ndarray: ...
    def _asdict(self) -> dict[str, Any]: ...


Advance: TypeAlias = Callable[[Any, int], Any]  # (state, due) -> a later state, of a round <= due


class Traffic:
    """What was sent and computed so far, by the names of the history's columns.

    Attributes
    ----------
    counts : dict
        ``bytes_busiest`` are the bytes that the busiest machine sent and received.
    """

    def __init__(self, itemsize: int) -> None:
        self.counts = dict.fromkeys((*NAMES, "bytes_busiest"), 0)
        self.itemsize = itemsize

    def send(self, messages: int, numbers: int, busiest: int, exchanges: int = 1) -> None:
        """Count ``messages`` of ``numbers`` each, of which ``busiest`` went through the busiest machine."""
        size = numbers * self.itemsize
        for name, count in (("exchanges", exchanges), ("messages", messages), ("floats", messages * numbers)):
            self.counts[name] += count
        self.counts["bytes"] += messages * size
        self.counts["bytes_busiest"] += busiest * size

    def work(self, gradients: int, samples: int) -> None:
        """Count ``gradients``, one after the other, and the samples in all of them."""
        self.counts["gradients"] += gradients
        self.counts["samples"] += samples


class System(ABC):
    """A way to train with a server: settings, a state, and how to get from a state to later ones.

    Attributes
    ----------
    history_columns : mapping of str to callable
        What the system adds to the history, as a solver does: a name, and how the numbers of :meth:`report` become one.
    smooth : bool
        Whether r must be smooth.
    """

    history_columns: Mapping[str, Callable[[np.ndarray], Any]] = MappingProxyType({})
    smooth: bool = False

    def check(self, problem: BaseProblem) -> None:
        """Raise ``ValueError`` or ``TypeError`` if the system does not fit ``problem``."""
        if self.smooth and not getattr(problem.regularizer, "smooth", False):
            raise ValueError(
                f"{type(self).__name__} needs a smooth regularizer, and {problem.regularizer} is not: SynchronousSGD and "
                "MapReduceGradientDescent take it"
            )

    @abstractmethod
    def init(self, problem: BaseProblem, w: np.ndarray) -> Any:
        """The state at the start ``w`` (1, P): round 0."""

    @abstractmethod
    def running(self, problem: BaseProblem, traffic: Traffic, state: Any) -> AbstractContextManager[Advance]:
        """Start what the system needs, such as worker processes, and stop it at the end.

        Yields ``advance(state, due) -> state``: one round later, or more, but no round after ``due``. What is sent and
        computed is told to ``traffic``.
        """

    def report(self, state: Any) -> np.ndarray:
        """The numbers for :attr:`history_columns`, shape (1, columns)."""
        return np.zeros((1, 0))

    def prox(self, problem: BaseProblem) -> Callable[[np.ndarray, float], np.ndarray]:
        """The prox of r, by which stationarity is measured."""
        return _checks.problem(problem).regularizer.prox


def descend(regularizer: Regularizer, w: np.ndarray, direction: np.ndarray, step: float) -> np.ndarray:
    """``w - step (direction + grad r(w))``, or ``prox_{step r}(w - step direction)`` where r is not smooth; (1, P)."""
    if getattr(regularizer, "smooth", False):
        return w - step * (direction + regularizer.gradient(w))
    return regularizer.prox(w - step * direction, step)


def whole_problem(problem: BaseProblem) -> BaseProblem:
    """``problem`` if it holds all agents; raise ``ValueError`` otherwise."""
    _checks.problem(problem)
    if problem.agents != problem.network_size:
        raise ValueError(f"the problem holds {problem.agents} of {problem.network_size} agents: a server needs all of them")
    return problem
