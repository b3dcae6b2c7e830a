"""What liars say: each a function of what the agents that they lie to hear.

The omniscience of the papers ends here at the agent that is lied to: a lie may depend on its row and on those of the honest
agents that it hears, as in the code of He, Karimireddy and Jaggi, and not on those of honest agents further off.
"""

from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus.communication.messages import Messages


@dataclass(frozen=True)
class SignFlip:
    """A liar sends the negative of its row, ``-x_j``. It knows that alone.

    References
    ----------
    He, Karimireddy, Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", arXiv 2202.01545, 2022 (bit flipping).
    """

    def __call__(self, heard: Messages, lying: np.ndarray) -> np.ndarray:
        return -heard.rows[heard.sources[lying]]


@dataclass(frozen=True)
class ALIE:
    """A little is enough: ``mean - z sd``, entry by entry, of honest rows; it hides in their spread.

    A liar knows, of each agent that it lies to, the row and those of all honest agents whom that agent hears: their mean and
    their standard deviation (the root of the mean square).

    Parameters
    ----------
    z : float
        How many standard deviations: any number.

    References
    ----------
    Baruch, Baruch, Goldberg, "A little is enough: circumventing defenses for distributed learning", NeurIPS 2019.
    """

    z: float = 1.5

    def __post_init__(self) -> None:
        _checks.number("z", self.z)

    def __call__(self, heard: Messages, lying: np.ndarray) -> np.ndarray:
        mean, deviation = _moments(heard, lying)
        return (mean - self.z * deviation)[heard.receivers[lying]]


@dataclass(frozen=True)
class IPM:
    """Inner product manipulation: ``-epsilon mean`` of honest rows.

    A liar knows, of each agent that it lies to, the mean of its row and those of all honest agents whom it hears.

    Parameters
    ----------
    epsilon : float
        Above 0.

    References
    ----------
    Xie, Koyejo, Gupta, "Fall of empires: breaking Byzantine-tolerant SGD by inner product manipulation", UAI 2019.
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        _checks.number("epsilon", self.epsilon, above=0)

    def __call__(self, heard: Messages, lying: np.ndarray) -> np.ndarray:
        mean, _ = _moments(heard, lying)
        return -self.epsilon * mean[heard.receivers[lying]]


@dataclass(frozen=True)
class Dissensus:
    """Liars j undo what honest agents k do for agreement, at each agent i that they lie to:

        x_i - epsilon sum_k W_ik (x_k - x_i) / sum_j W_ij

    With epsilon = 1 plain mixing then leaves x_i where it is. A liar knows x_i, the rows of the honest agents that i hears, and
    i's weights.

    Parameters
    ----------
    epsilon : float
        Above 0.

    References
    ----------
    He, Karimireddy, Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", arXiv 2202.01545, 2022, section 4.
    """

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        _checks.number("epsilon", self.epsilon, above=0)

    def __call__(self, heard: Messages, lying: np.ndarray) -> np.ndarray:
        to_honest = heard.total(heard.differences(), np.where(lying, 0, heard.weights))
        liars = np.bincount(heard.receivers, np.where(lying, heard.weights, 0), minlength=len(heard.own))
        receivers = heard.receivers[lying]
        return heard.own[receivers] - self.epsilon * to_honest[receivers] / liars[receivers, None]


def _moments(heard, lying):
    """Mean and standard deviation of each agent's row and the honest ones that it hears, both (agents, P)."""
    honest = np.where(lying, 0.0, 1.0)
    count = 1 + np.bincount(heard.receivers, honest, minlength=len(heard.own))[:, None]
    differences = heard.differences()
    shift = heard.total(differences, honest) / count
    squares = heard.total(differences**2, honest) / count
    return heard.own + shift, np.sqrt(np.maximum(squares - shift**2, 0))
