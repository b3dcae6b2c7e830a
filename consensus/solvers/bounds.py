"""What bounds on steps take from a problem and a network."""

from collections.abc import Iterator

import numpy as np
from scipy import sparse

import topologies
from consensus import _checks
from consensus.problems import BaseProblem
from topologies.schedules import ScheduleLike, is_static

_ROUNDS = 20  # looked at where matrices change
_CONTRACTION = 200  # rounds, half of them a warm-up


def refuse_batches(solver: object) -> None:
    """Raise ``TypeError`` if ``solver`` takes batches, of whose gradients no bound is known."""
    if getattr(solver, "batch", None) is not None:
        raise TypeError(f"{type(solver).__name__} has no bound on its step for batches from theory: give step=")


def steepest(problem: BaseProblem, network: ScheduleLike) -> float:
    """``L = max_i L_i`` over the agents of ``problem``: see :meth:`consensus.problems.BaseProblem.lipschitz`.

    Raises
    ------
    ValueError
        If it is zero: any step is stable then.
    TypeError
        If ``network`` is no schedule, as every bound is of one, whether it depends on it or not.
    """
    _checks.schedule(network, "network")
    largest = float(np.max(_checks.problem(problem).lipschitz()))
    if not largest > 0:
        raise ValueError("the costs have no curvature, so that every step is stable: give step=")
    return largest


def convexity(problem: BaseProblem) -> float:
    """``mu = min_i mu_i``, to six digits: see :meth:`consensus.problems.BaseProblem.strong_convexity`.

    Raises
    ------
    ValueError
        If it is not positive.
    """
    least = float(np.min(_checks.problem(problem).strong_convexity()))
    if not least > 0:
        raise ValueError(f"the agents' costs are not known to be strongly convex (mu = {least:.3g}): give convexity=, or an L2")
    return float(f"{least:.6g}")


def lowest_eigenvalue(network: ScheduleLike) -> float:
    """lmin, the lowest eigenvalue of the mixing matrices of the first 20 rounds, or of their symmetric parts.

    Examples
    --------
    >>> import topologies
    >>> from consensus.solvers.bounds import lowest_eigenvalue
    >>> round(lowest_eigenvalue(topologies.Static(topologies.ring(4))), 6)
    -0.333333
    """
    return min(topologies.lowest_eigenvalue((matrix + matrix.T) / 2) for matrix in _matrices(network))


def degrees(network: ScheduleLike) -> np.ndarray:
    """The agents' weighted degrees ``sum_{j != i} |w_ij|`` (A,), the largest in the first 20 rounds.

    Examples
    --------
    >>> import topologies
    >>> from consensus.solvers.bounds import degrees
    >>> degrees(topologies.Static(topologies.star(4))).tolist()
    [0.75, 0.25, 0.25, 0.25]
    """
    return np.max([abs(matrix).sum(axis=1) - abs(matrix.diagonal()) for matrix in _matrices(network)], axis=0)


def _matrices(network: ScheduleLike) -> Iterator[sparse.csr_array]:
    """The mixing matrices of the first 20 rounds, each once."""
    _checks.schedule(network, "network")
    keys = dict.fromkeys(network.key(n) for n in range(1 if is_static(network) else _ROUNDS))
    return map(network.weights, keys)


def gap(network: ScheduleLike) -> float:
    """1 - rho: the spectral gap of a static network; as measured over 200 rounds of one that changes.

    Raises
    ------
    ValueError
        If it is not positive: the agents do not come to agree.
    """
    static = is_static(_checks.schedule(network, "network"))
    found = (
        topologies.spectral_gap(network.weights(network.key(0)))
        if static
        else 1 - topologies.contraction(network, _CONTRACTION)
    )
    if not found > 1e-12:
        raise ValueError(
            f"no step is known for {network}, whose agents do not come to agree (spectral gap {found:.3g}): give step="
        )
    return float(found)
