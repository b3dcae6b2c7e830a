"""Averages over the network from a few exchanges of rounded numbers."""

from typing import NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.solvers.adaptive import filters

_MISFIT = 1 / 4  # of averages after a round's exchanges, that is small enough
ROUNDS = 8  # of one length, at least
_LONG = 8  # exchanges of a round that are enough where no misfit is known


class Memory(NamedTuple):
    """Memory of an agent's rows at its neighbours.

    Attributes
    ----------
    sent : ndarray (agents, columns)
        h, the sum of all that the agent has sent.
    mixed : ndarray (agents, columns)
        W h.
    """

    sent: np.ndarray
    mixed: np.ndarray

    @classmethod
    def empty(cls, rows: np.ndarray) -> "Memory":
        """Return the memory of neighbours to whom nothing was sent."""
        return cls(np.zeros_like(rows), np.zeros_like(rows))


class Pace(NamedTuple):
    """Number of exchanges in a round, and the state from which it is chosen.

    Attributes
    ----------
    length, last : int
        Exchanges of the next round, and of the last one.
    rounds : int
        Rounds of this length since the last decision.
    apart : ndarray (agents,)
        Number of these rounds in which the agent disagreed with others by more than its step.
    settled : ndarray of bool (agents,)
        Whether the averages are good enough.
    sent : int
        Exchanges so far.
    balanced : bool
        Whether the network is static and its W doubly stochastic, as far as is known.
    mass : ndarray (agents, 1)
        Masses; 1 at the start of a run.
    probes : ndarray (agents, 65, probes)
        Probes after 0 to ``probed`` exchanges, from which agents of a static network compute their weights.
    probed : int
        Exchanges that the probes have made.
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
        """Return the pace of the first round for the agents ``rows`` of a network."""
        own = filters.draw(agents)[rows]
        probes = np.zeros((len(own), filters.LONGEST + 1, own.shape[1]), np.float32)
        probes[:, 0] = own
        return cls(1, 0, 0, np.zeros(len(own)), np.zeros(len(own), bool), 0, True, np.ones((len(own), 1), dtype), probes, 0)

    def probing(self, network: Network) -> bool:
        """Return whether the next exchange mixes probes: as far as rounds of twice the length will need them."""
        return network.static and self.balanced and self.probed < min(2 * self.length, filters.LONGEST)

    def filters(self, network: Network, what: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the :func:`filters.weights` of a round, and their misfits."""
        return filters.weights(self.probes[:, : self.length + 1], filters.draw(network.agents).mean(axis=0), what)

    def next(self, network: Network, agree: np.ndarray) -> "Pace":
        """Return the pace after a round in which agents ``agree`` (agents,) to within their steps, or not.

        After every eight rounds of a length all agents decide together whether it doubles. It does unless averages are
        :meth:`good` enough and no agent disagreed in all of the eight. An agent that asks for longer rounds says so.
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
        """Return which agents' averages are good enough (agents,): by their misfits, or where none is known by the length."""
        if not self.balanced:
            return np.full(len(self.apart), self.length >= _LONG)
        return self.filters(network, "points")[1] <= _MISFIT


