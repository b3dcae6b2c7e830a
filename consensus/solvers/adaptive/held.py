"""What agents hold during their exchanges, with probes that show what these do."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus.solvers.adaptive import chebyshev, fit
from consensus.solvers.adaptive.blocks import pack, unpack

if TYPE_CHECKING:
    from consensus.engines.network import Network

PROBES = 256  # at most: up to so many agents each has a probe of its own


class Message(NamedTuple):
    """What an agent sends: its ``mass``, the ``data`` that are mixed, its combination of all agents' ``probes``."""

    mass: np.ndarray
    data: np.ndarray
    probes: np.ndarray


class Held:
    """What the agents of a block hold before some exchanges and after each.

    Parameters
    ----------
    network : Network
    mass : ndarray (agents, 1)
    data : ndarray (agents, columns)

    Attributes
    ----------
    goal : ndarray (probes,)
        The mean of all agents' probes, which everyone knows.
    """

    def __init__(self, network: "Network", mass: np.ndarray, data: np.ndarray) -> None:
        agents = network.agents
        if agents <= PROBES:
            everyone = np.eye(agents, dtype=data.dtype)
        else:
            everyone = np.random.default_rng(agents).choice(np.array([-1, 1], data.dtype), (agents, PROBES))
        self.network, self.goal = network, everyone.mean(axis=0)
        self._like = Message(mass, data, everyone[network.rows])
        self._sent = [pack(self._like)]

    @property
    def exchanges(self) -> int:
        """How many there were."""
        return len(self._sent) - 1

    @property
    def last(self) -> Message:
        """The last Message."""
        return unpack(self._sent[-1], self._like)

    def mix(self, round: int, beside: int = 0) -> None:
        """One more exchange: C x_{k-1}."""
        self._sent += self.network.mix(round, self._sent[-1], beside=beside)

    def exchange(self, round: int, beside: int = 0) -> None:
        """One more exchange; where W is symmetric, of :func:`chebyshev.exchange`."""
        self._sent.append(chebyshev.exchange(self.network, round, self._sent, beside))

    def probes(self, exchanges: int | None = None) -> np.ndarray:
        """The probes per mass after the first ``exchanges``, or all: (agents, exchanges + 1, probes)."""
        messages = [unpack(x, self._like) for x in self._sent[: None if exchanges is None else exchanges + 1]]
        return np.stack([message.probes / message.mass for message in messages], axis=1)

    def estimates(self) -> np.ndarray:
        """What each agent makes of all that it held: estimates of the means of the data per mass, (agents, columns)."""
        b, _ = fit.own(self.probes(), self.goal)
        old, result = self._per_mass(0), self._per_mass(-1)
        for k in range(self.exchanges):
            new = self._per_mass(k + 1)
            result += b[:, k, None] * (new - old)
            old = new
        return result

    def _per_mass(self, k):
        message = unpack(self._sent[k], self._like)
        return message.data / message.mass
