"""Privacy loss of noisy gradients, in terms of differential privacy."""

import math

import networkx as nx
import numpy as np

from consensus import _arguments, _checks
from topologies.pattern import off_diagonal
from topologies.schedules import ScheduleLike

_MOST = 1e6  # correlated noise, in units of the other: the inverse below has its first digits


def epsilon(
    network: ScheduleLike | nx.Graph,
    gradients: int,
    clip: float,
    noise: float,
    correlated: float = 0.0,
    delta: float = 1e-5,
) -> float:
    """Return the epsilon of (epsilon, delta)-differential privacy of all data of one agent, against who sees all messages.

    It is that of runs on ranks, where each agent's noise is its own secret: see :class:`Private`. A simulation in one process
    has none, as all noise follows from its seed; what is returned then is what such a run on ranks would have.

    Every agent takes T gradients of norm at most C. To each it adds independent Gaussian noise of standard deviation s, and for
    each of its edges correlated noise of standard deviation c, which its neighbour subtracts. With the graph's Laplacian L

        e = 2 C^2 max_i [(s^2 I + c^2 L)^-1]_ii,        epsilon = T e + 2 sqrt(T e log(1 / delta)) .

    An agent's whole data may be exchanged for others: gradients then move by 2 C at most. The adversary sees all
    that agents send, and knows the noise of no edge; an agent knows that of its own edges, which hide nothing from it.
    Composition is that of Renyi divergences, which are alpha e for a gradient, minimised over alpha.

    Parameters
    ----------
    network : schedule or networkx.Graph
        The network, whose edges have the correlated noise.
    gradients : int
        T, the ``gradients`` of a run's history.
    clip, noise : float
        C and s, both > 0.
    correlated : float
        Standard deviation c, at least 0.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Epsilon.

    Raises
    ------
    ValueError
        If a number, or epsilon, is out of range.

    References
    ----------
    Allouah, Koloskova, El Firdoussi, Jaggi, Guerraoui, "The privacy power of correlated noise in decentralized learning",
    ICML 2024, for the correlated noise; Mironov, "Renyi differential privacy", CSF 2017, Proposition 3 for the conversion.

    Examples
    --------
    >>> import topologies
    >>> from consensus.privacy import epsilon
    >>> round(epsilon(topologies.ring(16), 1000, clip=1.0, noise=107.35), 2)
    3.0
    >>> round(epsilon(topologies.ring(16), 1000, clip=1.0, noise=28.0, correlated=1074.0), 2)
    2.89
    """
    schedule = _arguments.schedule(network)
    count, settings = _checks.count("gradients", gradients), checked(clip, noise, correlated)
    if settings[2] > _MOST * settings[1]:
        raise ValueError(
            f"correlated must be at most {_MOST:g} times noise, as rounding hides noise beside larger numbers; got "
            f"{correlated:g} with noise={noise:g}: take correlated={_MOST:g} * noise"
        )
    surprise = math.log(1 / _checks.number("delta", delta, above=0, below=1))
    try:
        total = count * divergence(schedule, *settings)
        found = total + 2 * math.sqrt(total * surprise)
    except (OverflowError, np.linalg.LinAlgError):
        found = math.inf
    if not found < math.inf:
        raise ValueError(
            f"clip, noise and correlated must have squares, and an epsilon, that are floats; got {clip:g}, {noise:g} and "
            f"{correlated:g}: only their ratios count, so take noise=1, and clip below 1e100"
        )
    return found


def divergence(schedule: ScheduleLike, clip: float, noise: float, correlated: float) -> float:
    """Return ``e = 2 C^2 max_i [(s^2 I + c^2 L)^-1]_ii``: a gradient has Renyi divergence alpha e of order alpha."""
    covariance = noise**2 * np.eye(schedule.agents)
    if correlated:
        first, second = noisy_edges(schedule)
        degrees = np.bincount(np.concatenate([first, second]), minlength=schedule.agents)
        laplacian = np.diag(degrees).astype(float)
        laplacian[first, second] = laplacian[second, first] = -1
        covariance += correlated**2 * laplacian
    return 2 * clip**2 * float(np.linalg.inv(covariance).diagonal().max())


def noisy_edges(schedule: ScheduleLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges i < j of the network, in order."""
    pattern = off_diagonal(schedule.weights(schedule.key(0)))
    first, second = (pattern + pattern.T).nonzero()
    kept = first < second
    order = np.lexsort((second[kept], first[kept]))
    return first[kept][order], second[kept][order]


def checked(clip: float, noise: float, correlated: float) -> tuple[float, float, float]:
    """Return the numbers; raise ``ValueError`` if one is out of range."""
    return (
        _checks.number("clip", clip, above=0),
        _checks.number("noise", noise, above=0),
        _checks.number("correlated", correlated, least=0),
    )
