"""The first exchanges of a run, in which agents find out how many they need."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus.solvers.adaptive import fit
from consensus.solvers.adaptive.held import PROBES, Held, draw

if TYPE_CHECKING:
    from consensus.engines.network import Network

MOST = PROBES // 2  # exchanges in a round of more agents than there are probes: on long graphs they take averages of regions


def introduce(network: "Network", mass: np.ndarray, data: np.ndarray, target: float) -> tuple[Held, int]:
    """The first exchanges on a static graph some links of which go one way only, in which agents get to know it.

    Beside the data every message says

    - whom its sender has heard from, of whom the receiver was the first to tell it, and who, as far as it knows, has heard
      from all;
    - who of those was the first, of several the one with the least number, and after how many exchanges;
    - who of the latter has a misfit of at most ``target``, and after how many exchanges the slowest of them had heard from all;
    - of all agents that it has heard from: the least weight for themselves, whether their rows of W are symmetric (a
      neighbour's weight comes with the first message), and whether these sum to one.

    After D exchanges, the diameter, each has heard from all. After D more all know D, know that all know it, and know whether D
    exchanges were enough for everyone: then the pace is D, for fewer are never enough. (Probes are mixed from the first
    exchange on, whatever the data are.)

    Parameters
    ----------
    network : Network
    mass : ndarray (agents, 1)
    data : ndarray (agents, columns)
    target : float

    Returns
    -------
    held : Held
        What the agents held.
    pace : int
        D, or 0 if that was not enough.
    """
    held, least = Held(network, mass, data), max(1, network.crossing(0))
    for k in range(2 * least):
        held.mix(k, beside=4 * network.names + 6 + (k == 0))  # a neighbour's weight goes once
        if held.exchanges == least:  # nothing is made of these coefficients, so that they may be as large as they like
            misfit = held.misfit(cut=1e3 * np.finfo(data.dtype).eps)
    return held, least if network.all_say(misfit <= target) else 0


def find_pace(network: "Network", mass: np.ndarray, data: np.ndarray, target: float, first: int = 0) -> tuple[Held, int]:
    """Exchanges until the misfit of every agent is at most ``target``, and until all know that.

    An agent is done when it has heard from everyone and its misfit is at most ``target``, where it stays. Every message says
    who, as far as its sender knows, is done, and after how many exchanges, K, the last of them was. On a static graph, which
    the agents know from :func:`introduce`, all know K after D more exchanges. On a changing one the messages also say whom the
    sender has heard from, and K more exchanges follow. That is enough unless news goes more slowly the second time. Then the
    agents are given by how much: on a network that changes as it likes no message tells for sure that the last one arrived.
    Among more than 256 agents K is at most 128, after which nobody needs to be told.

    Parameters
    ----------
    network : Network
    mass : ndarray (agents, 1)
    data : ndarray (agents, columns)
    target : float
    first : int
        The schedule's round of the first exchange.

    Returns
    -------
    held : Held
        What the agents held.
    pace : int
        K.
    """
    held, pace, end, least = Held(network, mass, data), 0, np.inf, network.crossing(first)
    most = MOST if network.agents > PROBES else np.inf
    beside = network.names + 1 if network.static else 2 * network.names + 1
    while held.exchanges < end:
        held.mix(first + held.exchanges, beside)
        done = held.exchanges
        if pace or (done < least and done < most):
            continue
        if done == most:  # as all know
            return held, done
        if network.all_say(held.misfit() <= target):
            pace = done
            end = done + (least if network.static else _everyone_knows(network, first, done))
    return held, pace


class Search(NamedTuple):
    """How far the agents of a changing graph are with finding their pace, while they move: as in :func:`find_pace`.

    What mixing makes of probes is the same whatever the data are, so that these may change from exchange to exchange.

    Fields: the ``probes`` per mass that they held (agents, exchanges + 1, probes); the ``pace``, 0 before it is found; the
    ``end``, after how many exchanges everyone knows it.
    """

    probes: np.ndarray
    pace: int
    end: int

    @classmethod
    def nowhere(cls, w: np.ndarray) -> "Search":
        """Of agents with rows w (agents, ...) that look for nothing."""
        return cls(np.zeros((len(w), 1, 0), w.dtype), 0, 0)

    def begun(self, network: "Network") -> "Search":
        """With everyone's probes, if there are none yet."""
        if self.probes.size:
            return self
        return self._replace(probes=draw(network.agents, self.probes.dtype)[network.rows][:, None])

    def after(self, network: "Network", probes: np.ndarray, target: float) -> "Search":
        """After an exchange, one of a run's first ones, that made these ``probes`` (agents, probes)."""
        held, done = np.concatenate([self.probes, probes[:, None]], axis=1), self.probes.shape[1]
        search = self._replace(probes=held)
        if self.pace or done < network.crossing(0):
            return search
        goal = draw(network.agents, held.dtype).mean(axis=0)
        misfit = fit.own(held, goal)[1] / np.linalg.norm(goal - held[:, 0], axis=1)
        if not network.all_say(misfit <= target):
            return search
        return search._replace(pace=done, end=done + _everyone_knows(network, 0, done))


def _everyone_knows(network, first, done):
    """How many exchanges more than those ``done``, the first in round ``first`` of a changing graph, it takes."""
    return max(done, network.crossing(first + done))
