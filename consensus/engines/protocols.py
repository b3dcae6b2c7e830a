"""What engines know of problems and solvers."""

from typing import Any, Protocol, Self

import numpy as np

from consensus.communication import Network
from consensus.observe.recorder import Costs, Method
from consensus.workers.shared_memory import SharedArray
from topologies.schedules import ScheduleLike


class Work(Protocol):
    """What was computed with a problem."""

    @property
    def counts(self) -> dict[str, int]:
        """Numbers by the names of the history's columns."""


class Sendable(Protocol):
    """A problem on its way to worker processes."""

    @property
    def arrays(self) -> tuple[SharedArray, ...]:
        """The data that processes share."""

    def problem(self) -> Any:
        """The problem again."""


class Problem(Costs, Protocol):
    """What an engine reads of a problem: how to cut it into blocks of agents."""

    @property
    def network_size(self) -> int:
        """A, the number of agents of the whole network."""

    @property
    def parameters(self) -> int:
        """P."""

    @property
    def dtype(self) -> np.dtype:
        """Of iterates and gradients."""

    @property
    def rows(self) -> np.ndarray:
        """The numbers (agents,) in the network of the agents held here."""

    @property
    def work(self) -> Work:
        """What was computed with this block."""

    @property
    def load(self) -> np.ndarray:
        """What each agent's gradient costs, shape (agents,), up to a factor."""

    def restrict(self, rows: slice) -> Self:
        """The same problem for some of its agents; it counts its own work."""

    def shared(self) -> Sendable:
        """The problem in a form that is sent to worker processes."""


class Solver(Method, Protocol):
    """What an engine calls of a solver: see :class:`consensus.solvers.Solver`."""

    def init(self, problem: Any, w: np.ndarray) -> Any:
        """The state at the start."""

    def step(self, problem: Any, network: Network, state: Any) -> Any:
        """The state one round later."""

    def report(self, state: Any) -> np.ndarray:
        """The agents' numbers for its own columns of the history."""

    def width(self, problem: Any) -> int:
        """How many numbers of an agent are mixed at once."""

    def prepared(self, problem: Any, network: ScheduleLike) -> Any:
        """The solver as it runs."""
