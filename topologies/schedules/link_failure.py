"""Links that lose their messages, over any schedule."""

from collections.abc import Callable, Hashable
from typing import Any, Literal

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.schedules.base import Recent, Schedule, ScheduleLike, is_static, stream
from topologies.schedules.lost_messages import links, take_apart, whose_sums, without


class LinkFailure(Schedule):
    """Every edge of another schedule fails with a given probability, independently in every round [1]_.

    The weight of a lost message returns to a diagonal. With W the mixing matrix of a round and L the set of lost entries
    (i, j), each a message from j to i, the new matrix V has v_ij = 0 on L, v_ij = w_ij elsewhere, and on the diagonal either

        v_jj = w_jj + sum_i w_ij over L:   columns keep their sums; the sender knows by acknowledgements; or
        v_ii = w_ii + sum_j w_ij over L:   rows keep their sums; the receiver sees that nothing came.

    When W is symmetric and messages are lost both ways the two are the same. What the wrapped schedule's matrices are
    decides what comes out, and so which methods stay right:

    - symmetric doubly stochastic, ``symmetric=True``: they stay so, for gradient tracking, NEXT, EXTRA and the like;
    - column stochastic: they stay so, with or without ``symmetric``, for push-sum methods;
    - row stochastic: they stay so, with or without ``symmetric``, for the row-stochastic half of push-pull methods;
    - doubly stochastic, but not symmetric or with ``symmetric=False``: only the columns go on summing to one. Methods
      that need doubly stochastic matrices lose the agents' average; use a push-sum method.

    Every edge comes back again and again, so joint connectivity is that of the wrapped schedule. Which edges fail
    depends on `seed`, the round and the edges of the round alone: two schedules over one graph, one with row- and one
    with column-stochastic weights, lose the same messages under one seed. Failures laid over failures need seeds of
    their own.

    Parameters
    ----------
    schedule : schedule
    probability : float in [0, 1)
        Of an edge to fail.
    seed : int of at least 0
    symmetric : bool
        Whether both directions of an edge fail together. Else each fails by itself, and graphs are directed.
    preserve : {"columns", "rows"}, optional
        Whose sums to keep. By default the columns' if all of them are one, else the rows'. A schedule that is row
        stochastic, and column stochastic in some rounds by chance, needs ``"rows"`` to be row stochastic in all.

    Raises
    ------
    TypeError
        If `schedule` is not a schedule.
    ValueError
        If another argument is out of range. If, without `preserve`, neither rows nor columns of a matrix sum to one:
        in round 0 at once, in later rounds when ``weights`` is called.

    References
    ----------
    .. [1] S. Kar and J. M. F. Moura, "Sensor networks with random links: topology design for distributed consensus",
       IEEE Transactions on Signal Processing 56 (2008); for lost messages C. N. Hadjicostis, N. H. Vaidya and A. D.
       Dominguez-Garcia, "Robust distributed average consensus via exchange of running sums", IEEE Transactions on
       Automatic Control 61 (2016).

    Examples
    --------
    >>> import topologies
    >>> from topologies import LinkFailure
    >>> network = LinkFailure(topologies.Static(topologies.path(3)), 0.4, seed=1)
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
        schedule: ScheduleLike,
        probability: float,
        seed: int = 0,
        symmetric: bool = True,
        preserve: Literal["columns", "rows"] | None = None,
    ) -> None:
        self.schedule, self.agents = _checks.schedule(schedule, also=("graph",)), schedule.agents
        why = "; at 1 no agents ever meet"
        self.probability = _checks.real("probability", probability, "a number in [0, 1)", lambda number: 0 <= number < 1, why)
        self.seed = integer("seed", seed, 0)
        self.symmetric, self.preserve = _checks.flag("symmetric", symmetric), whose_sums(preserve)
        self._recent = Recent()
        self._links(0)  # refuses what cannot work before any round is run

    def __repr__(self):
        kept = "" if self.preserve is None else f", preserve={self.preserve!r}"
        settings = f"probability={self.probability}, seed={self.seed}, symmetric={self.symmetric}{kept}"
        return f"LinkFailure({self.schedule!r}, {settings})"

    def _settings(self):
        return self.schedule, self.probability, self.seed, self.symmetric, self.preserve

    def _links(self, round):
        """The matrix of a round as it is without failures, the number of the link of each entry, and of all links."""
        key = self.schedule.key(round)
        return self._recent.get(key, lambda: self._number(take_apart(self.schedule.weights(key), self.preserve)))

    def _number(self, parts):
        apart = parts.rows != parts.columns
        numbers = links(parts) if self.symmetric else np.cumsum(apart) - 1
        count = int(numbers[apart].max(initial=-1)) + 1
        numbers[~apart] = count  # one more link, which never fails
        return parts, numbers, count

    def _lost(self, round):
        parts, numbers, count = self._links(round)
        drawn = stream(b"link", self.seed, round).random(count)
        return parts, np.append(drawn < self.probability, False)[numbers]

    @property
    def static(self) -> bool:
        """Whether nothing fails, and the schedule underneath stands still."""
        return not self.probability and is_static(self.schedule)

    def key(self, round: int) -> Hashable:
        # Without failures all is as it was; with them even equal matrices meet other failures in other rounds.
        return integer("round", round, 0) if self.probability else self.schedule.key(round)

    def weights(self, key: Any) -> sparse.csr_array:
        return without(*self._lost(key)) if self.probability else self.schedule.weights(key)

    def graph(self, round: int) -> nx.Graph:
        graph = self.schedule.graph(round)
        graph = graph if self.symmetric else nx.DiGraph(graph)
        if self.probability:
            parts, lost = self._lost(integer("round", round, 0))
            receivers, senders = parts.rows[lost].tolist(), parts.columns[lost].tolist()
            graph.remove_edges_from(zip(senders, receivers))
            if self.symmetric:
                graph.remove_edges_from(zip(receivers, senders))
        return graph

    @property
    def union(self) -> Callable[[], sparse.csr_array]:
        """That of the wrapped schedule, if it has one."""
        return self.schedule.union
