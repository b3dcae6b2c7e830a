"""The messages of an exchange, each by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from consensus.communication.plans import Plan

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Real


class Messages(NamedTuple):
    """The messages that a block of agents receives in one exchange: an arc each, those to one agent side by side.

    Blocks of more than two axes are flattened to two. Sums over an agent's own arcs, in their order, have the same bits on
    every engine.

    Attributes
    ----------
    own : ndarray (agents, P)
        The agents' own rows.
    own_weights : ndarray (agents,)
        Their weights W_ii.
    receivers : ndarray of int (arcs,)
        Receiver of each arc, as a row of the block, in ascending order.
    senders : ndarray of int (arcs,)
        Its sender, as a number in the network.
    weights : ndarray (arcs,)
        Its weight W_ij.
    rows : ndarray (rows, P)
        The received rows.
    sources : ndarray of int (arcs,)
        The place in ``rows`` of the row that the arc brought.

    Examples
    --------
    Agent 0 receives from agents 1 and 2, who receive nothing:

    >>> import numpy as np
    >>> from consensus.communication import Messages
    >>> own, rows = np.zeros((1, 2)), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> arcs = np.array([0, 0]), np.array([1, 2]), np.array([0.25, 0.25])
    >>> messages = Messages(own, np.array([0.5]), *arcs, rows, np.array([0, 1]))
    >>> messages.mixed().tolist()
    [[0.25, 0.25]]
    """

    own: Float[np.ndarray, "agents P"]
    own_weights: Real[np.ndarray, " agents"]
    receivers: Int[np.ndarray, " arcs"]
    senders: Int[np.ndarray, " arcs"]
    weights: Real[np.ndarray, " arcs"]
    rows: Float[np.ndarray, "rows P"]
    sources: Int[np.ndarray, " arcs"]

    @classmethod
    def of(cls, plan: Plan, agents: slice, rows: np.ndarray, own: np.ndarray) -> Messages:
        """Return the messages of an exchange.

        Parameters
        ----------
        plan : Plan
            Plan of the exchange.
        agents : slice
            The block.
        rows : ndarray (rows, ...)
            All rows that ``plan.matrix`` would multiply.
        own : ndarray (agents, ...)
            The block's among them.

        Returns
        -------
        Messages
        """
        matrix = plan.matrix
        receivers = np.repeat(np.arange(len(own)), np.diff(matrix.indptr))
        others = plan.senders != receivers + agents.start
        own_weights = np.zeros(len(own), matrix.dtype)
        own_weights[receivers[~others]] = matrix.data[~others]
        arcs = (receivers[others], plan.senders[others], matrix.data[others])
        rows, own = (block.reshape(len(block), -1) for block in (rows, own))
        return cls(own, own_weights, *arcs, rows, matrix.indices[others])

    def differences(self) -> Float[np.ndarray, "arcs P"]:
        """Return the received row of each arc minus its receiver's own row.

        Returns
        -------
        ndarray (arcs, P)
            Differences.
        """
        return cast(np.ndarray, self.rows[self.sources] - self.own[self.receivers])

    def total(self, values: Float[np.ndarray, "arcs P"], weights: Float[np.ndarray, " arcs"]) -> Float[np.ndarray, "agents P"]:
        """Return each agent's weighted sum over its arcs.

        Parameters
        ----------
        values : ndarray (arcs, P)
            Terms of the sums.
        weights : ndarray (arcs,)
            Their weights.

        Returns
        -------
        ndarray (agents, P)
            Sums.
        """
        ends = np.searchsorted(self.receivers, np.arange(len(self.own) + 1))
        shape = (len(self.own), len(values))
        sums = sp.csr_array((weights.astype(values.dtype, copy=False), np.arange(len(values)), ends), shape=shape)
        return cast(np.ndarray, sums @ values)

    def mixed(self) -> Float[np.ndarray, "agents P"]:
        """Return ``W_ii x_i + sum_j W_ij x_j``, which is :meth:`Network.mix` up to rounding.

        Returns
        -------
        ndarray (agents, P)
            Mixed rows.
        """
        return cast(np.ndarray, self.own_weights[:, None] * self.own + self.total(self.rows[self.sources], self.weights))
