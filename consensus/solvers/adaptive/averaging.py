"""Averages over the network from a few exchanges, fitted to what the exchanges are seen to do."""

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from consensus.solvers.adaptive import chebyshev
from consensus.solvers.adaptive.acquainted import exact_means
from consensus.solvers.adaptive.blocks import pack, unpack
from consensus.solvers.adaptive.first_exchanges import Search, find_pace, introduce
from consensus.solvers.adaptive.held import PROBES, Held
from consensus.solvers.adaptive.survey import survey

if TYPE_CHECKING:
    from consensus.engines.network import Network

MISFIT, _MISFIT_STATIC = 1 / 16, 0.01  # of the agents' averages after a round's exchanges


class Averaging(NamedTuple):
    """What agents remember of their exchanges.

    Fields: their ``mass`` (agents, 1); how many exchanges a round takes, its ``pace``, 0 before that is found, -1 before it is
    looked for; how many were ``sent``, and how many of these ``before`` the last round; among many agents with symmetric
    weights on a static graph the ``fit`` (agents, K) of their averages, all rows the same. Before it is there, and elsewhere,
    there is none. And the ``search`` for the pace, while the agents move.
    """

    mass: np.ndarray
    pace: int
    sent: int
    before: int
    fit: np.ndarray
    search: Search

    @classmethod
    def at_start(cls, w: np.ndarray) -> "Averaging":
        """Of agents with iterates w (agents, P), before the first exchange."""
        agents = len(w)
        none = np.zeros((agents, 0), w.dtype)
        return cls(np.ones((agents, 1), w.dtype), -1, 0, 0, none, Search.nowhere(w))


Means = TypeVar("Means", bound=tuple)
Sums = TypeVar("Sums", bound=tuple)


class Averages(NamedTuple, Generic[Means, Sums]):
    """What the exchanges of a round bring: the next ``state``, and named blocks as they were given.

    Fields: estimates of the ``means`` and of the ``totals`` over all agents; what mixing has made of what is summed
    (``mixed``), whose sum over the agents is what it was.
    """

    state: Averaging
    means: Means
    totals: Sums
    mixed: Sums


class Data(NamedTuple, Generic[Means, Sums]):
    """What is mixed: named blocks to average, and others to sum."""

    averaged: Means
    summed: Sums


def average(network: "Network", state: Averaging, averaged: Means, summed: Sums) -> Averages[Means, Sums]:
    """Averages over all agents: exact ones where agents get to know their graph, elsewhere estimates.

    On static graphs whose links go both ways up to 256 agents send each other sums
    (:func:`consensus.solvers.adaptive.acquainted.exact_means`). Elsewhere they mix with neighbours, x_k = C_k x_{k-1}, and each
    estimates the averages from what it saw. Whatever the matrices, what an agent holds is a combination of all agents' data:
    probes that are mixed along, of which everyone knows the mean p^, show which. With the masses m_k (one at the start of a
    run, mixed along) and z_k = x_k / m_k, an agent takes the combination of its own history

        x^ = z_K + sum_k b_k (z_k - z_{k-1}),      b = argmin | p^ - (its probes, combined so) |^2 ,

    which keeps an agreement whatever b is (up to rounding times b). On a changing, failing or directed graph every agent has a
    b of its own in every round; what is summed goes on as C_K ... C_1 x_0, which keeps the sum. Among more than 256 agents on a
    static graph with symmetric weights one b fits the probes of all agents together: x^ is then the best polynomial of degree K
    in the mixing matrix W, which keeps sums too, and no probes are needed. It is found before any data are sent
    (:func:`consensus.solvers.adaptive.survey.survey`), and K is at most 128.

    Parameters
    ----------
    network : Network
    state : Averaging
    averaged, summed : NamedTuple of ndarray (agents, ...)
        Data whose average is wanted, weighted by the masses, such as iterates; data whose sum over agents the mixing is to
        keep, such as trackers.

    Returns
    -------
    Averages

    References
    ----------
    Montijano, Montijano, Sagues, "Chebyshev polynomials in consensus applications", Signal Processing 93(3), 2013, for
    polynomials; Kempe, Dobra, Gehrke, "Gossip-based computation of aggregate information", FOCS 2003, for masses.
    """
    like = Data(averaged, summed)
    data = np.concatenate([state.mass * pack(averaged), pack(summed)], axis=1)
    state, estimates, mixed = _mixed(network, state._replace(before=state.sent), data)
    totals = unpack(network.agents * estimates, like).summed
    return Averages(state, unpack(estimates, like).averaged, totals, unpack(mixed, like).summed)


def _mixed(network, state, data):
    """The next state, and of the data (agents, columns) the estimated means and what mixing made of them."""
    if network.acquainted:
        state, means = exact_means(network, state, data)
        return state, means, means
    target = _MISFIT_STATIC if network.static else MISFIT
    if network.static and state.pace < 0 and network.agents > PROBES:
        state = survey(network, state, target)
    elif network.static and state.pace < 0:
        held, pace = introduce(network, state.mass, data, target)
        return _from(held, state._replace(pace=pace))
    if state.pace <= 0:
        held, pace = find_pace(network, state.mass, data, target, state.sent)
        return _from(held, state._replace(pace=pace, search=Search.nowhere(data)))
    if state.fit.size:
        mixed = chebyshev.polynomial(network, state.sent, state.fit, data)
        return state._replace(sent=state.sent + state.pace), mixed, mixed
    held = Held(network, state.mass, data)
    for k in range(state.pace):
        held.mix(state.sent + k)
    return _from(held, state)


def _from(held, state):
    last = held.last
    return state._replace(mass=last.mass, sent=state.sent + held.exchanges), held.estimates(), last.data


def numbers(agents: int) -> int:
    """How many numbers an agent sends beside the data, at most: its mass and its probes."""
    return 1 + min(agents, PROBES)
