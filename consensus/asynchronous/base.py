"""Base class of solvers without rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

import topologies
from consensus import _checks
from consensus.asynchronous.arcs import Arcs, graph_of
from consensus.engines.protocols import AnyState
from consensus.problems import BaseProblem
from consensus.solvers.base import check_settings
from consensus.solvers.defaults import SolverDefaults
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from jaxtyping import Float

COLUMNS: Mapping[str, Callable[[np.ndarray], Any]] = MappingProxyType(
    {"clock": np.max, "wakes": np.sum, "staleness": np.max, "lost": np.sum}
)


def steps_at(step_size: float | Rule, wakes: np.ndarray, dtype: np.dtype) -> float | np.ndarray:
    """Return the steps of agents at their wakes: a number for all, or an array (agents, 1)."""
    if isinstance(step_size, float):
        return step_size
    return np.array([[value_at(step_size, int(count))] for count in wakes], dtype)


class AsynchronousSolver(SolverDefaults, ABC):
    """A method without rounds: settings, a state, and two pure functions of agents, ``init`` and ``wake``.

    *An agent wakes* when it has computed, reads its mailbox, and sends messages along the arcs that leave it. Messages arrive
    late or never; the mailbox has, for each arc that leads to the agent, the newest one that arrived: one that was sent earlier
    is dropped. In a run ``rounds=n`` stands for ``n A`` wakes of the A agents together.

    *Settings* are the fields of a frozen dataclass, as those of :class:`consensus.solvers.Solver`.

    *The state* is a NamedTuple of arrays (agents, ...), with ``w`` (agents, P) among them and ``wakes`` (agents,), the number
    of times that each agent woke. A wake of an agent changes its row alone. Functions are of a *block* of agents, which is one
    agent or several that do not depend on each other: nothing may be summed over rows.

    Attributes
    ----------
    needs : Needs
        As of a solver with rounds, with ``wakes=True``.
    adds : bool
        Whether the mailbox has the sums of all messages that arrived since the last wake, instead of the newest ones.
    tolerates_loss : bool
        Whether messages may be lost.
    divides : bool
        Whether a state is divided by masses, which must neither go back to older ones nor all leave for who is away: agents of
        :class:`consensus.peers.Peers` write a checkpoint, if they have one, at each wake, before they send, and wait while
        another one is far behind.
    pairs : bool
        Whether a wake is an event of two agents: the mailbox has the state of a random neighbour, the partner, in place of
        messages, field by field as messages name it (``w`` among them), and the partner takes what is sent. On workers these
        fields of the agent's own state are those of the moment at which the mailbox is read, as it must be at each wake:
        whoever met the agent before has changed them.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from typing import NamedTuple
    >>> import numpy as np, consensus, topologies
    >>> from consensus.asynchronous import AsynchronousSolver, Simulated
    >>> from consensus.solvers import Needs
    >>> class State(NamedTuple):
    ...     w: np.ndarray
    ...     wakes: np.ndarray
    >>> class Message(NamedTuple):
    ...     w: np.ndarray
    >>> @dataclass(frozen=True)
    ... class Agree(AsynchronousSolver):  # without costs: each wake averages what arrived
    ...     needs = Needs(mixing="row stochastic", wakes=True)
    ...     def init(self, problem, arcs, w):
    ...         return State(w, np.zeros(len(w), int)), Message(w)
    ...     def wake(self, problem, arcs, state, mailbox):
    ...         w = arcs.r_own * state.w + (arcs.r * mailbox.w).sum(axis=1)
    ...         return State(w, state.wakes + 1), Message(w)
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> start = np.array([[0.0], [3.0], [6.0]])
    >>> late = Simulated(delay=(0.0, 2.0))
    >>> result = consensus.solve(problem, topologies.ring(3), Agree(), rounds=50, start=start, engine=late)
    >>> bool(np.ptp(result.w) < 1e-6), bool(0 < result.mean[0] < 6)
    (True, True)
    """

    history_columns = COLUMNS
    exchanges_a_round = 1
    adds = False
    tolerates_loss = True
    divides = False
    pairs = False

    def __post_init__(self) -> None:
        """Check the settings, as :class:`consensus.solvers.Solver` does.

        Raises
        ------
        TypeError, ValueError
            If a setting is of another kind, or out of bounds.
        """
        check_settings(self)

    def check(self, problem: BaseProblem) -> None:
        """Raise ``ValueError`` or ``TypeError`` if the method, or its ``batch``, does not fit a problem.

        Parameters
        ----------
        problem : Problem
            With all that :attr:`needs` says.
        """
        _checks.problem(problem)
        check = getattr(getattr(self, "batch", None), "check", None)
        if check is not None:
            check(problem)

    def check_network(self, schedule: ScheduleLike) -> None:
        self.matrices(schedule)

    def matrices(self, schedule: ScheduleLike) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Return the weights (R, C) of what arrives: by default of row sums and of column sums one, by degrees alone.

        Parameters
        ----------
        schedule : schedule
            A static network, of which only the graph is taken.

        Returns
        -------
        tuple of csr_array (A, A)
            ``R_ij = 1 / (1 + in-degree of i)`` and ``C_ij = 1 / (1 + out-degree of j)`` on arcs j -> i and for i = j.

        Raises
        ------
        ValueError
            If the network changes, or is not strongly connected.
        """
        graph = graph_of(type(self).__name__, schedule)
        return topologies.pull(graph), topologies.push(graph)

    def sends_at(self, wake: int) -> bool:
        """Return whether an agent sends at its wake of this number.

        Parameters
        ----------
        wake : int
            From 0.

        Returns
        -------
        bool
            By default at each.
        """
        return True

    @abstractmethod
    def init(self, problem: BaseProblem, arcs: Arcs, w: Float[np.ndarray, "agents P"]) -> tuple[Any, Any]:
        """Return the states at the start, and what neighbours know of an agent before its first message arrives.

        Parameters
        ----------
        problem : Problem
            The block of agents.
        arcs : Arcs
            The arcs to them.
        w : ndarray (agents, P)
            Their starting points.

        Returns
        -------
        state : NamedTuple
            State of arrays (agents, ...).
        messages : NamedTuple
            Arrays (agents, ...), as :meth:`wake` sends them.
        """

    @abstractmethod
    def wake(self, problem: BaseProblem, arcs: Arcs, state: AnyState, mailbox: AnyState) -> tuple[Any, Any]:
        """Return the states after a wake, and the messages to send.

        Parameters
        ----------
        problem : Problem
            The block of agents that wake.
        arcs : Arcs
            The arcs to them.
        state : NamedTuple
            Their states; not to be changed.
        mailbox : NamedTuple
            The newest messages that arrived, each field an array (agents, D, ...); not to be changed or kept. Engines with a
            clock on the wall read them when the first field is asked for: compute before that what does not depend on them.

        Returns
        -------
        state : NamedTuple
            New arrays.
        messages : NamedTuple
            What is sent along all arcs that leave the agents.
        """

    def step(self, problem: BaseProblem, network: object, state: object) -> AnyState:
        """Raise ``TypeError``: there are no rounds.

        Parameters
        ----------
        problem : Problem
            As of a solver with rounds.
        network : Network
            As there.
        state : NamedTuple
            As there.

        Returns
        -------
        NamedTuple
            Never.
        """
        raise TypeError(f"{type(self).__name__} wakes without rounds: engine=consensus.asynchronous.Simulated() runs it")
