"""AdaptiveNEXT: successive convex approximation that sets its own steps."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.local.exact import low_rank
from consensus.problems import BaseProblem, has_model
from consensus.solvers.adaptive import curvature, judging, standardised
from consensus.solvers.adaptive.averaging import ROUNDS, Inputs, Memory, Pace, average
from consensus.solvers.adaptive.curvature import Curvature
from consensus.solvers.adaptive.filters import PROBES
from consensus.solvers.adaptive.judging import Step
from consensus.solvers.adaptive.local import solve
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs

_ALONE = 0.5  # the part of a step that agents take in the first rounds, of a single exchange each
_STIFFER = 16.0  # by which tau is multiplied at most where a step promises more
_GROWTH, _ESCAPE = 1.2, 2.0  # of what a step promises, over the last step's own and its mean, at most; without a model
_FALL = 0.8  # while rounds are of one and two exchanges and averages are rough
_LEAST_UNIT, _TINY = 1e-100, np.finfo(float).tiny ** 0.5
_LOST, _ROUGH = 0.05, 0.125  # by rounding: of the root of a step's decrease; of tau, by products


class AdaptiveState(NamedTuple):
    """State of the agents.

    Attributes
    ----------
    round : int
        Number of rounds so far.
    w : ndarray (agents, P)
        Trial points.
    gradient : ndarray (agents, P)
        Gradients of A times the own cost at ``w``.
    tracker : ndarray (agents, P)
        Trackers of the average of ``gradient`` over agents.
    pace : Pace
        Pace of exchanges.
    memory : Memory
        The neighbours' memory.
    M : Curvature
        Curvature of the network.
    step : Step
        Last step.
    grid : ndarray (agents, 3)
        Of which units are multiples by powers of two, the same for all agents.
    """

    round: int
    w: np.ndarray
    gradient: np.ndarray
    tracker: np.ndarray
    pace: Pace
    memory: Memory
    M: Curvature
    step: Step
    grid: np.ndarray


@dataclass(frozen=True)
class AdaptiveNEXT(Solver):
    """NEXT without settings: gossip of rounded numbers, curvature of the network, and steps that are judged.

    With ``f_i = A g_i + r``, of which U is the average (r is part of the f_i if it is quadratic, else of step 3), an agent has
    a trial point x_i, a tracker y_i of the average gradient, a damping tau_i and a matrix ``M_i = V V'`` of 64 columns, at
    first from the Gauss-Newton curvature of f_i. A round is

    1.  a few exchanges (``adaptive.averaging.average``), which give estimates w_i and G_i of the means of
        x and y, Z_i of products ``H_j O`` of the own Gauss-Newton curvatures with eight random directions O, the same for all
        agents, and tau_i from the mean of tau_i^2. Everything is sent in whole multiples of units;
    2.  a judgement of the last step (``adaptive.judging.judge``): tau_i halves or grows, and where U rose
        the agent goes back to its last w_i and G_i; then ``M <- M - M O (O'M O)^-1 O'M + Z (O'Z)^-1 Z'``, and the same with the
        last step and the change of G along it;
    3.  the local problem ``d_i = argmin_d G_i . d + 1/2 d'M_i d + tau_i/2 |d|^2 + r(w_i + d)``, with twice the tau, at most
        twice, while the own cost doubts its own model (``adaptive.local.solve``);
    4.  ``x_i = w_i + a d_i``,  ``y_i <- y_i + grad f_i(x_i new) - grad f_i(x_i old)``, with y_i as mixing left it.

    A round takes one exchange at first, with a = 1/2, later up to 64 (``adaptive.averaging.Pace.next``)
    with a = 1. Where ``F_i = r(w_i) - r(w_i + d_i) - G_i . d_i`` is over 1.2 times the larger of the last F_i and its mean over
    agents (twice where costs are functions; 0.8 times in rounds of one and two exchanges, while averages are rough), a
    is divided by the root of the excess, or tau_i multiplied by it, up to 16, if r is in step 3: points that drift apart stop
    each other. Multiplying the costs and r,
    or all parameters with the start, multiplies the iterates alike: no length is absolute. On a static network with a doubly
    stochastic W the agents find in the first exchanges which combination of what they held during a round is nearest to the
    average (``adaptive.filters.weights``).

    Nobody knows the network, and no agent is special; it may change, lose messages, or be directed (column stochastic weights;
    masses go along). Where costs are given by functions M comes from steps alone. The history gets the columns ``tau_least``,
    ``tau_largest``, ``exchanges_a_round`` and ``tries`` (the most local solves of an agent). Units, what is proved and what is
    only observed: ``docs/adaptive.md``.

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016; Scardapane, Di Lorenzo, Neural
    Networks 91, 2017, section 4, for partial linearization; Marquardt, "An algorithm for least-squares estimation of nonlinear
    parameters", J. SIAM 11(2), 1963, for tau; Gower, Richtarik, "Randomized quasi-Newton updates are linearly convergent matrix
    inversion algorithms", SIAM J. Matrix Anal. Appl. 38(4), 2017, section 5, for M, the block update of Broyden, Fletcher,
    Goldfarb and Shanno; Kempe, Dobra, Gehrke, "Gossip-based computation of aggregate information", FOCS 2003, for masses.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.solvers import AdaptiveNEXT
    >>> data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(data.X, data.y > 0, agents=10, scheme="sorted")
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.LogisticLoss(), shards, consensus.L2(0.01))
    >>> result = consensus.solve(problem, topologies.ring(10), AdaptiveNEXT(), rounds=80)
    >>> bool(result.history["stationarity"][-1] < 1e-9)
    True
    """

    needs = Needs(
        loss=("quadratic", "curvature_root"), mixing="column stochastic", counts_exchanges=True, deterministic=True, exact=True
    )
    sets_itself = True
    sends = "mass, w, y, H O: rounded"
    history_columns = MappingProxyType(
        {"tau_least": np.min, "tau_largest": np.max, "exchanges_a_round": np.max, "tries": np.max}
    )

    def report(self, state: AdaptiveState) -> np.ndarray:
        length = np.full(len(state.w), state.pace.last)
        return np.stack([state.step.tau, state.step.tau, length, state.step.tries], axis=1)

    def check(self, problem: BaseProblem) -> None:
        r = _checks.problem(problem).regularizer
        _checks.needs("AdaptiveNEXT", r, "quadratic", "squares", "strong_convexity", "active")
        if has_model(problem):
            standardised.warn_if_not(problem.shards, targets_too=problem.loss.quadratic)

    def width(self, problem: BaseProblem) -> int:
        P = _checks.problem(problem).parameters
        return (2 + min(curvature.DIRECTIONS, P)) * P + min(problem.network_size, PROBES) + 8

    def init(self, problem: BaseProblem, w: np.ndarray) -> AdaptiveState:
        gradient = _gradient(_checks.problem(problem), w)
        M = Curvature.at_start(problem, w, gradient, _weight(problem))
        size = np.maximum(np.linalg.norm(gradient, axis=1), _TINY)
        along = np.linalg.norm(M.times(gradient), axis=1) / size  # the first step is at most half of that down the own slope
        tau = np.maximum(np.maximum(judging.FIRST * M.scale, 2 * along), _TINY)
        fall = np.square(gradient).sum(axis=1) / tau
        step = Step(w, np.zeros_like(w), w, fall, tau, *np.zeros((2, len(w))))
        memory = Memory.empty(np.concatenate([w, w], axis=1))
        pace = Pace.at_start(problem.rows, problem.network_size, w.dtype)
        return AdaptiveState(0, w, gradient, gradient, pace, memory, M, step, np.ones((len(w), 3)))

    def step(self, problem: BaseProblem, network: Network, state: AdaptiveState) -> AdaptiveState:
        n, last, pace, weight, r = state.round, state.step, state.pace, _weight(problem), problem.regularizer
        # 1. Estimate the means of trial points, gradients and curvature.
        basis, products = curvature.products(problem, state.w, n)
        units = _units(state.w.shape[1], last, state.M.scale)
        grid = state.grid if n else _agreed(network, units)
        units = _on(grid, units)
        own = Inputs(state.w, state.tracker, units[:, :2], products, units[:, 2], last.tau, last.fall, state.M.scale)
        found = average(network, pace, state.memory, own)
        w, slope, tau, scale = found.points, found.slope, found.tau, np.maximum(state.M.scale, found.scale)
        # 2. Judge the last step, and learn of the curvature.
        M = state.M.corrected(basis, found.products, np.ones(len(w), bool)) if basis.size else state.M
        refused, length = last.refused, np.full(len(w), _ALONE if n < ROUNDS else 1.0)
        agree = np.ones(len(w), bool)
        if n:
            settled = pace.settled & (basis.size > 0)  # without products M is of steps alone, and tau would outgrow it
            verdict = judging.judge(problem, last, w, slope, state.M, scale, weight, settled)
            agree, tau, back = verdict.agree, tau * verdict.factor, verdict.refused[:, None]
            w, slope = np.where(back, last.w, w), np.where(back, last.slope, slope)
            refused = np.where(verdict.refused, last.refused + 1, 0.0)
            M = M.corrected(verdict.step, verdict.change, verdict.counts)
        # 3. Solve the local problem.
        d, tau, tries = solve(problem, w, slope, M, judging.limited(tau, scale), weight, length)
        fall = judging.promise(r, w, d, slope)
        growth = np.where(pace.settled | (pace.length > 2), _GROWTH if basis.size else _ESCAPE, _FALL)
        before = np.maximum(last.fall, found.fall)  # zero until points have mixed, where all start at their own minimisers
        most = np.where((before > 0) & (n > 0), np.maximum(growth * before, np.finfo(float).tiny), np.inf)
        if r.quadratic:
            length = length / np.sqrt(np.maximum(1, fall / most))
        elif (fall > most).any():  # a shorter step would leave the zeros, or the set, that r gives w + d
            tau = judging.limited(tau * np.clip(fall / most, 1, _STIFFER), scale)
            d = low_rank(M.V, tau, w, slope, r)
        # 4. Move, and track.
        trial = (w + length[:, None] * d).astype(state.w.dtype)
        gradient = _gradient(problem, trial)
        step = Step(w, slope, trial, np.minimum(fall, most), tau, refused, tries)
        tracker = found.trackers + (gradient - state.gradient)
        return AdaptiveState(n + 1, trial, gradient, tracker, found.pace.next(network, agree), found.memory, M, step, grid)


def _weight(problem: BaseProblem) -> float:
    """Return lambda of a quadratic r, which is part of the costs; 0 where r is another."""
    r = problem.regularizer
    return r.strong_convexity if r.quadratic else 0.0


def _gradient(problem: BaseProblem, w: np.ndarray) -> np.ndarray:
    """Return ``A grad g_i(w_i)``, plus the gradient of a quadratic r."""
    return curvature.own_gradient(problem, w) + _weight(problem) * w


def _units(P: int, step: Step, scale: np.ndarray) -> np.ndarray:
    """Return the units (agents, 3), about, of trial points, of trackers, and of products with the curvature.

    Rounding products to theirs moves M by 2-norms of tau / 8.
    """
    count, fall, tau = max(1, min(curvature.DIRECTIONS, P)), np.maximum(step.fall, 0), step.tau
    points, trackers = (np.sqrt(12 * _LOST**2 * fall * x) for x in (1 / (scale + P * tau), tau / P))
    return np.stack([points, trackers, _ROUGH * np.sqrt(12) / (np.sqrt(P) + np.sqrt(count)) * tau], axis=1)


def _agreed(network: Network, units: np.ndarray) -> np.ndarray:
    """Return the grid (agents, 3): the least units of points and products at the start, and for trackers their product."""
    known = np.where(units > 0, units, np.inf)
    points, products = (network.flooding.minimum(0, 0, known[:, k]) for k in (0, 2))
    grid = np.array([points, points * products, products])
    return np.zeros_like(units) + np.where(np.isfinite(grid) & (grid > 0), grid, 1.0)


def _on(grid: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return multiples of ``grid`` by powers of two, from 0.42 to 0.84 ``units``: finer ones hold all coarser ones.

    So a number that was sent is not rounded again, by whomever, and the power does not depend on the last bit of a unit.
    """
    powers = np.floor(np.log2(np.maximum(units, _LEAST_UNIT) / grid) - 0.25).astype(int)
    found: np.ndarray = np.ldexp(grid, powers)
    return found
