"""Averages over the network from a few exchanges of rounded numbers."""

from typing import NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.compression.runs import Runs
from consensus.solvers.adaptive import filters

_MISFIT = 1 / 4  # of the agents' averages after a round's exchanges, that is small enough
ROUNDS = 8  # of one length, at least
_LONG = 8  # exchanges of a round that are enough where no misfit is known


class Told(NamedTuple):
    """What neighbours hold of an agent's rows, the sum of all that they were sent, and W times that: both (agents, columns)."""

    sent: np.ndarray
    mixed: np.ndarray

    @classmethod
    def nothing(cls, rows: np.ndarray) -> "Told":
        return cls(np.zeros_like(rows), np.zeros_like(rows))


class Pace(NamedTuple):
    """How many exchanges a round takes.

    Fields: the ``length`` of the next round in exchanges, and of the ``last`` one; how many ``rounds`` of this length there
    were since the last decision, and in how many of them agents disagreed by more than their steps, ``apart`` (agents,);
    whether averages are good enough, ``settled`` (agents,); how many exchanges there were, ``sent``; whether the network is
    static and its W doubly stochastic, as far as is known, ``balanced``; the masses (agents, 1), one at the start of a run; and
    the ``probes`` (agents, 65, probes) after 0 to ``probed`` exchanges, by which agents of a static network find their
    weights.
    """

    length: int
    last: int
    rounds: int
    apart: np.ndarray
    settled: np.ndarray
    sent: int
    balanced: bool
    mass: np.ndarray
    probes: np.ndarray
    probed: int

    @classmethod
    def at_start(cls, rows: np.ndarray, agents: int, dtype: np.dtype) -> "Pace":
        own = filters.draw(agents)[rows]
        probes = np.zeros((len(own), filters.LONGEST + 1, own.shape[1]), np.float32)
        probes[:, 0] = own
        return cls(1, 0, 0, np.zeros(len(own)), np.zeros(len(own), bool), 0, True, np.ones((len(own), 1), dtype), probes, 0)

    def probing(self, network: Network) -> bool:
        """Whether probes go along with the next exchange: as far as rounds of twice the length will need them."""
        return network.static and self.balanced and self.probed < min(2 * self.length, filters.LONGEST)

    def filters(self, network: Network, what: str) -> tuple[np.ndarray, np.ndarray]:
        """The :func:`filters.weights` of a round, and their misfits."""
        return filters.weights(self.probes[:, : self.length + 1], filters.draw(network.agents).mean(axis=0), what)

    def next(self, network: Network, agree: np.ndarray) -> "Pace":
        """After a round, in which agents found that they ``agree`` (agents,) to within their steps, or not.

        After every eight rounds of a length all decide together whether rounds become twice as long. They do unless the
        averages are good enough and no agent disagreed in all of the eight. Good enough is, on a static network whose masses
        stay at one, a misfit of at most 1/4 for all agents; elsewhere, where no misfit is known, a length of eight exchanges.
        An agent that is not content says so in every message.
        """
        pace = self._replace(rounds=self.rounds + 1, apart=self.apart + ~agree)
        if pace.rounds < ROUNDS:
            return pace
        balanced = network.static and pace.balanced and network.flooding.all(np.abs(pace.mass[:, 0] - 1) < 1e-6)
        pace = pace._replace(balanced=balanced)
        longer = not network.flooding.all((pace.apart < ROUNDS) & pace.good(network))
        pace = pace._replace(length=min(2 * pace.length, filters.LONGEST) if longer else pace.length)
        return pace._replace(rounds=0, apart=np.zeros_like(pace.apart), settled=pace.good(network))

    def good(self, network: Network) -> np.ndarray:
        """Which agents' averages are good enough in rounds of this length (agents,)."""
        if not self.balanced:
            return np.full(len(self.apart), self.length >= _LONG)
        return self.filters(network, "points")[1] <= _MISFIT


class Own(NamedTuple):
    """What every agent brings to a round.

    Fields: its ``points`` and ``trackers`` (agents, P) with their ``units`` (agents, 2), powers of two; its ``products``
    (agents, P, count), of which nothing is kept from round to round, with the ``unit`` (agents,); ``tau``, ``fall`` and
    ``scale`` (agents,). Of tau the square is averaged: the mean is near the largest, for one agent's trouble is everyone's.
    """

    points: np.ndarray
    trackers: np.ndarray
    units: np.ndarray
    products: np.ndarray
    unit: np.ndarray
    tau: np.ndarray
    fall: np.ndarray
    scale: np.ndarray