class Inputs(NamedTuple):
    """Inputs of every agent to the exchanges of a round.

    Attributes
    ----------
    points, trackers : ndarray (agents, P)
        Points w, and trackers.
    units : ndarray (agents, 2)
        Units of points and trackers, powers of two.
    products : ndarray (agents, P, count)
        Products with the curvature, of which nothing is kept from round to round.
    unit : ndarray (agents,)
        Unit of the products.
    tau : ndarray (agents,)
        Damping. Agents average tau^2: the root of the mean is near the largest, because one agent's trouble is everyone's.
    fall : ndarray (agents,)
        Decrease of the linear part of the model along the last step.
    scale : ndarray (agents,)
        Scale of the curvature.
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
    """Results of the exchanges of a round.

    Attributes
    ----------
    points : ndarray (agents, P)
        Estimates of the mean of the points.
    slope : ndarray (agents, P)
        Estimates G of the mean of the trackers.
    trackers : ndarray (agents, P)
        Mixed trackers, whose sum is kept.
    products : ndarray (agents, P, count)
        Estimates of the mean of the products.
    tau, fall, scale : ndarray (agents,)
        Estimates of the means of these inputs; for tau, the root of the mean square.
    pace : Pace
        Pace of the next round.
    memory : Memory
        The neighbours' memory.
    """

    points: np.ndarray
    slope: np.ndarray
    trackers: np.ndarray
    products: np.ndarray
    tau: np.ndarray
    fall: np.ndarray
    scale: np.ndarray
    pace: Pace
    memory: Memory


def average(network: Network, pace: Pace, memory: Memory, own: Inputs) -> Averages:
    """Make the exchanges of a round.

    Agent i holds v, its point times its mass and its tracker side by side. It sends whole multiples of its units, in as few
    bits as they take, and with Q(v) what its neighbours make of them

        v_i <- v_i + sum_j W_ij Q(v_j) - Q(v_i) ,       m_i <- sum_j W_ij m_j ,

    which keeps ``sum_i v_i`` for a column stochastic W, whatever Q loses. On a static network an agent sends differences from
    what its neighbours hold, ``Q(v) = h + rounded(v - h)``; on a changing one v itself, so that nobody needs a memory for
    each neighbour, and a lost message needs no answer. Estimates of the means are v / m after the last exchange, or on a static
    network with a doubly stochastic W the :func:`filters.weights` of what an agent held during the round.
    """
    agents, P, count = own.products.shape
    mass, Z = pace.mass, pace.mass * own.products.reshape(agents, P * count)
    v = np.concatenate([mass * own.points, own.trackers], axis=1)
    scalars = np.stack([np.square(own.tau), own.fall, own.scale], axis=1).astype(v.dtype)
    filtered = network.static and pace.balanced and pace.length > 1
    if filtered:
        c, c_Z = (pace.filters(network, what)[0].astype(v.dtype)[:, :, None] for what in ("points", "products"))
        sum_v, sum_Z = np.zeros_like(v), np.zeros_like(Z)
    memory_Z, pace = Memory.empty(Z), pace._replace(probes=pace.probes.copy())
    for k in range(pace.length):
        if filtered:
            sum_v, sum_Z = sum_v + c[:, k] * v, sum_Z + c_Z[:, k] * Z
        if not network.static:
            memory, memory_Z = Memory.empty(v), Memory.empty(Z)
        probing = pace.probing(network)
        plain = np.concatenate([mass, mass * scalars] + ([pace.probes[:, pace.probed]] if probing else []), axis=1)
        blocks = [network.rounded(v - memory.sent, own.units)]
        if count:
            blocks.append(network.rounded(Z - memory_Z.sent, own.unit[:, None]))
        # Two bits go along, counted as a number: whether its mass is one, and whether the agent asks for longer rounds.
        *mixed, plain = network.mix(pace.sent + k, *blocks, plain, beside=1)
        memory = Memory(memory.sent + blocks[0].unpack(), memory.mixed + mixed[0])
        v = v + (memory.mixed - memory.sent)
        if count:
            memory_Z = Memory(memory_Z.sent + blocks[1].unpack(), memory_Z.mixed + mixed[1])
            Z = Z + (memory_Z.mixed - memory_Z.sent)
        mass, scalars = plain[:, :1], plain[:, 1:4] / plain[:, :1]
        if probing:
            pace.probes[:, pace.probed + 1] = plain[:, 4:]
            pace = pace._replace(probed=pace.probed + 1)
    if filtered:
        estimate, Z = sum_v + c[:, -1] * v, sum_Z + c_Z[:, -1] * Z
    else:
        estimate, Z = v / mass, Z / mass
    pace = pace._replace(last=pace.length, sent=pace.sent + pace.length, mass=mass)
    tau, fall, scale = np.sqrt(scalars[:, 0]), scalars[:, 1], scalars[:, 2]
    return Averages(estimate[:, :P], estimate[:, P:], v[:, P:], Z.reshape(agents, P, count), tau, fall, scale, pace, memory)
