"""Protocols of the problems and solvers that engines run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import numpy as np

from consensus.communication import Network
from consensus.observe.protocols import Costs, Method, Secure
from consensus.workers.shared_memory import SharedArray
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from jaxtyping import Float, Real

# Solvers may require more of problems and of their own states than engines do.
AnyProblem: TypeAlias = Any
AnyState: TypeAlias = Any


class Work(Protocol):
    """The work done with a problem."""

    @property
    def counts(self) -> dict[str, int]:
        """Counts by the names of the history's columns."""


class Sendable(Protocol):
    """A problem on its way to worker processes."""

    @property
    def arrays(self) -> tuple[SharedArray, ...]:
        """The data that processes share."""

    def problem(self) -> AnyProblem:
        """Return the problem again."""


class Problem(Costs, Protocol):
    """A problem that can be divided into blocks of agents."""

    @property
    def parameters(self) -> int:
        """P."""

    @property
    def dtype(self) -> np.dtype:
        """The dtype of iterates and gradients."""

    @property
    def work(self) -> Work:
        """The work done with this block."""

    @property
    def load(self) -> Real[np.ndarray, " agents"]:
        """The cost of each agent's gradient, up to a factor."""

    def restrict(self, rows: slice) -> Self:
        """Return the problem of some of its agents, which counts its own work."""

    def shared(self) -> Sendable:
        """Return the problem in a form that is sent to worker processes."""


class State(Protocol):
    """A solver's state, a NamedTuple: its first two fields."""

    @property
    def round(self) -> int:
        """Rounds done."""

    @property
    def w(self) -> Float[np.ndarray, "agents P"]:
        """The iterates."""

    def _asdict(self) -> dict[str, Any]: ...


class Solver(Method, Protocol):
    """Members of a solver that engines call: see :class:`consensus.solvers.Solver`."""

    def init(self, problem: AnyProblem, w: Float[np.ndarray, "agents P"]) -> AnyState:
        """Return the state at the start."""

    def step(self, problem: AnyProblem, network: Network, state: AnyState) -> AnyState:
        """Return the state one round later."""

    def report(self, state: AnyState) -> Real[np.ndarray, "agents columns"]:
        """Return the agents' numbers for the solver's own columns of the history."""

    def width(self, problem: AnyProblem) -> int:
        """Return how many numbers of an agent are mixed at once."""

    @property
    def secure(self) -> Secure | None:
        """Secure sums of its own, if it has some."""

    def among_owners(self, agents: range, everyone: Callable[[np.ndarray], np.ndarray]) -> Any:  # noqa: ANN401  as below
        """Return the solver with such numbers, for the ``agents`` of one of several processes."""

    def prepared(self, problem: AnyProblem, network: ScheduleLike) -> Any:  # noqa: ANN401  of the solver's own class
        """Return the solver as it runs."""
