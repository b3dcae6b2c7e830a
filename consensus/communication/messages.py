"""What agents hear in an exchange, each message by itself."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from consensus.communication.plans import Plan


class Messages(NamedTuple):
    """What a block of agents hears in one exchange: an arc for each message, those to one agent side by side.

    Fields: the agents' ``own`` rows (agents, P) and the weights that they give these, ``own_weights`` (agents,); of every arc
    its receiver, as a row of the block, in ascending order, its sender, by the number that the agent has in the network, and
    its weight W_ij: ``receivers``, ``senders``, ``weights`` (arcs,); the ``rows`` that came (rows, P), and in ``sources``
    (arcs,) which of them an arc brought. Blocks of more axes are flattened to two.

    What depends on an agent's own arcs alone, added in their order, has the same bits on every engine.

    Examples
    --------
    Agent 0 hears agents 1 and 2; nobody hears it:

    >>> import numpy as np
    >>> from consensus.communication import Messages
    >>> own, rows = np.zeros((1, 2)), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> arcs = np.array([0, 0]), np.array([1, 2]), np.array([0.25, 0.25])
    >>> messages = Messages(own, np.array([0.5]), *arcs, rows, np.array([0, 1]))
    >>> messages.mixed().tolist()
    [[0.25, 0.25]]
    """

    own: np.ndarray
    own_weights: np.ndarray
    receivers: np.ndarray
    senders: np.ndarray
    weights: np.ndarray
    rows: np.ndarray
    sources: np.ndarray

    @classmethod
    def of(cls, plan: Plan, agents: slice, rows: np.ndarray, own: np.ndarray) -> "Messages":
        """What ``agents`` hear, of the ``rows`` that ``plan.matrix`` would multiply; ``own`` are theirs among them."""
        matrix = plan.matrix
        receivers = np.repeat(np.arange(len(own)), np.diff(matrix.indptr))
        others = plan.senders != receivers + agents.start
        own_weights = np.zeros(len(own), matrix.dtype)
        own_weights[receivers[~others]] = matrix.data[~others]
        arcs = (receivers[others], plan.senders[others], matrix.data[others])
        rows, own = (block.reshape(len(block), -1) for block in (rows, own))
        return cls(own, own_weights, *arcs, rows, matrix.indices[others])

    def differences(self) -> np.ndarray:
        """What came on each arc, less its receiver's own row: (arcs, P)."""
        return self.rows[self.sources] - self.own[self.receivers]

    def total(self, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """For each agent, the sum over its arcs of ``weights`` (arcs,) times ``values`` (arcs, P): (agents, P)."""
        ends = np.searchsorted(self.receivers, np.arange(len(self.own) + 1))
        shape = (len(self.own), len(values))
        return sp.csr_array((weights.astype(values.dtype, copy=False), np.arange(len(values)), ends), shape=shape) @ values

    def mixed(self) -> np.ndarray:
        """What :meth:`Network.mix` makes of it, ``W_ii x_i + sum_j W_ij x_j``, to rounding: (agents, P)."""
        return self.own_weights[:, None] * self.own + self.total(self.rows[self.sources], self.weights)
