"""Curvature and spectral constants used by the default step sizes."""

from collections.abc import Callable, Iterator

import numpy as np
from scipy import sparse

import topologies
from consensus import _checks
from consensus.problems import BaseProblem, has_model
from topologies.schedules import ScheduleLike, is_static

_BELOW, _ESTIMATED = 0.9, 0.5  # shares of a bound: where L is one, and where L is an estimate
_CONDITION = 1e4  # at most assumed, where more or nothing is known
_DENSE = 300  # agents whose W is decomposed as a whole
_ROUNDS = 20  # looked at where matrices change
_CONTRACTION = 200  # rounds, half of them a warm-up


def refuse_batches(solver: object) -> None:
    """Raise ``TypeError`` if ``solver`` takes batches, of whose gradients no bound is known."""
    if getattr(solver, "batch", None) is not None:
        raise TypeError(f"{type(solver).__name__} has no bound on its step for batches from theory: give step_size=")


def refuse_directions(solver: object) -> None:
    """Raise ``TypeError`` if ``solver`` has a direction, for whose steps no bound is known."""
    if (direction := getattr(solver, "direction", None)) is not None:
        name = type(direction).__name__
        raise TypeError(f"{type(solver).__name__} has no bound on its step with direction={name} from theory: give step_size=")


def steepest(problem: BaseProblem, network: ScheduleLike) -> float:
    """Return ``L = max_i L_i`` over the agents: see :meth:`consensus.problems.BaseProblem.lipschitz`."""
    return float(_curvatures(problem, network).max())


def _curvatures(problem: BaseProblem, network: ScheduleLike) -> np.ndarray:
    """Return the L_i; raise ``ValueError`` if all are zero, ``TypeError`` if ``network`` is no schedule."""
    _checks.schedule(network, "network")
    found = _checks.problem(problem).lipschitz()
    if not found.max() > 0:
        raise ValueError("the costs have no curvature, so that every step is stable: give step_size=")
    return found


def step_below(
    problem: BaseProblem, network: ScheduleLike, bound: Callable[[np.ndarray], np.ndarray], balance: Callable[[float], float]
) -> float:
    """Return 0.9 of the largest alpha with ``alpha diag(L_1, ..., L_A) <= bound(W)``, or ``balance(...)`` if that is less.

    The first is an edge for methods that, on quadratics with Hessians H = diag(H_1, ..., H_A) of the f_i, are a linear
    recursion in X_k, X_{k+1}, ... whose coefficients are functions of W plus multiples of alpha H. A root z with a vector x is
    one of the scalar recursion with the Rayleigh quotients of x in place of the matrices: if that is stable for ``alpha x* H x
    < x* bound(W) x``, the method is for every alpha below the edge, however the H_i differ. With equal Hessians it is the
    largest alpha with ``alpha L <= bound(l)`` for all eigenvalues l of W. The second, ``balance(1 - lambda_2) / sqrt(mu L)``,
    is where disagreement and mean shrink equally fast.

    For models that are not linear, whose L_i are estimates, it is 0.5 of the edge. More than 300 agents all count with the
    largest L_i. If W changes it is the least edge of the first 20 rounds, times (1 - rho)^2 / 2, without the second. W that are
    not symmetric are represented by their symmetric parts. ``bound`` takes eigenvalues l in [-1, 1], an array, and has its
    least value in an interval at an end.
    """
    limits = _curvatures(problem, network)
    largest = float(limits.max())
    edge = min(_edge(matrix, limits / largest, bound) for matrix in _symmetric(network)) / largest
    stable = (_BELOW if is_linear(problem) else _ESTIMATED) * edge
    if not is_static(network):
        return gap(network) ** 2 / 2 * stable
    return min(stable, balance(slowness(network)) / middle_curvature(problem, largest))


def step_of_least(
    problem: BaseProblem, network: ScheduleLike, linear: float, other: float, balance: Callable[[float], float]
) -> float:
    """Return ``linear / L``, or ``balance(1 - lambda_2) / sqrt(mu L)`` if less; ``other`` for models that are not linear."""
    largest = steepest(problem, network)
    stable = (linear if is_linear(problem) else other) / largest
    return min(stable, balance(slowness(network)) / middle_curvature(problem, largest))