class Averages(NamedTuple):
    """What the exchanges of a round bring.

    Fields: estimates of the means of the ``points`` w and of the trackers, ``slope`` G (agents, P); what mixing has made of the
    ``trackers``, whose sum is what it was; the means of the ``products`` (agents, P, count), of ``tau``, ``fall`` and ``scale``
    (agents,); the ``pace``; what neighbours hold, ``told``.
    """

    points: np.ndarray
    slope: np.ndarray
    trackers: np.ndarray
    products: np.ndarray
    tau: np.ndarray
    fall: np.ndarray
    scale: np.ndarray
    pace: Pace
    told: Told


def average(network: Network, pace: Pace, told: Told, own: Own) -> Averages:
    """The exchanges of a round.

    Agent i holds v, its point times its mass and its tracker side by side. It sends whole multiples of its units, in as few
    bits as they take, and with Q(v) what its neighbours make of them

        v_i <- v_i + sum_j W_ij Q(v_j) - Q(v_i) ,       m_i <- sum_j W_ij m_j ,

    which keeps ``sum_i v_i`` for a column stochastic W, whatever Q loses. On a static network an agent sends differences to
    what its neighbours hold already, Q(v) = h + rounded(v - h); on a changing one v itself, so that nobody needs a memory for
    each neighbour, and a lost message needs no answer. Estimates of the means are v / m after the last exchange, or on a static
    network with a doubly stochastic W the :func:`filters.weights` of what an agent held during the round.

    Parameters
    ----------
    network : Network
    pace : Pace
    told : Told
        Of v, (agents, 2 P).
    own : Own

    Returns
    -------
    Averages
    """
    agents, P, count = own.products.shape
    mass, Z = pace.mass, pace.mass * own.products.reshape(agents, P * count)
    v = np.concatenate([mass * own.points, own.trackers], axis=1)
    scalars = np.stack([np.square(own.tau), own.fall, own.scale], axis=1).astype(v.dtype)
    filtered = network.static and pace.balanced and pace.length > 1
    if filtered:
        c, rough = (pace.filters(network, what)[0].astype(v.dtype)[:, :, None] for what in ("points", "products"))
        held, held_Z = np.zeros_like(v), np.zeros_like(Z)
    about, pace = Told.nothing(Z), pace._replace(probes=pace.probes.copy())
    for k in range(pace.length):
        n = pace.sent + k
        if filtered:
            held, held_Z = held + c[:, k] * v, held_Z + rough[:, k] * Z
        if not network.static:
            told, about = Told.nothing(v), Told.nothing(Z)
        probing = pace.probing(network)
        plain = np.concatenate([mass, mass * scalars] + ([pace.probes[:, pace.probed]] if probing else []), axis=1)
        blocks = [Runs.nearest(v - told.sent, own.units)]
        if count:
            blocks.append(Runs.nearest(Z - about.sent, own.unit[:, None]))
        # Beside them whether its mass is one, and whether it is content: two bits, counted as a number.
        *mixed, plain = network.mix(n, *blocks, plain, beside=1)
        told = Told(told.sent + blocks[0].unpack(), told.mixed + mixed[0])
        v = v + (told.mixed - told.sent)
        if count:
            about = Told(about.sent + blocks[1].unpack(), about.mixed + mixed[1])
            Z = Z + (about.mixed - about.sent)
        mass, scalars = plain[:, :1], plain[:, 1:4] / plain[:, :1]
        if probing:
            pace.probes[:, pace.probed + 1] = plain[:, 4:]
            pace = pace._replace(probed=pace.probed + 1)
    if filtered:
        estimate, Z = held + c[:, -1] * v, held_Z + rough[:, -1] * Z
    else:
        estimate, Z = v / mass, Z / mass
    pace = pace._replace(last=pace.length, sent=pace.sent + pace.length, mass=mass)
    tau, fall, scale = np.sqrt(scalars[:, 0]), scalars[:, 1], scalars[:, 2]
    return Averages(estimate[:, :P], estimate[:, P:], v[:, P:], Z.reshape(agents, P, count), tau, fall, scale, pace, told)
