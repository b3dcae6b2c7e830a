"""What agents hold during their exchanges, with probes that show what these do."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus.solvers.adaptive import fit
from consensus.solvers.adaptive.blocks import pack, unpack

if TYPE_CHECKING:
    from consensus.engines.network import Network

PROBES = 256  # at most: up to so many agents each has a probe of its own
_KEPT = PROBES + 1  # messages, at most: a fit could not tell more apart


def draw(agents: int, dtype: np.dtype) -> np.ndarray:
    """Everyone's probes (A, probes), which all agents know: of up to 256 each has its own, of more they are signs."""
    if agents <= PROBES:
        return np.eye(agents, dtype=dtype)
    return np.random.default_rng(agents).choice(np.array([-1, 1], dtype), (agents, PROBES))


class Message(NamedTuple):
    """What an agent sends: its ``mass``, the ``data`` that are mixed, its combination of all agents' ``probes``."""

    mass: np.ndarray
    data: np.ndarray
    probes: np.ndarray


class Held:
    """What the agents of a block hold before some exchanges and after each.

    They keep at most 257 messages: then the best combination of all so far takes the place of all but the last two.

    Parameters
    ----------
    network : Network
    mass : ndarray (agents, 1)
    data : ndarray (agents, columns)

    Attributes
    ----------
    goal : ndarray (probes,)
        The mean of all agents' probes, which everyone knows.
    exchanges : int
        How many there were.
    """

    def __init__(self, network: "Network", mass: np.ndarray, data: np.ndarray) -> None:
        everyone = draw(network.agents, data.dtype)
        self.network, self.goal = network, everyone.mean(axis=0)
        self._like = Message(mass, data, everyone[network.rows])
        self._sent, self.exchanges = [pack(self._like)], 0
        scale = np.linalg.norm(self.goal - self._like.probes / mass, axis=1)
        self._scale = np.where(scale > 0, scale, 1)  # a network of one agent has nothing to fit

    @property
    def last(self) -> Message:
        """The last Message."""
        return unpack(self._sent[-1], self._like)

    def mix(self, round: int, beside: int = 0) -> None:
        """One more exchange: C x_{k-1}."""
        self._keep(*self.network.mix(round, self._sent[-1], beside=beside))

    def _keep(self, message):
        if len(self._sent) == _KEPT:
            best, last, self._sent = self._best(), self._sent[-2:], []
            self._sent += [best, *last]
        self._sent.append(message)
        self.exchanges += 1

    def probes(self) -> np.ndarray:
        """The probes per mass of what is kept: (agents, messages, probes)."""
        messages = [unpack(x, self._like) for x in self._sent]
        return np.stack([message.probes / message.mass for message in messages], axis=1)

    def misfit(self, cut: float | None = None) -> np.ndarray:
        """How far from the goal the best combination leaves an agent's probes, relative to where they began (agents,).

        Coefficients may be as large as ``cut`` lets them (:func:`fit.own`).
        """
        return fit.own(self.probes(), self.goal, cut)[1] / self._scale

    def estimates(self) -> np.ndarray:
        """What each agent makes of all that it held: estimates of the means of the data per mass, (agents, columns)."""
        return unpack(self._best(), self._like).data

    def _best(self):
        """Each agent's best combination of all that it keeps per mass, as a message."""
        b, _ = fit.own(self.probes(), self.goal)
        old, result = self._per_mass(0), self._per_mass(-1)
        for k in range(len(self._sent) - 1):
            new = self._per_mass(k + 1)
            result += b[:, k, None] * (new - old)
            old = new
        return result

    def _per_mass(self, k):
        return self._sent[k] / unpack(self._sent[k], self._like).mass
