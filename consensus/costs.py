"""Predict the seconds that a run would take on a network of yours, from the counts in its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls
from scipy.stats import norm

from consensus import _arguments, _checks
from consensus.history import History
from consensus.problems import BaseProblem, LazyProblem, Problem
from consensus.workers.blocks import blocks_by_load
from topologies.schedules import ScheduleLike, is_static

__all__ = ["Cluster", "Load", "load"]

_UNLIKE = 0.01  # of all bytes: by so much compressed messages may differ in length


class Load(NamedTuple):
    """The cumulated work of the busiest machine, one entry per recorded round; see :func:`load`.

    Attributes
    ----------
    exchanges : ndarray (rows,)
        Exchanges.
    bytes : ndarray (rows,)
        Bytes that it sends and receives.
    flops : ndarray (rows,)
        Floating-point operations of gradients and local solves.
    waits : float
        Number of machines that compute between exchanges, itself included.
    adds : ndarray (rows,) or float
        Numbers in vectors that it receives and adds up.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.costs import Cluster, Load
    >>> load = Load(exchanges=np.array([0, 1000]), bytes=np.array([0, 8e6]), flops=np.array([0, 2e9]), waits=3.0)
    >>> Cluster(latency=1e-3, bandwidth=1e8, flops=1e10).seconds(load).round(6).tolist()  # 1 + 0.08 + 0.2
    [0.0, 1.28]
    """

    exchanges: np.ndarray
    bytes: np.ndarray
    flops: np.ndarray
    waits: float
    adds: np.ndarray | float = 0.0


@dataclass(frozen=True)
class Cluster:
    """Equal machines, each with one link to a network without bottlenecks.

    The seconds of a run follow from the busiest machine's :class:`Load`:

        seconds = latency exchanges + bytes / bandwidth
                  + slowest(waits) (flops / flops per second + adds / adds per second) ,

    with slowest(n) the mean of the largest of n factors by which computing takes longer, log-normal with mean one and with
    ``stragglers`` the standard deviation of their logarithm: a machine that waits for others waits for the slowest.

    Parameters
    ----------
    latency : float
        Seconds of an exchange without its bytes, >= 0.
    bandwidth : float
        Bytes a second through a machine's link, both ways together, > 0.
    flops : float
        Floating-point operations a second of one machine, > 0: those of matrix products, which caches feed.
    stragglers : float
        >= 0; 0: all machines are equally fast at all times.
    adds : float, optional
        Numbers in vectors that one machine adds up in a second, > 0: limited by memory, often a hundredth of ``flops``. By
        default a quarter of ``flops``.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.costs import Cluster, Load
    >>> lan = Cluster(latency=1e-4, bandwidth=1e9, flops=1e10)
    >>> lan.seconds(Load(np.array([1000]), np.array([2e9]), np.array([3e10]), 10))
    array([5.1])
    """

    latency: float
    bandwidth: float
    flops: float
    stragglers: float = 0.0
    adds: float | None = None

    def __post_init__(self) -> None:
        _checks.number("latency", self.latency, least=0)
        for name in ("bandwidth", "flops", "adds"):
            value = getattr(self, name)
            if value is not None and not (
                isinstance(value, float) and value == np.inf
            ):  # a fit may find that something costs nothing
                _checks.number(name, value, above=0)
        _checks.number("stragglers", self.stragglers, least=0)

    def seconds(self, load: Load) -> np.ndarray:
        """Predict the seconds up to every recorded round.

        Parameters
        ----------
        load : Load
            Load of the busiest machine.

        Returns
        -------
        ndarray (rows,)
        """
        exchanges, size, operations, waits, numbers = _checked(load)
        work = operations / self.flops + numbers / (self.flops / 4 if self.adds is None else self.adds)
        seconds: np.ndarray = self.latency * exchanges + size / self.bandwidth + self.slowest(waits) * work
        return seconds

    def slowest(self, machines: float) -> float:
        """Return how much longer the slowest of some machines computes than one does on average.

        The mean of ``exp(s z - s^2 / 2)``, with s the stragglers and z the largest of n standard normal numbers, which is
        ``n int phi(z - s) Phi(z)^(n-1) dz``, by the trapezoidal rule.

        Parameters
        ----------
        machines : float
            Their number n, from 1 to 1e15.

        Returns
        -------
        float
        """
        _checks.number("machines", machines, least=1, most=1e15)
        if machines == 1 or not self.stragglers:
            return 1.0
        ends = self.stragglers, float(norm.isf(1 / machines))
        z = np.linspace(min(ends) - 9, max(ends) + 9, 4001)
        terms = np.log(machines) + norm.logpdf(z - self.stragglers) + (machines - 1) * norm.logcdf(z)
        return float(np.exp(terms).sum() * (z[1] - z[0]))

    @classmethod
    def fitted(cls, loads: Sequence[Load], seconds: ArrayLike) -> Self:
        """Return the cluster without stragglers that explains the measured seconds of runs best.

        Nonnegative least squares of the relative errors.

        Parameters
        ----------
        loads : sequence of Load
            At least three, unlike in their exchanges, bytes, flops and adds.
        seconds : array_like (runs,)
            Up to the ends of the runs.

        Returns
        -------
        Cluster
        """
        measured = _checks.floats("seconds", seconds)
        if not isinstance(loads, list | tuple):
            raise TypeError(f"loads must be a list of Load; got {_checks.shown(loads)}")
        if len(loads) < 3 or measured.shape != (len(loads),) or not (measured > 0).all():
            raise ValueError(
                f"seconds must be positive numbers, one for each of at least three loads; got {_checks.shown(seconds)}"
            )
        for load in loads:
            _checked(load)
        ends = np.array([[np.ravel(part)[-1] for part in (*load[:3], load.adds)] for load in loads], float)
        scale = np.maximum(ends.max(axis=0), 1)
        costs = nnls(ends / scale / measured[:, None], np.ones(len(loads)))[0] / scale
        with np.errstate(divide="ignore"):
            bandwidth, flops, adds = (float(1 / cost) for cost in costs[1:])
        return cls(float(costs[0]), bandwidth, flops, adds=adds)


def load(
    history: History, problem: BaseProblem, network: ScheduleLike | nx.Graph | None = None, machines: int | None = None
) -> Load:
    """Return the work of the busiest machine in a run.

    A sample's gradient takes 6 P operations (2 P forward, 4 P backward: exact for the matrix products of multilayer perceptrons
    with many samples). A local solve of an agent with n samples and o outputs, with q = min(P, n o), takes
    ``2 q^2 max(P, n o) + q^3 / 3`` to form and solve a linear system. Bytes are the history's ``bytes_busiest``, those of the
    busiest agent or server. Half of them are received, and the numbers in that half are added up. With a server an exchange
    goes both ways, with neighbours one way: double the ``exchanges`` if ``latency`` is that of a message.

    Parameters
    ----------
    history : History
        History of the run, ``result.history``.
    problem : Problem
        Problem of the run.
    network : schedule or networkx.Graph, optional
        Network of a run without a server: a machine waits for those of its agents' neighbours. By default all wait for all.
    machines : int, optional
        How many compute, each for a block of consecutive agents; by default one for each agent. With a ``network`` and fewer
        machines than agents, bytes are a part of the history's ``bytes``: agents of one machine send each other nothing, and a
        row goes to another machine once.

    Returns
    -------
    Load

    Raises
    ------
    ValueError
        If the history has no rows, or there are fewer agents than machines; or if a machine has several agents, and the edges
        of a static network did not all carry equally many bytes, as with sums over a tree.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.costs import load
    >>> parts = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(parts.X, parts.y, agents=4, seed=0)
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards)
    >>> history = consensus.solve(problem, topologies.ring(4), consensus.solvers.DGD(0.01), rounds=10).history
    >>> busiest = load(history, problem, topologies.ring(4))
    >>> int(busiest.exchanges[-1]), int(busiest.bytes[-1]), busiest.waits  # 11 numbers to and from two neighbours, each round
    (10, 3520, 3.0)
    """
    _checks.history(history)
    if not history.rows:
        raise ValueError("history has no rows: load takes that of a run, result.history")
    agents, parameters = _checks.problem(problem).agents, problem.parameters
    machines = agents if machines is None else _checks.count("machines", machines, most=agents)
    blocks = blocks_by_load(problem.load, machines)
    sizes = problem.shards.sizes if isinstance(problem, Problem | LazyProblem) else np.ones(agents)
    most = max(float(sizes[rows].sum()) for rows in blocks) / sizes.sum()  # of all samples, those of the busiest
    flops = 6.0 * parameters * most * history["samples"]
    several = max(rows.stop - rows.start for rows in blocks)
    outputs = getattr(problem.model, "outputs", 1)
    rows_of_jacobian = float(np.max(sizes)) * outputs
    q = min(float(parameters), rows_of_jacobian)
    flops = flops + several * history["solves"] * (2 * q**2 * max(parameters, rows_of_jacobian) + q**3 / 3)
    moved, whole, waits = history["bytes_busiest"], history["bytes"], float(machines)
    if network is not None:
        schedule = _arguments.schedule(network)
        share, waits = busiest(schedule, blocks)
        if machines < agents:
            alone, _ = busiest(schedule, blocks_by_load(problem.load, agents))
            if is_static(schedule) and (abs(moved - alone * whole) > _UNLIKE * whole).any():
                raise ValueError(
                    f"machines must be {agents}, one for each agent, because the edges of {schedule} did not all carry as "
                    f"much in this run; got {machines}"
                )
            moved = share * whole
    received = moved / (2 * np.maximum(whole, 1))  # of all that was sent
    return Load(history["exchanges"], moved, flops, waits, received * history["floats"])


def _checked(load: Load) -> Load:
    """Return ``load`` if it is one; raise ``TypeError`` otherwise."""
    offered: Load = _checks.offers("load", load, Load._fields, "a Load, as consensus.costs.load(history, problem) returns")
    return offered


_ROUNDS = 8  # whose graphs, the first, stand for a schedule's


def busiest(schedule: ScheduleLike, blocks: Sequence[slice]) -> tuple[float, float]:
    """Return the busiest machine's share of all messages, if edges carry equally many, and how many machines it waits for."""
    machines = len(blocks)
    of = np.repeat(np.arange(machines), [rows.stop - rows.start for rows in blocks])
    moved, received, messages = np.zeros(machines), np.zeros(machines), 0
    keys = [schedule.key(round) for round in range(_ROUNDS)]
    for key in keys:
        matrix = schedule.weights(key).tocoo()
        receiver, sender = (index[matrix.row != matrix.col] for index in (matrix.row, matrix.col))
        messages += len(sender)
        across = of[receiver] != of[sender]
        # A row goes to another machine once, however many of its agents need it.
        pairs = np.unique(np.stack([sender[across], of[receiver[across]]]), axis=1)
        moved += np.bincount(of[pairs[0]], minlength=machines) + np.bincount(pairs[1], minlength=machines)
        joined = np.unique(np.stack([of[receiver[across]], of[sender[across]]]), axis=1)
        received += np.bincount(joined[0], minlength=machines)
    return float(moved.max() / max(1, messages)), 1 + float(received.max()) / len(keys)
