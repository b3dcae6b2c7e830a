"""Averages over the network from a few exchanges of rounded numbers."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus.packing.runs import Runs
from consensus.solvers.adaptive import filters

if TYPE_CHECKING:
    from consensus.engines.network import Network

_MISFIT = 1 / 4  # of the agents' averages after a round's exchanges, that is small enough
_ROUNDS, _MANY = 8, 64  # of one length: short ones, and those from _LONG exchanges on where no misfit is known
_LONG = 8


class Told(NamedTuple):
    """What neighbours hold of an agent's rows, the sum of all that they were sent, and W times that: both (agents, columns)."""

    sent: np.ndarray
    mixed: np.ndarray

    @classmethod
    def nothing(cls, rows: np.ndarray) -> "Told":
        return cls(np.zeros_like(rows), np.zeros_like(rows))


class Pace(NamedTuple):
    """How many exchanges a round takes.

    Fields: the ``length`` of the next round in exchanges, and of the ``last`` one; how many rounds of this length are ``left``,
    0 if all to come have it; how many exchanges there were, ``sent``; whether the network is static and its W doubly stochastic,
    as far as is known, ``balanced``; the masses (agents, 1), one at the start of a run; and the ``probes`` (agents, 65, probes)
    after the first 0 to 64 exchanges, by which agents of a static network find their weights.
    """

    length: int
    last: int
    left: int
    sent: int
    balanced: bool
    mass: np.ndarray
    probes: np.ndarray

    @classmethod
    def at_start(cls, rows: np.ndarray, agents: int, dtype: np.dtype) -> "Pace":
        own = filters.draw(agents)[rows]
        probes = np.zeros((len(own), filters.LONGEST + 1, own.shape[1]), np.float32)
        probes[:, 0] = own
        return cls(1, 0, _ROUNDS, 0, False, np.ones((len(own), 1), dtype), probes)

    def filters(self, network: "Network", what: str) -> tuple[np.ndarray, np.ndarray]:
        """The :func:`filters.weights` of a round, and their misfits."""
        return filters.weights(self.probes[:, : self.length + 1], filters.draw(network.agents).mean(axis=0), what)

    def next(self, network: "Network") -> "Pace":
        """After a round: rounds become twice as long, until their averages are good enough.

        There are eight rounds of each length. A static network whose masses stay at one keeps the length whose misfit is at
        most 1/4 for all agents: those for whom it is larger say so in every message, and eight rounds bring that to everyone
        who might think otherwise, who has heard from all of them in one. On other networks, where no misfit is known, there are
        64 rounds of eight exchanges, and of more.
        """
        if self.left != 1:
            return self._replace(left=max(self.left - 1, 0))
        balanced = network.static and network.all_say(np.abs(self.mass[:, 0] - 1) < 1e-6)
        enough = balanced and network.all_say(self.filters(network, "points")[1] <= _MISFIT)
        if enough or self.length == filters.LONGEST:
            return self._replace(left=0, balanced=balanced)
        length = 2 * self.length
        return self._replace(length=length, left=_ROUNDS if balanced or length < _LONG else _MANY, balanced=balanced)


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
    (agents,); the next ``pace``; what neighbours hold, ``told``.
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


def average(network: "Network", pace: Pace, told: Told, own: Own) -> Averages:
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
    filtered = pace.balanced and pace.length > 1
    if filtered:
        c, rough = (pace.filters(network, what)[0].astype(v.dtype)[:, :, None] for what in ("points", "products"))
        held, held_Z = np.zeros_like(v), np.zeros_like(Z)
    about, probes = Told.nothing(Z), pace.probes.copy()
    for k in range(pace.length):
        n = pace.sent + k
        if filtered:
            held, held_Z = held + c[:, k] * v, held_Z + rough[:, k] * Z
        if not network.static:
            told, about = Told.nothing(v), Told.nothing(Z)
        searching = network.static and pace.left > 0 and n < (filters.LONGEST if pace.balanced else _ROUNDS)
        plain = np.concatenate([mass, mass * scalars] + ([probes[:, n]] if searching else []), axis=1)
        blocks = [Runs.nearest(v - told.sent, own.units)]
        if count:
            blocks.append(Runs.nearest(Z - about.sent, own.unit[:, None]))
        says = int(network.static)  # whether its mass is one, and its misfit small: two bits, counted as a number
        *mixed, plain = network.mix(n, *blocks, plain, beside=says)
        told = Told(told.sent + blocks[0].unpack(), told.mixed + mixed[0])
        v = v + (told.mixed - told.sent)
        if count:
            about = Told(about.sent + blocks[1].unpack(), about.mixed + mixed[1])
            Z = Z + (about.mixed - about.sent)
        mass, scalars = plain[:, :1], plain[:, 1:4] / plain[:, :1]
        if searching:
            probes[:, n + 1] = plain[:, 4:]
    if filtered:
        estimate, Z = held + c[:, -1] * v, held_Z + rough[:, -1] * Z
    else:
        estimate, Z = v / mass, Z / mass
    pace = pace._replace(last=pace.length, sent=pace.sent + pace.length, mass=mass, probes=probes).next(network)
    tau, fall, scale = np.sqrt(scalars[:, 0]), scalars[:, 1], scalars[:, 2]
    return Averages(estimate[:, :P], estimate[:, P:], v[:, P:], Z.reshape(agents, P, count), tau, fall, scale, pace, told)
