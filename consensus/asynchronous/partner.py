"""Wakes that are events of two agents."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from consensus.asynchronous.blocks import Block
from consensus.asynchronous.mailbox import Mailbox
from consensus.asynchronous.pair_board import PairBoard
from consensus.engines.protocols import AnyState

_PATIENCE = 0.1  # seconds that an agent waits while its partner is being averaged


class Partner:
    """The random neighbour that an agent of this process meets at each of its wakes, whichever process wakes that one.

    From when the agent reads its mailbox until its wake is published, nobody else changes it or its partner. An agent that has
    to wait too long for its partner wakes without one, as if a message were lost. Until that one is met again, agents of this
    process do not wait for it.

    Parameters
    ----------
    board : PairBoard
        All agents.
    part : Block
        The agent.
    first : int
        The number of this process' first agent.
    make : callable
        Makes messages of their fields by name.
    late : set of int
        The agents that this process does not wait for.
    """

    def __init__(self, board: PairBoard, part: Block, first: int, make: Callable[..., AnyState], late: set[int]) -> None:
        self._board, self._agent, self._make, self._late = board, first + part.rows.start, make, late
        self._neighbours = [j for j in part.arcs.sources[0].tolist() if j >= 0]
        self._rng = np.random.default_rng(self._agent)

    def mailbox(self, own: AnyState) -> Mailbox:
        """Return what is read when the agent meets its partner, and then written into its own state, too.

        Parameters
        ----------
        own : NamedTuple of ndarray (1, ...)
            The agent's state.

        Returns
        -------
        Mailbox
            The partner's state.
        """
        return Mailbox(partial(self._meet, own))

    def _meet(self, own: AnyState) -> AnyState:
        board, agent = self._board, self._agent
        self._place = int(self._rng.integers(len(self._neighbours)))
        partner = self._neighbours[self._place]
        both = board.hold([agent, partner], 0.0 if partner in self._late else _PATIENCE)
        (self._late.add if both is None else self._late.discard)(partner)
        self._rows = board.hold_own(agent) if both is None else both
        self._agents = [agent] if both is None else [agent, partner]
        values, times = board.read(np.array(self._agents), slice(None))
        for name, value in zip(board.names, values, strict=True):
            getattr(own, name)[...] = value[:1]
        board.stale[agent] = max(board.stale[agent], time.monotonic() - times[-1])
        return self._make(**{name: value[-1:, None] for name, value in zip(board.names, values, strict=True)})

    def publish(self, messages: AnyState, state: AnyState) -> bool:
        """Publish a wake; return whether it counts.

        Parameters
        ----------
        messages : NamedTuple of ndarray (1, ...)
            The partner's new state.
        state : NamedTuple of ndarray (1, ...)
            The agent's.

        Returns
        -------
        bool
            False if this process was stopped so long that an agent has moved: the wake is to be forgotten.
        """
        both: list[Any] = [(getattr(state, name), getattr(messages, name)) for name in self._board.names]
        values = [np.concatenate(pair)[: len(self._agents)] for pair in both]
        return self._board.commit(self._agents, self._rows, values, self._place)
