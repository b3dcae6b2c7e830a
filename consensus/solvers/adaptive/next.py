"""AdaptiveNEXT: successive convex approximation that sets its own steps."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.solvers.adaptive import averaging, parts
from consensus.solvers.adaptive.averaging import exchange, first_exchange, introduction
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs

_MISFIT, _MISFIT_STATIC = 0.05, 0.01  # of the agents' averages after a round's exchanges
_START, _LEAST, _LARGEST = 3e-3, 1e-7, 1.0  # tau in units of H's trace
_POWER = 4  # by which tau is averaged: near its largest, for one agent's trouble is everyone's


class AdaptiveState(NamedTuple):
    """What the agents remember.

    Fields (agents, ...): the iterates ``w``, as agreed on in the last exchanges, with the network's ``slope`` there and the
    columns ``V`` of its curvature; the ``trial`` points, where the own ``cost``, ``gradient`` and curvature ``products`` were
    taken; trackers ``u``, ``y`` of the average cost and gradient; the network's ``total`` cost at w; push-sum's ``mass``;
    ``tau``, and the curvature's ``scale``; how many trials in a row were ``refused``; local solves in the round (``tries``) and
    columns of V in use (``pairs``); secant pairs (``steps``, ``changes``) where there is no Jacobian; what a static graph's
    mixing is fitted by (``fit``). ``pace`` is how many exchanges a round takes, ``sent`` how many there were.
    """

    round: int
    w: np.ndarray
    trial: np.ndarray
    cost: np.ndarray
    gradient: np.ndarray
    products: np.ndarray
    u: np.ndarray
    y: np.ndarray
    mass: np.ndarray
    total: np.ndarray
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
    """NEXT without settings: every local problem knows the network's curvature, and a step counts if U falls by it.

    A round is K exchanges, one local solve and one evaluation of the own cost, at a trial point x_i = w_i + d_i. What the
    agents exchange are the trial points, trackers y_i of the average gradient and u_i of the average cost, curvature products
    J_i' S_i J_i Omega with at most 64 random directions Omega, which all agents draw alike.
    :func:`consensus.solvers.adaptive.averaging.exchange` makes of them each agent's estimates w_i of the mean trial point, G_i
    of ``grad sum_j g_j``, T_i of ``sum_j g_j``, and Z_i of H Omega, with ``H = sum_j J_j' S_j J_j`` the Gauss-Newton
    curvature of all costs. Then agent i

    1.  compares the change of U from its last w_i to the new one, ``s . (G_old + G_new) / 2 + r(w_new) - r(w_old)`` (with T_new
        - T_old instead of the trapezoid, if that is larger and a rise by over a thousandth: the trapezoid is exact for short
        steps only), with what its model predicted for s = w_new - w_old: a ratio below 1/4 doubles tau_i, one above 3/4 divides
        it by three. If U rose, tau_i is multiplied by four, and unless it refused four in a row the agent goes back to its
        last w_i, whose G_i and V_i it still has (the trackers follow the trial points and notice nothing);
    2.  solves the local problem, with V_i V_i' the Nystrom approximation of H from Z_i,

            d_i = argmin_d  G_i . d + 1/2 |V_i' d|^2 + tau_i/2 |d|^2 + r(w_i + d) ,

        and doubles tau_i, at most twice, while its own cost at w_i + d_i is further from that of its own Gauss-Newton model
        than a quarter of the decrease promised (times 1/A; nothing is sent);
    3.  moves: x_i = w_i + d_i,  y_i <- (what mixing made of y_i) + grad g_i(x_i new) - grad g_i(x_i old).

    A quadratic r (L2) is part of the costs; L1, ElasticNet and others stay in step 2, whose points have their exact zeros.
    The fourth power of tau is averaged along with w, in units of a common scale: the mean is near the largest. Where there is
    no Jacobian (costs given by functions) V_i comes from the last 20 secant pairs (w_new - w_old, G_new - G_old), and nothing
    is tested in step 2. K is the first number of exchanges after which all have heard from all and the misfit of all
    averages is at most 1/100 on a static graph, 1/20 on a changing one. Directed graphs take push-sum's masses.

    *What agents find out for themselves*, all of it counted: K, in the first round, whose exchanges go on until all know it; on
    a static graph in the first two, for it takes a round of twice the diameter's exchanges (``introduction``) before all know
    the diameter, whether W is symmetric, and its least diagonal. *What they are given*: the problem's sizes A and N, their own
    number, whether the graph stands still, and on a changing one by how much more slowly, if so, than in the first K exchanges
    news crosses it in the next K.

    The history gets the columns ``tau_least``, ``tau_largest``, ``exchanges_a_round``, ``tries`` (the most local solves of an
    agent in the round) and ``pairs`` (the fewest columns of V in use).

    Notes
    -----
    *Fixed points are the stationary points of U.* Proved, for connected static graphs: at a fixed point mixing leaves the
    trackers as they are, so that all G_i equal ``G = sum_j grad g_j(x_j)``, and w_i = w is common, the mean of the x_j, hence
    ``sum_i d_i = 0``. Each d_i minimises a tau_i-strongly convex model, so ``G . d_i + r(w + d_i) - r(w) <= -tau_i |d_i|^2``;
    summed over i, with ``sum_i r(w + d_i) >= A r(w)`` by convexity, all d_i are zero: x_i = w, and w minimises each model,
    which says that -G is in the subdifferential of r. Conversely a stationary agreement, of the trackers too, gives d_i = 0
    and nothing moves, on changing graphs too (a start at such a w is left at first: trackers start at the own gradients).
    *Conserved*: ``sum_i mass_i`` = A and ``sum_i y_i`` = ``sum_i grad g_i(x_i)`` at every round,
    whatever the misfit of the averages. *Only observed*: convergence, from any start, on any network that stays connected.

    *Invariance.* Iterates stay the same, up to rounding, if the loss and r are multiplied by one number, and if agents are
    renumbered (beyond 256 agents with other random probes, where graphs change).

    *Memory.* An agent keeps what it held in the K exchanges of a round (2 K in the first): K (66 P + 256) numbers. On a static
    graph that is over after the third round.

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016; Scardapane, Di Lorenzo, Neural
    Networks 91, 2017, section 4, for partial linearization; Marquardt, "An algorithm for least-squares estimation of nonlinear
    parameters", J. SIAM 11(2), 1963, for tau; :func:`consensus.solvers.adaptive.curvature.factor` for V.

    Examples
    --------
    >>> import consensus, topologies
    >>> data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(data.X, data.y > 0, agents=10, scheme="sorted")
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.LogisticLoss(), shards, consensus.L2(0.01))
    >>> result = consensus.solve(problem, topologies.ring(10), AdaptiveNEXT(), rounds=20)
    >>> bool(result.history["stationarity"][-1] < 1e-9)
    True
    """

    needs = Needs(
        regularizer="prox_jvp", loss=("quadratic", "curvature_root"), mixing="column stochastic", counts_exchanges=True
    )
    sends = "mass, w, y, u, H Omega"
    columns = MappingProxyType(
        {"tau_least": np.min, "tau_largest": np.max, "exchanges_a_round": np.max, "tries": np.max, "pairs": np.min}
    )

    def report(self, state):
        pace = np.full_like(state.tau, state.pace)
        return np.stack([state.tau, state.tau, pace, state.tries, state.pairs], axis=1)

    def check(self, problem):
        parts.check(problem)

    def check_network(self, schedule):
        averaging.least_exchanges(schedule)

    def width(self, problem):
        _checks.problem(problem)
        return (2 + parts.columns(problem)) * problem.parameters + averaging.extra(problem.network_size) + 5

    def init(self, problem, w):
        _checks.problem(problem)
        cost, gradient, products = parts.evaluate(problem, w, 0)
        scale = parts.own_scale(problem, w, gradient, products)
        one, pairs = np.ones(len(w), w.dtype), parts.no_pairs(problem, w)
        modelled = products.shape[2] > 0
        return AdaptiveState(
            round=0, w=w, trial=w, cost=cost, gradient=gradient, products=products, u=cost, y=gradient, mass=one[:, None],
            total=0 * one, slope=0 * w,
            V=products if modelled else pairs, tau=scale * (_START if modelled else 1), scale=scale, refused=0 * one,
            tries=0 * one, pairs=0 * one, steps=pairs, changes=pairs, fit=np.zeros((len(w), 0), w.dtype), pace=0, sent=0,
        )  # fmt: skip

    def step(self, problem, network, state):
        n, A, P = state.round, network.agents, problem.parameters
        # Exchange: iterates (tau and its scale beside them) are averaged; trackers and curvature are summed over agents.
        averaged = np.column_stack([state.trial, (state.tau / state.scale) ** _POWER, state.scale])
        summed = np.concatenate([state.u[:, None], state.y, state.products.reshape(len(averaged), -1)], axis=1)
        target = _MISFIT_STATIC if network.static else _MISFIT
        if n == 0 and network.static:
            news = introduction(network, state.mass, averaged, summed, target)
        elif state.pace == 0:
            news = first_exchange(network, state.mass, averaged, summed, target, state.sent)
        else:
            news = exchange(network, state.sent, state.pace, state.fit, state.mass, averaged, summed)
        w, (power, scale), totals = news.averages[:, :P], news.averages[:, P:].T, A * news.sums
        scale = np.maximum(scale, 1e-3 * state.scale)
        tau = scale * np.maximum(power, _LEAST**_POWER) ** (1 / _POWER)
        total, slope, u, y = totals[:, 0], totals[:, 1 : P + 1], news.mixed[:, 0], news.mixed[:, 1 : P + 1]
        steps, changes = parts.secants(problem, state, w, slope)
        V = parts.network_curvature(problem, n, totals[:, P + 1 :], steps, changes)

        # 1. Judge the last trial.
        refused = state.refused
        if n > 0:
            tau, refused = parts.judge(problem, state, w, total, slope, tau)
            back = refused > 0
            pairs = (state.w, w), (state.total, total), (state.slope, slope), (state.V, V)
            w, total, slope, V = (_where(back, old, new) for old, new in pairs)
        tau = np.clip(tau, _LEAST * scale, _LARGEST * scale)

        # 2. Solve the local problem; 3. move.
        d, tau, tries = parts.directions(problem, w, slope, V, tau)
        trial = w + d
        cost, gradient, products = parts.evaluate(problem, trial, n + 1)
        return AdaptiveState(
            round=n + 1, w=w, trial=trial, cost=cost, gradient=gradient, products=products, u=u + cost - state.cost,
            y=y + gradient - state.gradient, mass=news.masses, total=total, slope=slope, V=V, tau=tau, scale=scale,
            refused=refused, tries=tries,
            pairs=V.any(axis=1).sum(axis=1).astype(w.dtype), steps=steps, changes=changes, fit=news.fit,
            pace=news.pace, sent=state.sent + news.done,
        )  # fmt: skip


def _where(chosen, a, b):
    """Rows of ``a`` where ``chosen`` (agents,), else of ``b``."""
    return np.where(chosen.reshape(-1, *(1,) * (a.ndim - 1)), a, b)
