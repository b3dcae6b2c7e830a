"""The protocols of schedules, and functions of any schedule."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Protocol

import networkx as nx
from scipy import sparse

from topologies import _checks

if TYPE_CHECKING:
    from jaxtyping import Float, Real


class ScheduleLike(Protocol):
    """The protocol of schedules: three members, and no base class.

    Rounds are requested in any order, more than once and in several processes, so a round must always have the same matrix:
    draw random numbers from a generator made for the round, such as ``numpy.random.default_rng([seed, round])``. For graphs
    given by a function of the round see `topologies.Sequence`, for a list of graphs `topologies.Periodic`.
    ``consensus.testing.check_schedule`` tries one of your own.

    Attributes
    ----------
    agents : int
        Number of agents A, at least 1, the same in all rounds.

    Notes
    -----
    The following members are optional.

    ``static`` : bool
        Whether all rounds, without end, have the same matrix; if it is missing, False. Read by solvers that are proven for
        static networks only, and by `topologies.conditions` and `topologies.check`.
    ``labels`` : tuple
        The user's names of the agents, in their order, or None. ``consensus.solve`` matches them with the names of the data,
        and they name agents in results and messages.
    ``graph(round)`` : networkx.Graph or networkx.DiGraph
        A new graph of a round, with nodes 0, ..., A - 1 and an edge from j to i wherever entry (i, j) of the matrix is not
        zero. The node attribute ``"label"`` names an agent in messages and figures, ``"pos"`` is its position in figures.
        Used by `topologies.LinkFailure` and `topologies.AgentFailure`, by engines with ``strict=True`` and by figures.
    ``union()`` : scipy.sparse.csr_array of float64, shape (A, A)
        Adjacency pattern of all edges that appear again and again: entry (i, j) is an edge from i to j, the transpose of a
        mixing matrix. Required by `topologies.components`, used by `topologies.conditions` and compared by checkpoints.
    ``meets_all`` : bool
        Whether every two agents meet again and again. If so, ``union()``, a dense matrix, is not called.

    The processes engine pickles the schedule by cloudpickle, and a resumed run needs a schedule of the same class and
    attributes. A frozen dataclass of plain settings satisfies both.

    Examples
    --------
    Agents take turns to send to all others, who give what they receive the weight ``trust``:

    >>> import topologies
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from scipy import sparse
    >>> @dataclass(frozen=True)
    ... class Speakers:
    ...     agents: int
    ...     trust: float
    ...     def key(self, round):
    ...         return round % self.agents
    ...     def weights(self, key):
    ...         matrix = (1 - self.trust) * np.eye(self.agents)
    ...         matrix[:, key] += self.trust
    ...         return sparse.csr_array(matrix)
    >>> network: topologies.ScheduleLike = Speakers(agents=4, trust=0.5)
    >>> found = topologies.conditions(network)
    >>> found.row_stochastic, found.column_stochastic, found.period, found.window
    (True, False, 4, 4)
    """

    @property
    def agents(self) -> int:
        """Number of agents."""
        ...

    @abstractmethod
    def key(self, round: int, /) -> Hashable:
        """Return the key of the mixing matrix of a round: rounds with equal keys have equal matrices.

        Engines prepare their messages once for each key. If no matrix repeats, return the round itself.

        Parameters
        ----------
        round : int
            Round, at least 0.

        Returns
        -------
        hashable
            Key of the matrix.
        """
        ...

    @abstractmethod
    def weights(self, key: Any, /) -> Real[sparse.csr_array, "agents agents"]:  # noqa: ANN401  # each class has its own keys
        """Return the mixing matrix of a key.

        Entry (i, j) is the weight that agent i gives to the value of agent j; off the diagonal it needs an edge from j to i.
        Every stored entry off the diagonal is a message, so do not store zeros. Callers do not modify the matrix.

        Parameters
        ----------
        key : hashable
            Key of a round, as `key` returns it.

        Returns
        -------
        scipy.sparse.csr_array of real numbers, shape (A, A)
            Mixing matrix; it can be the same object in every call.
        """
        ...


class GraphSchedule(ScheduleLike, Protocol):
    """A schedule that also gives the graph of every round."""

    @abstractmethod
    def graph(self, round: int, /) -> nx.Graph:
        """Return a new graph of a round, with the nodes 0, ..., A - 1.

        Parameters
        ----------
        round : int
            Round, at least 0.

        Returns
        -------
        networkx.Graph or networkx.DiGraph
            Graph with an edge from j to i wherever entry (i, j) of the mixing matrix is not zero.
        """
        ...


class UnionSchedule(ScheduleLike, Protocol):
    """A schedule that also gives the union of the graphs of all rounds."""

    @abstractmethod
    def union(self) -> Float[sparse.csr_array, "agents agents"]:
        """Return the adjacency pattern of all edges that appear again and again.

        Returns
        -------
        scipy.sparse.csr_array of float64, shape (A, A)
            Ones at the entries (i, j) of edges from i to j, as in `topologies.adjacency`.
        """
        ...


def is_static(schedule: ScheduleLike) -> bool:
    """Return whether all rounds of a schedule have the same matrix; False for schedules that do not say.

    Parameters
    ----------
    schedule : schedule
        Any schedule.

    Returns
    -------
    bool
        Value of the attribute ``static``, if there is one.

    Examples
    --------
    >>> import topologies
    >>> from topologies.schedules import is_static
    >>> is_static(topologies.Static(topologies.ring(5))), is_static(topologies.Matchings(6, seed=0))
    (True, False)
    """
    return bool(getattr(schedule, "static", False))


def patterns(schedule: ScheduleLike) -> list[sparse.csr_array]:
    """Return the ``union()`` of a schedule; none if it has no such method, or if all agents meet, as that would be dense."""
    union = None if getattr(schedule, "meets_all", False) else getattr(schedule, "union", None)
    return [union()] if union else []


def mixing_matrix(schedule: ScheduleLike, round: int) -> sparse.csr_array:
    """Return the mixing matrix of a round, checked."""
    return _checks.mixing(schedule.weights(schedule.key(round)), schedule)


def labels(schedule: ScheduleLike) -> list[Hashable]:
    """Return the names of the agents: the node attribute ``"label"`` of the graph of round 0, or else their numbers.

    Parameters
    ----------
    schedule : schedule
        Any schedule.

    Returns
    -------
    list
        Name of each agent.

    Examples
    --------
    >>> import networkx, topologies
    >>> from topologies.schedules import labels
    >>> labels(topologies.Static(networkx.Graph([("ann", "bob")])))
    ['ann', 'bob']
    """
    graph = getattr(schedule, "graph", None)
    nodes = graph(0).nodes if graph else {}
    return [nodes[k].get("label", k) if k in nodes else k for k in range(schedule.agents)]
