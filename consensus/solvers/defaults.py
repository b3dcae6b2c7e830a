"""Default members of solvers that engines use beside ``init`` and ``step``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from consensus import _checks
from consensus.observe.protocols import Personal, Secure
from consensus.problems import BaseProblem
from consensus.solvers.needs import Needs
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from jaxtyping import Real


class SolverDefaults:
    """Attributes and methods of every :class:`consensus.solvers.Solver`, with the values that suit most methods."""

    if TYPE_CHECKING:  # to be read only: a method has them as attributes of its class, or sets them, or as properties

        @property
        def needs(self) -> Needs: ...
        @property
        def exchanges_a_round(self) -> float | None: ...
        @property
        def sends(self) -> str: ...
        @property
        def default(self) -> str: ...
        @property
        def secret(self) -> bool: ...
        @property
        def sets_itself(self) -> bool: ...
        @property
        def secure(self) -> Secure | None: ...
        @property
        def history_columns(self) -> Mapping[str, Callable[[np.ndarray], Any]]: ...

    else:
        needs = Needs()
        exchanges_a_round = None
        sends = ""
        default = ""
        secret = False
        sets_itself = False
        secure = None
        history_columns = MappingProxyType({})

    def among_owners(self, agents: range, everyone: Callable[[np.ndarray], np.ndarray]) -> Self:
        """Return the solver as it runs in one of several processes, which may be of different owners, if it is ``secret``.

        It then has random numbers that no other process knows. ``agents`` are those of this process, and ``everyone(rows)``
        returns the rows (A, n) of all agents from theirs.
        """
        return self

    def check_network(self, schedule: ScheduleLike) -> None:
        """Raise ``ValueError`` if the method cannot run on a schedule."""

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        """Return the solver as it runs, with settings that the problem and the network give it."""
        return self

    def edges(self, network: ScheduleLike) -> ScheduleLike:
        """Return the schedule that the rounds meet: all edges of the network, or some of them if others carry nothing."""
        return network

    def matched(self, order: tuple[int, ...] | None, labels: tuple[Hashable, ...] | None) -> Self:
        """Return the solver with its settings of the network's agents in the order of the problem's.

        ``order`` has the network's agents in that order, None if it is their own; ``labels`` the agents' names in it, if any.
        """
        return self

    def report(self, state: Any) -> Real[np.ndarray, "agents columns"]:  # noqa: ANN401
        """Return the agents' numbers (agents, columns), a column for each entry of :attr:`history_columns`."""
        return np.zeros((len(state.w), 0))

    def width(self, problem: BaseProblem) -> int:
        """Return how many numbers of an agent are mixed at once, at most: some engines set memory aside for them.

        Room for two vectors and some numbers, unless a method overrides it; an error names a block that finds no room.
        """
        return 2 * _checks.problem(problem).parameters + 4

    def prox(self, problem: BaseProblem) -> Callable[[np.ndarray, float], np.ndarray]:
        """Return the prox ``(v, step) -> w`` of what is minimised beside the costs, by which stationarity is measured."""
        return _checks.problem(problem).regularizer.prox

    def personal(self, problem: BaseProblem) -> Personal | None:
        """Return what agents keep for themselves, if they have models of their own; None if they look for one model.

        The history is then measured at each agent's own point: see :class:`consensus.observe.protocols.Personal`.
        """
        return None
