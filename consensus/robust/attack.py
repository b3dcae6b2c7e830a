"""Agents that lie."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np

from consensus import _checks
from consensus.communication.messages import Messages
from consensus.communication.network import Network
from consensus.robust.network import ChangedNetwork, MessageWrapper
from consensus.solvers.needs import Needs
from topologies.schedules import ScheduleLike

Lie: TypeAlias = Callable[[Messages, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Attack(MessageWrapper):
    """Another solver, robust or not, under attack: what some agents send to honest ones is replaced by a lie.

    In every exchange ``lie(heard, lying)`` says what is sent instead, for each of the messages ``heard`` that go from a liar to
    an honest agent: ``lying`` (arcs,) says which these are, and the rows (lying messages, P) come back in their order. So a
    lie may know the rows of the agent that it is told to, and of all honest ones whom that agent hears, and may be another one
    for everyone. Liars themselves follow the method on what they hear, and are honest with each other. A function of one's own
    must compute each row from its receiver's messages alone: then all engines give the same bits.

    A history shows how the honest agents do: ``objective`` is the cost that they alone have, at their mean, and so are
    ``disagreement``, ``metrics`` and ``result.mean`` theirs; ``result.honest`` says who they are, ``result.w`` has all.

    Parameters
    ----------
    solver : Solver
        As ``CSPlus(DGD(0.1), tolerated=0.2)``: an attack is outermost.
    liars : sequence of int
        Who lies; not everyone.
    lie : callable
        :class:`SignFlip`, :class:`ALIE`, :class:`IPM`, :class:`Dissensus`, or a function of one's own.

    Raises
    ------
    ValueError
        If liars are not different agents of the network, or all of them.
    TypeError
        If ``solver`` is none that can be wrapped, ``liars`` no agents' numbers, or ``lie`` no function.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.solvers import DGD
    >>> from consensus.robust import Attack
    >>> Attack(DGD(0.1), liars=[4, 2], lie=lambda heard, lying: 0 * heard.rows[heard.sources[lying]]).liars
    (2, 4)
    """

    liars: Sequence[int]
    lie: Lie

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "liars", agents_of(self.liars))
        if not callable(self.lie) or isinstance(self.lie, type):
            raise TypeError(f"lie must be a function, or an object such as SignFlip(); got {_checks.shown(self.lie)}")

    @property
    def needs(self) -> Needs:
        return replace(super().needs, each_message=True)

    def check_network(self, schedule: ScheduleLike) -> None:
        super().check_network(_checks.schedule(schedule))
        if self.liars and self.liars[-1] >= schedule.agents:
            raise ValueError(f"liars must be among 0 .. {schedule.agents - 1}; got {list(self.liars)}")
        if len(self.liars) == schedule.agents:
            raise ValueError(f"liars must leave an honest agent; got all of 0 .. {schedule.agents - 1}")

    def around(self, network: Network) -> Network:
        return cast(Network, AttackedNetwork(network, list(self.liars), self.lie))


def agents_of(liars: Sequence[int]) -> tuple[int, ...]:
    """``liars`` in ascending order.

    Raises
    ------
    TypeError, ValueError
        If they are not different agents' numbers.
    """
    numbers = _checks.dense("liars", liars)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise TypeError(f"liars must be agents' numbers, such as [2, 5]; got {_checks.shown(liars)}")
    found = np.unique(numbers)
    if len(found) < len(numbers) or (numbers.size and found[0] < 0):
        raise ValueError(f"liars must be different agents, numbers from 0; got {_checks.shown(liars)}")
    return tuple(found.tolist())


@dataclass(frozen=True)
class AttackedNetwork(ChangedNetwork):
    """A network on which ``liars`` tell honest agents what ``lie`` says."""

    liars: list[int]
    lie: Lie

    def mix(self, round, *blocks, beside=0):
        return self.aggregate(round, Messages.mixed, *blocks, beside=beside)

    def aggregate(self, round, rule, *blocks, beside=0):
        return self.network.aggregate(round, lambda heard: rule(self._told(heard)), *blocks, beside=beside)

    def _told(self, heard):
        """What agents hear when liars lie."""
        liar = np.zeros(self.network.agents, bool)
        liar[self.liars] = True
        lying = liar[heard.senders] & ~liar[heard.receivers + self.network.rows.start]
        if not lying.any():
            return heard
        shape = int(lying.sum()), heard.rows.shape[1]
        lies = _checks.array("what lie returns", self.lie(heard, lying))
        if lies.shape != shape:
            raise ValueError(f"lie must return the rows (lying messages, P) = {shape}; got shape {lies.shape}")
        sources = heard.sources.copy()
        sources[lying] = len(heard.rows) + np.arange(len(lies))
        return heard._replace(rows=np.concatenate([heard.rows, lies.astype(heard.rows.dtype)]), sources=sources)
