"""Schedules with losses in bursts and with agents that are active at random."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, cast

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.schedules.base import Recent, Schedule, stream
from topologies.schedules.lost_messages import Parts, Sums, links, sums_option, take_apart, without
from topologies.schedules.protocols import GraphSchedule, UnionSchedule, is_static


class _Chains:
    """Independent chains with two states, down and up, that are stationary from round 0 on, at any round by itself.

    With p the chance to go down and q that to come up, a draw u in [0, 1) of each round says: down if u < p, up if u >= 1 - q,
    as before otherwise. So the state of a round is that of the last draw that decided, or of the first round.
    """

    def __init__(self, tag: bytes, seed: int, down: float, length: float) -> None:
        self.tag, self.seed, self.share = tag, seed, down
        self.up = 1 / length
        self.down = self.up * down / (1 - down)

    def at(self, round: int, count: int) -> np.ndarray:
        """Return which of the chains are down in a round."""
        state, open_ = np.zeros(count, bool), np.ones(count, bool)
        for earlier in range(round, 0, -1):
            u = stream(self.tag, self.seed, earlier).random(count)
            falls, rises = u < self.down, u >= 1 - self.up
            state[open_ & falls] = True
            open_ &= ~(falls | rises)
            if not open_.any():
                return state
        first = stream(self.tag, self.seed, 0).random(count) < self.share
        state[open_] = first[open_]
        return state


class _Broken(Schedule):
    """Another schedule without some of its links in each round, whose weight returns to the diagonal."""

    _changes: bool
    schedule: GraphSchedule
    preserve: Sums | None

    @abstractmethod
    def _lost(self, round: int) -> tuple[Parts, np.ndarray, list[int]]:
        """Return the matrix of a round before losses, which of its entries are lost, and the agents that are left alone."""

    def _start(self, schedule: GraphSchedule, preserve: Sums | None) -> None:
        self.schedule, self.agents = _checks.schedule(schedule, also=("graph",)), schedule.agents
        self.preserve = sums_option(preserve)
        self._recent = Recent()
        self._parts(0)  # rejects unsuitable matrices at once

    def _parts(self, round: int) -> Parts:
        key = self.schedule.key(round)
        return self._recent.get(key, lambda: take_apart(self.schedule.weights(key), self.preserve))

    @property
    def labels(self) -> tuple[Hashable, ...] | None:  # type: ignore[override]  # those of the wrapped schedule
        """Names of the agents, as in the wrapped schedule."""
        return getattr(self.schedule, "labels", None)

    @property
    def static(self) -> bool:
        """True if nothing is ever lost, and the wrapped schedule is static."""
        return not self._changes and is_static(self.schedule)

    def key(self, round: int) -> Hashable:
        return integer("round", round, 0) if self._changes else self.schedule.key(round)

    def weights(self, key: Any) -> sparse.csr_array:  # noqa: ANN401  # a round, or a key of the wrapped schedule
        return without(*self._lost(key)) if self._changes else self.schedule.weights(key)

    def graph(self, round: int) -> nx.Graph:
        graph = self.schedule.graph(round)
        if self._changes:
            parts, lost, _ = self._lost(integer("round", round, 0))
            receivers, senders = parts.rows[lost].tolist(), parts.columns[lost].tolist()
            graph.remove_edges_from(zip(senders, receivers))
        return graph

    @property
    def union(self) -> Callable[[], sparse.csr_array]:
        """The method ``union`` of the wrapped schedule, if it has one."""
        return cast(UnionSchedule, self.schedule).union


class GilbertElliott(_Broken):
    """A schedule whose links fail in bursts: each is good or bad, by a chain of Markov of its own [1]_.

    A bad link loses the messages in both directions, a good one none. The chain begins in its stationary law, so that in every
    round the chance of a loss is `loss`; once bad, a link stays bad for `burst` rounds on average. Weights of lost messages
    return to the diagonal as in `topologies.LinkFailure`, which see for the sums that remain one: symmetric doubly stochastic
    matrices stay that. A burst of ``1 / (1 - loss)`` rounds is what independent losses have.

    The state of a link depends on `seed`, the round and the number of the link in the round's matrix: where the wrapped
    schedule changes its edges, a burst goes on at the link that has the same number.

    Parameters
    ----------
    schedule : schedule
        Schedule with graphs, such as those of this package.
    loss : float in [0, 1)
        Share of the rounds in which a link is bad.
    burst : float
        Mean length of a burst in rounds, at least ``1 / (1 - loss)``.
    seed : int
        Seed, at least 0.
    preserve : {"columns", "rows"}, optional
        Sums to preserve, as in `topologies.LinkFailure`.

    References
    ----------
    .. [1] E. N. Gilbert, "Capacity of a burst-noise channel", Bell System Technical Journal 39 (1960).

    Examples
    --------
    >>> import topologies
    >>> network = topologies.GilbertElliott(topologies.Static(topologies.ring(5)), loss=0.25, burst=8.0)
    >>> network
    GilbertElliott(Static(agents=5, edges=5, weights=metropolis), loss=0.25, burst=8.0, seed=0)
    >>> [network.graph(n).number_of_edges() for n in range(0, 40, 4)]
    [2, 2, 1, 4, 4, 4, 3, 4, 5, 2]
    """

    def __init__(self, schedule: GraphSchedule, loss: float, burst: float, seed: int = 0, preserve: Sums | None = None) -> None:
        why = "; at 1 all messages are lost"
        self.loss = _checks.real("loss", loss, "a number in [0, 1)", lambda number: 0 <= number < 1, why)
        least = 1 / (1 - self.loss)
        wanted = f"a number >= 1 / (1 - loss) = {least:.4g}, the mean burst of independent losses"
        self.burst = _checks.real("burst", burst, wanted, lambda number: number >= least * (1 - 1e-12))
        self.seed = integer("seed", seed, 0)
        self._changes = self.loss > 0
        self._chains = _Chains(b"gilb", self.seed, self.loss, self.burst)
        self._start(schedule, preserve)

    def __repr__(self) -> str:
        kept = "" if self.preserve is None else f", preserve={self.preserve!r}"
        return f"GilbertElliott({self.schedule!r}, loss={self.loss}, burst={self.burst}, seed={self.seed}{kept})"

    def _settings(self) -> Hashable:
        return self.schedule, self.loss, self.burst, self.seed, self.preserve

    def _lost(self, round: int) -> tuple[Parts, np.ndarray, list[int]]:
        parts = self._parts(round)
        numbers, apart = links(parts), parts.rows != parts.columns
        bad = self._chains.at(round, int(numbers[apart].max(initial=-1)) + 1)
        lost = np.zeros(len(numbers), bool)
        lost[apart] = bad[numbers[apart]]
        return parts, lost, []


class RandomActivation(_Broken):
    """A schedule in which each agent is active at random; the others exchange with nobody in that round [1]_.

    An agent is active in a round with the given `probability`, independently in every round, or, with `idle`, by a chain of
    Markov of its own: once inactive it stays so for `idle` rounds on average. The chain begins in its stationary law. An edge
    is present if both its agents are active; the weights of the others return to the diagonal as in `topologies.AgentFailure`,
    so symmetric doubly stochastic matrices stay that, and v_kk = 1 for an inactive agent k. It still takes its own steps
    between exchanges.

    Parameters
    ----------
    schedule : schedule
        Schedule with graphs, such as those of this package.
    probability : float in (0, 1]
        Share of the rounds in which an agent is active.
    idle : float, optional
        Mean number of rounds without a break in which an agent is inactive, at least ``1 / probability``, which is what it is
        by default.
    seed : int
        Seed, at least 0.
    preserve : {"columns", "rows"}, optional
        Sums to preserve, as in `topologies.LinkFailure`.

    References
    ----------
    .. [1] S. Boyd, A. Ghosh, B. Prabhakar and D. Shah, "Randomized gossip algorithms", IEEE Transactions on Information Theory
       52(6) (2006), for agents that wake at random.

    Examples
    --------
    >>> import topologies
    >>> network = topologies.RandomActivation(topologies.Static(topologies.complete(4)), 0.5, seed=1)
    >>> network
    RandomActivation(Static(agents=4, edges=6, weights=metropolis), probability=0.5, seed=1)
    >>> [network.active(n) for n in range(4)]
    [(1,), (1, 3), (0, 2, 3), (2,)]
    >>> network.weights(network.key(1)).toarray()
    array([[1.  , 0.  , 0.  , 0.  ],
           [0.  , 0.75, 0.  , 0.25],
           [0.  , 0.  , 1.  , 0.  ],
           [0.  , 0.25, 0.  , 0.75]])
    """

    def __init__(
        self,
        schedule: GraphSchedule,
        probability: float,
        idle: float | None = None,
        seed: int = 0,
        preserve: Sums | None = None,
    ) -> None:
        why = "; at 0 nobody ever exchanges"
        self.probability = _checks.real("probability", probability, "a number in (0, 1]", lambda number: 0 < number <= 1, why)
        least = 1 / self.probability
        wanted = f"a number >= 1 / probability = {least:.4g}, what it is without memory"
        valid = idle is None or _checks.real("idle", idle, wanted, lambda number: number >= least * (1 - 1e-12))
        self.idle = None if idle is None else float(valid)
        self.seed = integer("seed", seed, 0)
        self._changes = self.probability < 1
        self._chains = _Chains(b"wake", self.seed, 1 - self.probability, self.idle or least)
        self._start(schedule, preserve)

    def __repr__(self) -> str:
        idle = "" if self.idle is None else f", idle={self.idle}"
        kept = "" if self.preserve is None else f", preserve={self.preserve!r}"
        return f"RandomActivation({self.schedule!r}, probability={self.probability}{idle}, seed={self.seed}{kept})"

    def _settings(self) -> Hashable:
        return self.schedule, self.probability, self.idle, self.seed, self.preserve

    def active(self, round: int) -> tuple[int, ...]:
        """Return the agents that are active in a round.

        Parameters
        ----------
        round : int
            Round, at least 0.

        Returns
        -------
        tuple of int
            Agents in ascending order.
        """
        return tuple(np.flatnonzero(~self._inactive(integer("round", round, 0))).tolist())

    def _inactive(self, round: int) -> np.ndarray:
        return self._chains.at(round, self.agents) if self._changes else np.zeros(self.agents, bool)

    def _lost(self, round: int) -> tuple[Parts, np.ndarray, list[int]]:
        parts, away = self._parts(round), self._inactive(round)
        lost = (away[parts.rows] | away[parts.columns]) & (parts.rows != parts.columns)
        return parts, lost, np.flatnonzero(away).tolist()
