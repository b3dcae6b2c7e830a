"""The first exchanges of a run, in which agents find out how many they need."""

from typing import TYPE_CHECKING

import numpy as np

from consensus.solvers.adaptive import fit
from consensus.solvers.adaptive.held import PROBES, Held
from topologies import ScheduleLike
from topologies.analysis import crossing

if TYPE_CHECKING:
    from consensus.engines.network import Network


def introduce(network: "Network", mass: np.ndarray, data: np.ndarray, target: float) -> tuple[Held, int]:
    """The first exchanges on a static graph of which the agents know nothing yet; what they held, and the pace or 0.

    In every message an agent says whom it has heard from, who it knows has heard from all, and who has by then a misfit of at
    most ``target``, besides; in how many exchanges the slowest of these had; the least weight for themselves, and whether all
    rows of W are symmetric (a neighbour's weight comes with the first message) and sum to one, of all it has heard of. After D
    exchanges, the diameter, each has heard from all; after D more all know D, and that all know it, and whether D exchanges
    were enough for everyone: then the pace is D, for less is never enough.

    Parameters
    ----------
    network : Network
    mass : ndarray (agents, 1)
    data : ndarray (agents, columns)
    target : float

    Returns
    -------
    held : Held
    pace : int
    """
    held, least = Held(network, mass, data), max(1, network.crossing(0))
    for k in range(2 * least):
        held.mix(k, beside=3 * network.names + 4 + (k == 0))
    # Nothing is made of these coefficients, so that they may be as large as they like.
    misfit = fit.own(held.probes(least), held.goal, cut=1e3 * np.finfo(data.dtype).eps)[1]
    return held, least if network.all_say(misfit <= target) else 0


def find_pace(
    network: "Network", mass: np.ndarray, data: np.ndarray, target: float, first: int = 0
) -> tuple[Held, int, np.ndarray]:
    """Exchanges until the misfit of every agent is at most ``target``, and until all know; what they held, K and their fits.

    In every message an agent says who it knows is done, that is has heard from everyone and has a misfit of at most
    ``target``, as it will have from then on; and after how many exchanges, K, the last of these was. On a static graph, which
    the agents know from :func:`introduce`, that has come to everyone in D more exchanges. On a changing one the messages say
    whom the sender has heard from, too, and there are as many exchanges again, in which later rounds need K: that suffices
    unless news goes more slowly the second time. Then the agents are given by how much: on a network that changes as it likes
    no messages tell for sure that all have had the last one.

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
    pace : int
        K.
    probes : ndarray (agents, K + 1, probes)
        What the fit is made of: the probes as they were until then.
    """
    held, pace, end, least = Held(network, mass, data), 0, np.inf, network.crossing(first)
    beside = network.names + 1 if network.static else 2 * network.names + 1
    while held.exchanges < end:
        held.exchange(first + held.exchanges, beside)
        done = held.exchanges
        refuse_long(network.agents, done)
        if pace or done < least:
            continue
        probes = held.probes()
        if network.all_say(fit.own(probes, held.goal)[1] <= target):
            pace, found = done, probes
            end = done + (least if network.static else max(done, network.crossing(first + done)))
    return held, pace, found


def refuse_long(agents: int, exchanges: int) -> None:
    """Raise ``ValueError`` if so many exchanges, the first ones on a network of so many agents, cannot be averaging."""
    if agents > PROBES and exchanges > PROBES // 2:  # so many coefficients fit too few probes to anything
        raise ValueError(
            f"{exchanges} exchanges, or more, are needed to find the averages of {agents} agents: among more than {PROBES} "
            f"AdaptiveNEXT takes networks where {PROBES // 2} are enough; NEXT and GradientTracking take this one"
        )


def least_exchanges(schedule: ScheduleLike) -> int:
    """How many exchanges the first round takes at least: news crosses the network twice. ValueError if they are too many."""
    least = crossing(schedule)
    refuse_long(schedule.agents, 2 * least)
    return 2 * least
