"""Schedules whose links fail at random."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, cast

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.pattern import Frame, complete_pattern, edge_values, is_table
from topologies.schedules.base import Recent, Schedule, stream
from topologies.schedules.lost_messages import Parts, Sums, links, sums_option, take_apart, without
from topologies.schedules.protocols import GraphSchedule, UnionSchedule, is_static, labels

_ALLOWED = "a number in [0, 1)"


class LinkFailure(Schedule):
    """A schedule in which the edges of another fail with a given probability, independently in every round [1]_.

    The weight of a lost message returns to the diagonal [2]_. With the mixing matrix W of a round and the set L of entries
    (i, j) of lost messages from j to i, the new matrix V has v_ij = 0 on L, v_ij = w_ij elsewhere, and on the diagonal either

        v_jj = w_jj + sum_i w_ij over L:   column sums are preserved (the sender misses an acknowledgement); or
        v_ii = w_ii + sum_j w_ij over L:   row sums are preserved (the receiver misses the message).

    Both are the same if W is symmetric and messages are lost in both directions. So V is

    - symmetric doubly stochastic if W is, with ``symmetric=True`` (for gradient tracking, NEXT, EXTRA and others);
    - column stochastic if W is, with or without `symmetric` (for push-sum methods);
    - row stochastic if W is, with or without `symmetric` (for one matrix of push-pull methods);
    - only column stochastic if W is doubly stochastic but not symmetric, or with ``symmetric=False``: use a push-sum method,
      because others lose the average of the agents.

    Every edge appears again and again. Failures depend on `seed`, the round and its edges alone: with one seed, schedules of
    row- and of column-stochastic weights over one graph lose the same messages. Nested failures need different seeds.

    Parameters
    ----------
    schedule : schedule
        Schedule with graphs, such as those of this package.
    probability : float in [0, 1), or array_like of shape (A, A)
        Probability that an edge fails; or of each edge by itself, a matrix or pandas DataFrame whose entry (i, j) is that of
        the edge from i to j, such as ``networkx.to_numpy_array(graph, weight="loss")``. Entries off the edges are not read.
    seed : int
        Seed, at least 0.
    symmetric : bool
        Whether both directions of an edge fail together. Otherwise they fail independently, and graphs are directed.
    preserve : {"columns", "rows"}, optional
        Sums to preserve; by default those of the columns if all are one, else those of the rows, in each round.

    Raises
    ------
    ValueError
        Without `preserve`, if neither rows nor columns of a matrix sum to one: at once in round 0, later in ``weights``.

    References
    ----------
    .. [1] S. Kar and J. M. F. Moura, "Sensor networks with random links: topology design for distributed consensus" (2008).
    .. [2] C. N. Hadjicostis, N. H. Vaidya and A. D. Dominguez-Garcia, "Robust distributed average consensus via exchange of
       running sums" (2016).

    Examples
    --------
    >>> import topologies
    >>> network = topologies.LinkFailure(topologies.Static(topologies.path(3)), 0.4, seed=1)
    >>> network
    LinkFailure(Static(agents=3, edges=2, weights=metropolis), probability=0.4, seed=1, symmetric=True)
    >>> network.graph(2).edges
    EdgeView([(0, 1)])
    >>> network.weights(network.key(2)).toarray().round(2)
    array([[0.67, 0.33, 0.  ],
           [0.33, 0.67, 0.  ],
           [0.  , 0.  , 1.  ]])
    """

    def __init__(
        self,
        schedule: GraphSchedule,
        probability: float | ArrayLike | Frame,
        seed: int = 0,
        symmetric: bool = True,
        preserve: Sums | None = None,
    ) -> None:
        self.schedule, self.agents = _checks.schedule(schedule, also=("graph",)), schedule.agents
        why = "; at 1 all messages are lost"
        self.probability: float | np.ndarray
        if np.ndim(cast(Any, probability)) or is_table(probability):
            full = complete_pattern(self.agents)
            names = labels(self.schedule) if is_table(probability) else range(self.agents)
            values = edge_values("probability", cast(Any, probability), full, names)
            self.probability = sparse.csr_array((values, full.indices, full.indptr), shape=full.shape).toarray()
        elif isinstance(probability, str):
            raise ValueError(
                f"probability must be a number in [0, 1) or a matrix, got {probability!r}; of an edge attribute pass "
                f"networkx.to_numpy_array(graph, weight={probability!r})"
            )
        else:
            self.probability = _checks.real("probability", probability, _ALLOWED, lambda number: 0 <= number < 1, why)
        self._fails = bool(np.any(self.probability != 0))
        self.seed = integer("seed", seed, 0)
        self.symmetric, self.preserve = _checks.flag("symmetric", symmetric), sums_option(preserve)
        self._recent = Recent()
        self._links(0)  # rejects unsuitable matrices at once

    def __repr__(self) -> str:
        kept = "" if self.preserve is None else f", preserve={self.preserve!r}"
        each = self.probability
        shown = f"an array {each.shape}" if isinstance(each, np.ndarray) else each
        settings = f"probability={shown}, seed={self.seed}, symmetric={self.symmetric}{kept}"
        return f"LinkFailure({self.schedule!r}, {settings})"

    def _settings(self) -> Hashable:
        each = self.probability
        return self.schedule, each.tobytes() if isinstance(each, np.ndarray) else each, self.seed, self.symmetric, self.preserve

    def _links(self, round: int) -> tuple[Parts, np.ndarray, int, float | np.ndarray]:
        """Return the matrix of a round before failures, the link of each stored entry, and the number of links.

        The last value is the probability of each link.
        """
        key = self.schedule.key(round)
        return self._recent.get(key, lambda: self._number(take_apart(self.schedule.weights(key), self.preserve)))

    def _number(self, parts: Parts) -> tuple[Parts, np.ndarray, int, float | np.ndarray]:
        apart = parts.rows != parts.columns
        numbers = links(parts) if self.symmetric else np.cumsum(apart) - 1
        count = int(numbers[apart].max(initial=-1)) + 1
        numbers[~apart] = count  # an additional link that never fails
        return parts, numbers, count, self._each(parts, numbers, count)

    def _each(self, parts: Parts, numbers: np.ndarray, count: int) -> float | np.ndarray:
        """Return the probability of each link, checked."""
        if not isinstance(self.probability, np.ndarray):
            return self.probability
        apart = numbers < count
        senders, receivers = parts.columns[apart], parts.rows[apart]
        values = self.probability[senders, receivers]
        asked = [(~((values >= 0) & (values < 1)), f"{_ALLOWED} on every edge")]
        if self.symmetric:
            asked.append((values != self.probability[receivers, senders], "symmetric, or symmetric=False be given"))
        for wrong, wanted in asked:
            for k in np.flatnonzero(wrong)[:1].tolist():
                raise ValueError(f"probability must be {wanted}; on edge ({senders[k]}, {receivers[k]}) it is {values[k]:g}")
        each = np.zeros(count)
        each[numbers[apart]] = values
        return each

    def _lost(self, round: int) -> tuple[Parts, np.ndarray]:
        parts, numbers, count, each = self._links(round)
        drawn = stream(b"link", self.seed, round).random(count)
        return parts, np.append(drawn < each, False)[numbers]

    @property
    def labels(self) -> tuple[Hashable, ...] | None:  # type: ignore[override]  # those of the wrapped schedule
        """Names of the agents, as in the wrapped schedule."""
        return getattr(self.schedule, "labels", None)

    @property
    def static(self) -> bool:
        """True if the probability is 0 and the wrapped schedule is static."""
        return not self._fails and is_static(self.schedule)

    def key(self, round: int) -> Hashable:
        # With failures, even rounds with equal matrices differ.
        return integer("round", round, 0) if self._fails else self.schedule.key(round)

    def weights(self, key: Any) -> sparse.csr_array:  # noqa: ANN401  # a round, or a key of the wrapped schedule
        return without(*self._lost(key)) if self._fails else self.schedule.weights(key)

    def graph(self, round: int) -> nx.Graph:
        graph = self.schedule.graph(round)
        graph = graph if self.symmetric else nx.DiGraph(graph)
        if self._fails:
            parts, lost = self._lost(integer("round", round, 0))
            receivers, senders = parts.rows[lost].tolist(), parts.columns[lost].tolist()
            graph.remove_edges_from(zip(senders, receivers))
            if self.symmetric:
                graph.remove_edges_from(zip(receivers, senders))
        return graph

    @property
    def union(self) -> Callable[[], sparse.csr_array]:
        """The method ``union`` of the wrapped schedule, if it has one."""
        return cast(UnionSchedule, self.schedule).union
