"""Schedules whose agents are numbered in another order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, cast

import networkx as nx
import numpy as np
from scipy import sparse

from topologies.pattern import entries
from topologies.schedules.base import Schedule
from topologies.schedules.protocols import GraphSchedule, ScheduleLike, UnionSchedule, is_static


class Reordered(Schedule):
    """Another schedule with its agents in another order: agent k is the agent ``order[k]`` of that one.

    Entries of matrices are those of the other one, so that its random draws, outages and settings stay with their agents.
    Self-weights that are one minus the others of their row, summed in the order of agents, are summed so in the new order:
    they equal, to the bit, those of the rule on a graph in that order.

    Parameters
    ----------
    schedule : schedule
        Any schedule.
    order : iterable of int
        Its agents in their new order.

    Examples
    --------
    >>> import networkx, topologies
    >>> from topologies.schedules.reordered import Reordered
    >>> network = Reordered(topologies.Static(networkx.Graph([("ann", "bob"), ("bob", "cy")])), [1, 2, 0])
    >>> network.labels, sorted(network.graph(0).edges)
    (('bob', 'cy', 'ann'), [(0, 1), (0, 2)])
    """

    def __init__(self, schedule: ScheduleLike, order: Iterable[int]) -> None:
        self.schedule, self.agents, self.order = schedule, schedule.agents, tuple(order)
        if (names := getattr(schedule, "labels", None)) is not None:
            self.labels = tuple(names[k] for k in self.order)

    def __repr__(self) -> str:
        return repr(self.schedule)

    def _settings(self) -> Hashable:
        return self.schedule, self.order

    @property
    def static(self) -> bool:
        """True if the other schedule is static."""
        return is_static(self.schedule)

    @property
    def meets_all(self) -> bool:
        """True if every two agents meet again and again."""
        return bool(getattr(self.schedule, "meets_all", False))

    @property
    def resorted(self) -> bool:
        """True if the nodes of the other schedule's graph were ordered as numbers, and had another order."""
        return bool(getattr(self.schedule, "resorted", False))

    def key(self, round: int) -> Hashable:
        return self.schedule.key(round)

    def weights(self, key: Any) -> sparse.csr_array:  # noqa: ANN401  # a key of the other schedule
        matrix = self.schedule.weights(key)
        kept = self_weights(matrix) == matrix.diagonal()
        matrix = permuted(matrix, self.order)
        rows, columns = entries(matrix)
        summed = (rows == columns) & kept[np.array(self.order)][rows]
        matrix.data[summed] = self_weights(matrix)[rows[summed]]
        return matrix

    @property
    def graph(self) -> Callable[[int], nx.Graph]:
        """The method ``graph`` of the other schedule, if it has one, with nodes in the new order."""
        graph = cast(GraphSchedule, self.schedule).graph
        return lambda round: self._renumbered(graph(round))

    def _renumbered(self, graph: nx.Graph) -> nx.Graph:
        found, number = graph.__class__(), {agent: k for k, agent in enumerate(self.order)}
        found.add_nodes_from((k, graph.nodes[agent]) for k, agent in enumerate(self.order))
        found.add_edges_from((number[first], number[second], about) for first, second, about in graph.edges(data=True))
        return found

    @property
    def union(self) -> Callable[[], sparse.csr_array]:
        """The method ``union`` of the other schedule, if it has one, in the new order."""
        union = cast(UnionSchedule, self.schedule).union
        return lambda: permuted(union(), self.order)


def permuted(matrix: sparse.csr_array, order: Iterable[int]) -> sparse.csr_array:
    """Return a CSR matrix (agents, agents) with rows and columns in another order, sorted, all stored entries kept."""
    order = np.array(list(order))
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    ends = tuple(number[place].astype(matrix.indices.dtype) for place in entries(matrix))
    # Conversion through CSC sorts the entries of each row in linear time.
    return sparse.coo_array((matrix.data, ends), shape=matrix.shape).tocsc().tocsr()


def self_weights(matrix: sparse.csr_array) -> np.ndarray:
    """Return one minus the sum of the other entries of each row, summed in the order in which they are stored."""
    rows, columns = entries(matrix)
    apart = np.where(rows == columns, 0.0, matrix.data)
    return np.asarray(1.0 - np.bincount(rows, apart, minlength=matrix.shape[0]))
