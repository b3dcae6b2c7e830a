"""Averages over the network from a few exchanges, fitted to what the exchanges are seen to do."""

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from consensus.solvers.adaptive import chebyshev, fit
from consensus.solvers.adaptive.blocks import pack, unpack
from consensus.solvers.adaptive.first_exchanges import Search, beside, find_pace, introduce
from consensus.solvers.adaptive.held import PROBES, Held, Message
from consensus.solvers.adaptive.survey import survey

if TYPE_CHECKING:
    from consensus.engines.network import Network

_MISFIT, _MISFIT_STATIC = 0.1, 0.01  # of the agents' averages after a round's exchanges


class Averaging(NamedTuple):
    """What agents remember of their exchanges.

    Fields: their ``mass`` (agents, 1); how many exchanges a round takes, its ``pace``, 0 before that is found, -1 before it is
    looked for; how many were ``sent``; on a static graph with symmetric weights what every agent brings to a common fit,
    ``moments`` (agents, 2 K + 1), then that ``fit`` (agents, K), all rows the same. Before they are there, and elsewhere, there
    are none. And the ``search`` for the pace, while the agents move.
    """

    mass: np.ndarray
    pace: int
    sent: int
    moments: np.ndarray
    fit: np.ndarray
    search: Search

    @classmethod
    def at_start(cls, w: np.ndarray) -> "Averaging":
        """Of agents with iterates w (agents, P), before the first exchange."""
        agents = len(w)
        none = np.zeros((agents, 0), w.dtype)
        return cls(np.ones((agents, 1), w.dtype), -1, 0, none, none, Search.nowhere(w))


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


def mix(network: "Network", state: Averaging, averaged: Means, summed: Sums) -> Averages[Means, Sums]:
    """One exchange, in which an agent takes what mixing makes of the data for their averages: as :func:`average` otherwise.

    On a changing graph the agents look for their pace meanwhile.
    """
    data = np.concatenate([state.mass * pack(averaged), pack(summed)], axis=1)
    search = state.search if network.static else state.search.begun(network)
    message = Message(state.mass, data, state.mass * search.probes[:, -1])
    (sent,) = network.mix(state.sent, pack(message), beside=beside(network, state.sent))
    mass, mixed, probes = unpack(sent, message)
    state = state._replace(mass=mass, sent=state.sent + 1)
    if not network.static:
        search = search.after(network, probes / mass, _MISFIT)
        known = search.pace > 0 and state.sent >= search.end
        state = state._replace(pace=search.pace, search=Search.nowhere(mass)) if known else state._replace(search=search)
    like = Data(averaged, summed)
    estimates = unpack(mixed / mass, like)
    totals = unpack(network.agents * mixed / mass, like).summed
    return Averages(state, estimates.averaged, totals, unpack(mixed, like).summed)


def average(network: "Network", state: Averaging, averaged: Means, summed: Sums) -> Averages[Means, Sums]:
    """Mix with neighbours, and let every agent estimate the averages over all agents from what it saw.

    Starting from x_0, agents mix, x_k = C_k x_{k-1} (on a static graph with symmetric W, x_k = T_k(W) x_0 with Chebyshev's
    polynomials). Whatever the matrices, what an agent holds is a combination of all agents' data: probes that are mixed along,
    of which everyone knows the mean p^, show which. With the masses m_k (one at the start of a run, mixed along) and
    z_k = x_k / m_k, an agent takes the combination of its own history

        x^ = z_K + sum_k b_k (z_k - z_{k-1}),      b = argmin | p^ - (its probes, combined so) |^2 ,

    which keeps an agreement whatever b is (up to rounding times b). On a changing, failing or directed graph every agent has a
    b of its own in every round; what is summed goes on as C_K ... C_1 x_0, which keeps the sum. On a static graph with
    symmetric weights one b fits the probes of all agents together: x^ is then the best polynomial of degree K in the mixing
    matrix W, which keeps sums too, and no probes are needed. What each agent brings to its least squares, 2 K + 1 numbers,
    goes round in the next K exchanges. Among more than 256 agents it is found before any data are sent
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
    state, estimates, mixed = _mixed(network, state, data)
    totals = unpack(network.agents * estimates, like).summed
    return Averages(state, unpack(estimates, like).averaged, totals, unpack(mixed, like).summed)


def _mixed(network, state, data):
    """The next state, and of the data (agents, columns) the estimated means and what mixing made of them."""
    target = _MISFIT_STATIC if network.static else _MISFIT
    if network.static and state.pace < 0 and network.agents > PROBES:
        state = survey(network, state, target)
    elif network.static and state.pace < 0:
        held, pace = introduce(network, state.mass, data, target, state.sent)
        return _from(held, state._replace(pace=pace))
    if state.pace <= 0:
        held, pace = find_pace(network, state.mass, data, target, state.sent)
        state = state._replace(pace=pace, search=Search.nowhere(data))
        return _from(held, _with_moments(network, state, held))
    if state.moments.size:  # what was sent reaches the others with the exchanges of this round
        state = state._replace(fit=_common(network, state, data.dtype), moments=state.moments[:, :0])
    if state.fit.size:
        mixed = chebyshev.polynomial(network, state.sent, state.fit, data)
        return state._replace(sent=state.sent + state.pace), mixed, mixed
    held = Held(network, state.mass, data)
    for k in range(state.pace):
        held.exchange(state.sent + k)
    return _from(held, _with_moments(network, state, held))


def _with_moments(network, state, held):
    return state if network.least_eigenvalue is None else state._replace(moments=held.moments(state.pace))


def _common(network, state, dtype):
    """The b of all agents, (agents, K), all rows the same: each has a probe of its own."""
    rows = network.flood(state.sent, state.pace, state.moments)
    b, _ = fit.polynomial(rows.sum(axis=0, dtype=float), 1.0, float(np.finfo(dtype).eps))
    return np.tile(b.astype(dtype), (len(state.mass), 1))


def _from(held, state):
    last = held.last
    return state._replace(mass=last.mass, sent=state.sent + held.exchanges), held.estimates(), last.data


def numbers(agents: int) -> int:
    """How many numbers an agent sends beside the data, at most: its mass and its probes."""
    return 1 + min(agents, PROBES)
