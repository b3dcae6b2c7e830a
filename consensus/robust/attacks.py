"""Messages of Byzantine agents: functions of the messages that reach each attacked agent.

In the papers an attacker knows everything. Here it knows the row of the attacked agent and the rows of the honest agents
that send to it, as in the code of He, Karimireddy and Jaggi, but no row of an honest agent further away.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np

from consensus import _checks
from consensus.communication import Messages


@dataclass(frozen=True)
class SignFlip:
    """Send the negative of the sender's own row, ``-x_j``. The attacker knows nothing else.

    References
    ----------
    He, Karimireddy, Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", arXiv 2202.01545, 2022 (bit flipping).

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.communication import Messages
    >>> from consensus.robust import SignFlip
    >>> rows, arcs = np.array([[2.0], [3.0], [9.0]]), (np.zeros(3, int), np.array([1, 2, 3]), np.full(3, 0.25))
    >>> messages = Messages(np.array([[1.0]]), np.array([0.25]), *arcs, rows, np.arange(3))
    >>> SignFlip()(messages, np.array([False, False, True])).tolist()  # agent 3 is Byzantine
    [[-9.0]]
    """

    def __call__(self, messages: Messages, byzantine: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, -messages.rows[messages.sources[byzantine]])


@dataclass(frozen=True)
class ALIE:
    """Send ``mean - z sd`` of the honest rows, entry by entry, which hides in their spread: "a little is enough".

    The mean and the standard deviation (divided by the number of rows) are those of the attacked agent's row and of the rows
    that honest agents send to it. The attacker knows these rows.

    Parameters
    ----------
    z : float
        Number of standard deviations; any number.

    References
    ----------
    Baruch, Baruch, Goldberg, "A little is enough: circumventing defenses for distributed learning", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.communication import Messages
    >>> from consensus.robust import ALIE
    >>> rows, arcs = np.array([[2.0], [3.0], [9.0]]), (np.zeros(3, int), np.array([1, 2, 3]), np.full(3, 0.25))
    >>> messages = Messages(np.array([[1.0]]), np.array([0.25]), *arcs, rows, np.arange(3))
    >>> sent = ALIE(z=1.5)(messages, np.array([False, False, True]))  # agent 3 is Byzantine
    >>> sent.round(6).tolist(), round(float(2 - 1.5 * np.std([1, 2, 3])), 6)
    ([[0.775255]], 0.775255)
    """

    z: float = 1.5

    def __post_init__(self) -> None:
        _checks.number("z", self.z)

    def __call__(self, messages: Messages, byzantine: np.ndarray) -> np.ndarray:
        mean, deviation = _moments(messages, byzantine)
        return cast(np.ndarray, (mean - self.z * deviation)[messages.receivers[byzantine]])


@dataclass(frozen=True)
class IPM:
    """Send ``-epsilon mean`` of the honest rows: inner product manipulation.

    The mean is that of the attacked agent's row and of the rows that honest agents send to it. The attacker knows these rows.

    Parameters
    ----------
    epsilon : float
        Factor, above 0.

    References
    ----------
    Xie, Koyejo, Gupta, "Fall of empires: breaking Byzantine-tolerant SGD by inner product manipulation", UAI 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.communication import Messages
    >>> from consensus.robust import IPM
    >>> rows, arcs = np.array([[2.0], [3.0], [9.0]]), (np.zeros(3, int), np.array([1, 2, 3]), np.full(3, 0.25))
    >>> messages = Messages(np.array([[1.0]]), np.array([0.25]), *arcs, rows, np.arange(3))
    >>> IPM(epsilon=0.5)(messages, np.array([False, False, True])).tolist()  # the honest mean is (1 + 2 + 3) / 3
    [[-1.0]]
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        _checks.number("epsilon", self.epsilon, above=0)

    def __call__(self, messages: Messages, byzantine: np.ndarray) -> np.ndarray:
        mean, _ = _moments(messages, byzantine)
        return cast(np.ndarray, -self.epsilon * mean[messages.receivers[byzantine]])


@dataclass(frozen=True)
class Dissensus:
    """Send what cancels the honest agents' contribution to consensus at each attacked agent.

    Byzantine agents j send to agent i, whose honest neighbours are k,

        x_i - epsilon sum_k W_ik (x_k - x_i) / sum_j W_ij .

    With epsilon = 1 plain mixing leaves x_i unchanged. The attacker knows x_i, the rows that honest agents send to i, and the
    weights W_ij.

    Parameters
    ----------
    epsilon : float
        Factor, above 0.

    References
    ----------
    He, Karimireddy, Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", arXiv 2202.01545, 2022, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.communication import Messages
    >>> from consensus.robust import Dissensus
    >>> rows, arcs = np.array([[2.0], [3.0], [9.0]]), (np.zeros(3, int), np.array([1, 2, 3]), np.full(3, 0.25))
    >>> messages = Messages(np.array([[1.0]]), np.array([0.25]), *arcs, rows, np.arange(3))
    >>> sent = Dissensus()(messages, np.array([False, False, True]))  # agent 3 is Byzantine
    >>> rows[2] = sent[0]
    >>> sent.tolist(), messages.mixed().tolist()  # agent 0 stays at 1
    ([[-2.0]], [[1.0]])
    """

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        _checks.number("epsilon", self.epsilon, above=0)

    def __call__(self, messages: Messages, byzantine: np.ndarray) -> np.ndarray:
        honest = messages.total(messages.differences(), np.where(byzantine, 0, messages.weights))
        weights = np.bincount(messages.receivers, np.where(byzantine, messages.weights, 0), minlength=len(messages.own))
        receivers = messages.receivers[byzantine]
        return cast(np.ndarray, messages.own[receivers] - self.epsilon * honest[receivers] / weights[receivers, None])


def _moments(messages: Messages, byzantine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each agent's row and the honest rows sent to it, both (agents, P)."""
    honest = np.where(byzantine, 0.0, 1.0)
    count = 1 + np.bincount(messages.receivers, honest, minlength=len(messages.own))[:, None]
    differences = messages.differences()
    shift = messages.total(differences, honest) / count
    squares = messages.total(differences**2, honest) / count
    return messages.own + shift, np.sqrt(np.maximum(squares - shift**2, 0))
