"""A solver under attack by Byzantine agents."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias, cast

import numpy as np

from consensus import _checks
from consensus.communication import Messages, Network
from consensus.robust.changed_network import Block, ChangedNetwork, MessageWrapper
from consensus.solvers.needs import Needs
from topologies import _names
from topologies.schedules import ScheduleLike

AttackFunction: TypeAlias = Callable[[Messages, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Attack(MessageWrapper):
    """Another solver, robust or not, under attack: Byzantine agents send something else than the method asks for.

    In every exchange ``attack(messages, byzantine)`` computes what is sent in place of each message from a Byzantine agent to
    an honest one. ``byzantine`` (arcs,) marks these messages, and the function returns their new rows (marked messages, P) in
    the same order. A row may depend on the receiver's own row and on the rows that honest agents send to it, and may differ
    from receiver to receiver. It must not depend on messages to other agents: then all engines give the same bits. Byzantine
    agents update their own rows by the method and send each other what the method asks for.

    The history of the run describes the honest agents: ``objective`` is the cost of their data at their mean, and
    ``disagreement``, ``metrics`` and ``result.mean`` are theirs alone. ``result.honest`` lists them; ``result.w`` has all rows.

    Parameters
    ----------
    solver : Solver
        The solver, such as ``CSPlus(DGD(0.1), byzantine_weight=0.2)``. An attack is the outermost wrapper.
    byzantine : sequence of int or str
        The Byzantine agents: their numbers, or their names in the run; at least one agent must be honest.
    attack : callable
        :class:`SignFlip`, :class:`ALIE`, :class:`IPM`, :class:`Dissensus`, or a function of your own.

    Raises
    ------
    ValueError
        If ``byzantine`` does not name different agents of the network, or names all of them.
    TypeError
        If ``solver`` cannot be wrapped, ``byzantine`` is not a list of numbers or names, or ``attack`` is not a function.

    Examples
    --------
    >>> from consensus.solvers import DGD
    >>> from consensus.robust import Attack
    >>> def zeros(messages, byzantine):
    ...     return 0 * messages.rows[messages.sources[byzantine]]
    >>> Attack(DGD(0.1), byzantine=[4, 2], attack=zeros).byzantine
    (2, 4)
    """

    byzantine: Sequence[int | str]
    attack: AttackFunction

    def __post_init__(self) -> None:
        named = isinstance(self.byzantine, list | tuple) and any(isinstance(agent, str) for agent in self.byzantine)
        # Names become numbers where the run's agents are known.
        object.__setattr__(self, "byzantine", tuple(self.byzantine) if named else byzantine_agents(self.byzantine, None))
        super().__post_init__()
        if not callable(self.attack) or isinstance(self.attack, type):
            raise TypeError(f"attack must be a function, or an object such as SignFlip(); got {_checks.shown(self.attack)}")

    @property
    def needs(self) -> Needs:
        return replace(super().needs, each_message=True)

    def check_network(self, schedule: ScheduleLike) -> None:
        super().check_network(_checks.schedule(schedule))
        found = byzantine_agents(self.byzantine, getattr(schedule, "labels", None))
        if found and found[-1] >= schedule.agents:
            raise ValueError(f"byzantine must be among 0 .. {schedule.agents - 1}; got {list(found)}")
        if len(found) == schedule.agents:
            raise ValueError(f"byzantine must leave an honest agent; got all of 0 .. {schedule.agents - 1}")

    def matched(self, order: tuple[int, ...] | None, labels: tuple[Hashable, ...] | None) -> Self:
        return replace(super().matched(order, labels), byzantine=byzantine_agents(self.byzantine, labels))

    def around(self, network: Network) -> Network:
        return cast(Network, AttackedNetwork(network, cast(list[int], list(self.byzantine)), self.attack))


def byzantine_agents(agents: Sequence[int | str], labels: Sequence[Hashable] | None) -> tuple[int, ...]:
    """Return agents' numbers in ascending order, those of names by ``labels``; raise an error unless they differ."""
    numbers = _names.places("byzantine", agents, labels) if isinstance(agents, list | tuple) else agents
    found = _checks.dense("byzantine", numbers)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"byzantine must be agents' numbers, such as [2, 5], or names; got {_checks.shown(agents)}")
    different = np.unique(found)
    if len(different) < len(found) or (found.size and different[0] < 0):
        raise ValueError(f"byzantine must be different agents, numbers from 0; got {_checks.shown(agents)}")
    return tuple(different.tolist())


@dataclass(frozen=True)
class AttackedNetwork(ChangedNetwork):
    """A network on which messages from Byzantine to honest agents are replaced."""

    byzantine: list[int]
    attack: AttackFunction

    def mix(self, round: int, *blocks: Block, beside: int = 0) -> tuple[np.ndarray, ...]:
        return self.aggregate(round, Messages.mixed, *blocks, beside=beside)

    def aggregate(
        self, round: int, rule: Callable[[Messages], np.ndarray], *blocks: Block, beside: int = 0
    ) -> tuple[np.ndarray, ...]:
        return self.network.aggregate(round, lambda messages: rule(self._attacked(messages)), *blocks, beside=beside)

    def _attacked(self, messages: Messages) -> Messages:
        """Return the messages that arrive under attack."""
        byzantine = np.zeros(self.network.agents, bool)
        byzantine[self.byzantine] = True
        marked = byzantine[messages.senders] & ~byzantine[messages.receivers + self.network.rows.start]
        if not marked.any():
            return messages
        shape = int(marked.sum()), messages.rows.shape[1]
        rows = _checks.array("what attack returns", self.attack(messages, marked))
        if rows.shape != shape:
            raise ValueError(f"attack must return the rows (marked messages, P) = {shape}; got shape {rows.shape}")
        sources = messages.sources.copy()
        sources[marked] = len(messages.rows) + np.arange(len(rows))
        return messages._replace(rows=np.concatenate([messages.rows, rows.astype(messages.rows.dtype)]), sources=sources)
