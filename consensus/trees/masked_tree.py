"""Secure aggregation along a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from consensus.privacy.fixed_point import SecureSums
from consensus.privacy.masks import Masks

if TYPE_CHECKING:
    from jaxtyping import Float, UInt64

    from consensus.communication.packed import Codec


class IntegerTree(Protocol):
    """Part of a :class:`Tree` that :class:`MaskedTree` uses."""

    agents: int

    @property
    def rows(self) -> slice:
        """The agents of this block."""

    @property
    def here(self) -> int | None:
        """The root's row in this block."""

    def reduce_integers(self, rows: UInt64[np.ndarray, "agents n"], counted: bool = True) -> UInt64[np.ndarray, "agents n"]:
        """Return sums over subtrees, modulo 2^64."""

    def broadcast_integers(self, rows: UInt64[np.ndarray, "agents n"], counted: bool = True) -> UInt64[np.ndarray, "agents n"]:
        """Return the root's row."""


class MaskedTree:
    """A :class:`Tree` whose sums are masked: messages on the way up are uniform modulo 2^64, except for the total at the root.

    Everything else is that of the ``tree``. The agents exchange public keys when it is made: each adds its own at its place,
    and all are sent down; this is counted if ``counted``, as it is in the first round of a run.
    """

    def __init__(self, tree: IntegerTree, sums: SecureSums, counted: bool) -> None:
        self._tree, self._sums, self._number = tree, sums, 0
        rows = tree.rows
        self._agents = np.arange(rows.start, rows.stop)
        self._masks = Masks(self._agents.tolist())
        public = np.zeros((len(self._agents), tree.agents, self._masks.public.shape[1]), np.uint64)
        public[np.arange(len(self._agents)), self._agents] = self._masks.public
        up = tree.reduce_integers(public.reshape(len(public), -1), counted)
        down = tree.broadcast_integers(up, counted)
        self._masks.agree(down[0].reshape(tree.agents, -1))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # of the tree
        return getattr(self._tree, name)

    def reduce(self, rows: Float[np.ndarray, "agents n"], codec: Codec | None = None) -> Float[np.ndarray, "agents n"]:
        """Return the sum over all agents in the root's row, zeros in others.

        Parameters
        ----------
        rows : ndarray (agents, n)
            Numbers to be added.
        codec : Codec, optional
            One whose rows are ``floats``, and then integers, which are sent as they are; by default all are in fixed point.

        Returns
        -------
        ndarray (agents, n)
            New rows.
        """
        fixed = None if codec is None else codec.floats  # type: ignore[attr-defined]  # IntegerRows has it
        codes = self._sums.encode(rows, self._agents, self._tree.agents, fixed)
        codes += self._masks.drawn(self._number, codes.shape[1])
        self._number += 1
        added, found = self._tree.reduce_integers(codes), np.zeros(rows.shape)
        if (here := self._tree.here) is not None:
            found[here] = self._sums.decode(added[here], fixed)
        return found
