"""Graphs that all agents get to know: there they sum exactly what they have."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from consensus.engines.network import Network
    from consensus.solvers.adaptive.averaging import Averaging


def say_neighbours(network: "Network", state: "Averaging", exchanges: int) -> "Averaging":
    """So many exchanges, fewer if all know the graph before, in which agents tell each other of neighbours and of nothing else.

    Who its neighbours are is a bit for each agent. It is passed on, with its owner's name, in as many exchanges as the news
    takes to cross the network, whatever else is in the messages. Whoever has it of all agents knows the graph, and when all
    others do.
    """
    crossing = network.crossing(0)
    exchanges = min(exchanges, crossing - state.sent)
    if exchanges <= 0:
        return state
    if not state.sent:
        network.flood(0, crossing, np.zeros((len(state.mass), network.names)))
    network.talk(state.sent, exchanges, 0)
    return state._replace(sent=state.sent + exchanges)


def exact_means(network: "Network", state: "Averaging", data: np.ndarray) -> tuple["Averaging", np.ndarray]:
    """The next state, and the means of ``data`` (agents, columns) over the network, all rows the same.

    Sums go through hubs (:class:`consensus.engines.hubs.Hubs`) that take an exchange more than the news takes to cross the
    network, if that: one more already spares most of the messages that no more would take.
    """
    crossing = network.crossing(0)
    state = say_neighbours(network, state, crossing)
    pace = network.hubs(crossing + 1).exchanges
    mean = (network.sum(pace, data) / network.agents).astype(data.dtype)
    state = state._replace(mass=np.ones_like(state.mass), pace=pace, sent=state.sent + pace)
    return state, np.tile(mean, (len(data), 1))
