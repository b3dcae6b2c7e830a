"""AdaptiveNEXT: successive convex approximation that sets its own steps."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from consensus.solvers import adaptive_parts as parts
from consensus.solvers import fitted
from consensus.solvers.base import Solver
from consensus.solvers.fitted import exchange, first_exchange

_MISFIT = 0.05  # of the agents' averages after a round's exchanges
_START, _LEAST, _LARGEST = 3e-3, 1e-7, 1.0  # tau in units of the curvature's scale


class AdaptiveState(NamedTuple):
    """What the agents remember.

    Fields (agents, ...): the iterates ``w``, as agreed on in the last exchanges, with the network's ``slope`` there and the
    columns V of its curvature; the ``trial`` points, where the own costs' ``gradient`` and ``products`` were taken; trackers
    ``y`` of the sum of gradients; push-sum's ``mass``; ``tau`` and the curvature's ``scale``; whether the last trial was
    ``refused``; local solves in the round (``tries``) and the columns in use (``pairs``); secant pairs (``steps``,
    ``changes``) where there is no Jacobian. ``pace`` is how many exchanges a round takes, ``sent`` how many there were.
    """

    round: int
    w: np.ndarray
    trial: np.ndarray
    gradient: np.ndarray
    products: np.ndarray
    y: np.ndarray
    mass: np.ndarray
    slope: np.ndarray
    V: np.ndarray
    tau: np.ndarray
    scale: np.ndarray
    refused: np.ndarray
    tries: np.ndarray
    pairs: np.ndarray
    steps: np.ndarray
    changes: np.ndarray
    fit: np.ndarray
    pace: int
    sent: int


@dataclass(frozen=True)
class AdaptiveNEXT(Solver):
    """NEXT without settings: the network's curvature in every local problem, steps that are tried before they count.

    In a round the agents exchange K times what :func:`consensus.solvers.fitted.exchange` averages: their trial points, the
    trackers y_i of the gradient, and curvature products, from which each has estimates of w, of ``G = grad(sum_i g_i)`` and
    of ``H Omega = sum_i J_i' S_i J_i Omega`` for random directions Omega that all draw alike. Then agent i

    1.  compares the decrease of U that its last trial brought, by the trapezoid rule on G, with the predicted one: below a
        quarter tau_i doubles, above three quarters it falls to a third; a trial that rose is refused once, tau_i times four:
        the agent starts again from its last w_i, for which it still has G and H;
    2.  solves ``d_i = argmin_d G . d + 1/2 |V' d|^2 + tau_i/2 |d|^2 + r(w_i + d)``, where V V' is the Nystrom approximation of
        H by H Omega; while its own cost at w_i + d_i is further from its own linearised model than the predicted decrease,
        tau_i doubles (at most six times; nothing is sent);
    3.  takes w_i + d_i for its next trial point, and adds to y_i what its gradient changes by.

    tau is averaged, in the logarithm, along with all else. A quadratic r (L2) is part of the costs. Where there is no
    Jacobian (a problem given by functions) V comes from the last secant pairs (w - w', G - G') instead.

    K is found in the first round: agents exchange until the averages of all are within a tenth. Everything is counted.

    Notes
    -----
    *Fixed points.* Proved, for connected graphs: at a fixed point all y_i equal A/A times one G, since what is mixed to
    itself is common, and w_i + d_i average to the common w. As d_i minimises a strongly convex model,
    ``G . d_i + r(w + d_i) - r(w) <= -tau_i |d_i|^2``; the mean over i, with r convex and mean d_i = 0, leaves d_i = 0: w is
    stationary for U. Conversely at a stationary agreement G = 0 (or -G is in the subdifferential of r), d_i = 0, and nothing
    moves. Mixing keeps ``sum_i y_i = sum_i grad g_i`` at every round whatever the averages' misfit, which vanishes with the
    disagreement. Only observed: convergence from any start.

    *Invariance.* If the loss and r are multiplied by one number, the iterates stay the same, but for rounding.

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016; Scardapane, Di Lorenzo, Neural
    Networks 91, 2017, section 4; Marquardt, "An algorithm for least-squares estimation of nonlinear parameters", J. SIAM
    11(2), 1963, for tau; :func:`consensus.curvature.factor` for V.

    Examples
    --------
    >>> import consensus, topologies
    >>> X, y = consensus.datasets.load("diabetes")
    >>> data = consensus.datasets.split(X, y)
    >>> shards = consensus.partition(data.X, data.y, agents=10, scheme="sorted")
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    >>> result = consensus.solve(problem, topologies.ring(10), rounds=20)
    >>> bool(result.history["stationarity"][-1] < 1e-9)
    True
    """

    State = AdaptiveState
    mixing = "column stochastic"
    columns = MappingProxyType(
        {"tau_least": np.min, "tau_largest": np.max, "exchanges_a_round": np.max, "tries": np.max, "pairs": np.min}
    )

    def report(self, state):
        pace = np.full_like(state.tau, state.pace)
        return np.stack([state.tau, state.tau, pace, state.tries, state.pairs], axis=1)

    def check(self, problem):
        parts.check(problem)

    def width(self, problem):
        return (2 + parts.columns(problem)) * problem.parameters + fitted.EXTRA + 4

    def init(self, problem, w):
        gradient, products = parts.evaluate(problem, w, 0)
        scale = parts.own_scale(problem, w, gradient, products)
        one, pairs = np.ones(len(w), w.dtype), parts.no_pairs(problem, w)
        return AdaptiveState(
            round=0, w=w, trial=w, gradient=gradient, products=products, y=gradient, mass=one[:, None], slope=0 * w,
            V=products if products.size else pairs, tau=scale * (_START if products.size else 1), scale=scale, refused=0 * one, tries=0 * one,
            pairs=0 * one, steps=pairs, changes=pairs, fit=np.zeros((len(w), 0), w.dtype), pace=0,
            sent=0,
        )  # fmt: skip

    def step(self, problem, network, state):
        n, A, P = state.round, network.agents, problem.parameters
        # Exchange: iterates (tau and its scale beside them) are averaged; trackers and curvature are summed over agents.
        averaged = np.column_stack([state.trial, np.log(state.tau), state.scale])
        summed = np.concatenate([state.y, state.products.reshape(len(averaged), -1)], axis=1)
        if n == 0:
            news = first_exchange(network, state.mass, averaged, summed, _MISFIT)
        else:
            news = exchange(network, state.sent, state.pace, state.fit, state.mass, averaged, summed)
        w, (tau, scale), totals = news.averages[:, :P], news.averages[:, P:].T, A * news.sums
        tau, scale = np.exp(tau), np.maximum(scale, 1e-3 * state.scale)
        slope, y = totals[:, :P], news.mixed[:, :P]
        steps, changes = parts.secants(problem, state, w, slope)
        V = parts.network_curvature(problem, n, totals[:, P:], steps, changes)

        # 1. Judge the last trial.
        refused = state.refused
        if n > 0:
            tau, refused = parts.judge(problem, state, w, slope, tau)
            back = refused > 0
            w, slope, V = (_where(back, old, new) for old, new in ((state.w, w), (state.slope, slope), (state.V, V)))
        tau = np.clip(tau, _LEAST * scale, _LARGEST * scale)

        # 2. Solve the local problem; 3. move.
        d, tau, tries = parts.directions(problem, w, slope, V, tau)
        trial = w + d
        gradient, products = parts.evaluate(problem, trial, n + 1)
        return AdaptiveState(
            round=n + 1, w=w, trial=trial, gradient=gradient, products=products, y=y + gradient - state.gradient,
            mass=news.masses, slope=slope, V=V, tau=tau, scale=scale, refused=refused, tries=tries,
            pairs=V.any(axis=1).sum(axis=1).astype(w.dtype), steps=steps, changes=changes, fit=news.fit,
            pace=news.pace, sent=state.sent + news.done,
        )  # fmt: skip


def _where(chosen, a, b):
    """Rows of ``a`` where ``chosen`` (agents,), else of ``b``."""
    return np.where(chosen.reshape(-1, *(1,) * (a.ndim - 1)), a, b)