def _edge(matrix: sparse.csr_array, limits: np.ndarray, bound: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the largest x with ``x diag(limits) <= bound(matrix)``."""
    with np.errstate(divide="ignore"):
        if len(limits) > _DENSE:
            return float(bound(np.array([topologies.lowest_eigenvalue(matrix), 1.0])).min())
        values, vectors = np.linalg.eigh(matrix.toarray())
        bounds, scaled = bound(values), np.sqrt(limits)[:, None] * vectors
        return float(1 / np.linalg.eigvalsh(scaled / bounds @ scaled.T)[-1]) if bounds.min() > 0 else 0.0


def is_linear(problem: BaseProblem) -> bool:
    """Return whether the L_i are bounds, not estimates at one point as those of models that are not linear are."""
    return not has_model(problem) or problem.model.jacobian_is_constant


def six_digits(setting: float) -> float:
    """Return a setting that theory gives, to six digits: the same on every engine, and what users can copy from a repr."""
    return float(f"{setting:.6g}")


def middle_curvature(problem: BaseProblem, largest: float) -> float:
    """Return ``sqrt(mu L)``, with L the ``largest`` of the Lipschitz constants, and mu the mean of the agents' moduli.

    The mean of the f_i is mu-strongly convex, if not more. mu is at least L / 10^4, also if nothing is known of it.
    """
    try:
        least = float(np.mean(problem.strong_convexity()))
    except TypeError:  # costs that need not be convex
        least = 0.0
    return float(np.sqrt(max(least, largest / _CONDITION) * largest))


def convexity(problem: BaseProblem) -> float:
    """Return ``mu = min_i mu_i``, to six digits; raise ``ValueError`` if it is not positive."""
    least = float(np.min(_checks.problem(problem).strong_convexity()))
    if not least > 0:
        raise ValueError(f"the agents' costs are not known to be strongly convex (mu = {least:.3g}): give convexity=, or an L2")
    return six_digits(least)


def lowest_eigenvalue(network: ScheduleLike) -> float:
    """Return lmin, the lowest eigenvalue of the mixing matrices of the first 20 rounds, or of their symmetric parts."""
    return min(map(topologies.lowest_eigenvalue, _symmetric(network)))


def spread(network: ScheduleLike) -> float:
    """Return ``1 - lmin(W)``, or 1 for one agent; raise ``ValueError`` if W is the identity of several, who never agree."""
    found = 1 - lowest_eigenvalue(network)
    return 1.0 if network.agents == 1 else _positive(found, network)


def degrees(network: ScheduleLike) -> np.ndarray:
    """Return the agents' weighted degrees ``sum_{j != i} |w_ij|`` (A,), the largest in the first 20 rounds."""
    found = [abs(matrix).sum(axis=1) - abs(matrix.diagonal()) for matrix in _matrices(network)]
    return np.asarray(np.max(found, axis=0))


def _matrices(network: ScheduleLike) -> Iterator[sparse.csr_array]:
    """Return the mixing matrices of the first 20 rounds, each once."""
    _checks.schedule(network, "network")
    keys = dict.fromkeys(network.key(n) for n in range(1 if is_static(network) else _ROUNDS))
    return map(network.weights, keys)


def _symmetric(network: ScheduleLike) -> Iterator[sparse.csr_array]:
    """Return their symmetric parts."""
    return ((matrix + matrix.T) / 2 for matrix in _matrices(network))


def slowness(network: ScheduleLike) -> float:
    """Return 1 - lambda_2, with the second largest eigenvalue of a static W; of a network that changes :func:`gap`."""
    if not is_static(_checks.schedule(network, "network")):
        return gap(network)
    matrix = network.weights(network.key(0))
    return _positive(2 * topologies.spectral_gap((matrix + sparse.eye_array(network.agents)) / 2), network)


def gap(network: ScheduleLike) -> float:
    """Return 1 - rho: the spectral gap of a static network; as measured over 200 rounds of one that changes."""
    if is_static(_checks.schedule(network, "network")):
        return _positive(topologies.spectral_gap(network.weights(network.key(0))), network)
    return _positive(1 - topologies.contraction(network, _CONTRACTION), network)


def _positive(gap: float, network: ScheduleLike) -> float:
    """Return the gap, or raise ``ValueError`` if it is zero: the agents do not come to agree."""
    if not gap > 1e-12:
        raise ValueError(
            f"no step is known for {network}, whose agents do not come to agree (spectral gap {gap:.3g}): give step_size="
        )
    return float(gap)
